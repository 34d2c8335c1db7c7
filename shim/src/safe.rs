//! Reads of memory that may not be there.
//!
//! What another program part left behind, an interpreter's structures or a stack, is read through pointers that nobody vouches for. Each
//! page is asked of the kernel before it is read for the first time, and again every quarter of a second: a wild pointer costs a
//! stack its frames, not the program its life. What is left is a page that is unmapped by another thread within that time, and
//! which something still points to.

use crate::process::Process;
use crate::sync::{AtomicU64, Ordering};
use crate::sys;

/// Places for pages that were found to be readable; a power of two.
const PLACES: usize = 4096;
/// Addresses of a program begin below this.
const USER: u64 = 1 << 47;
const PAGE_BITS: u32 = 12;

/// Pages that were found to be readable, with the time.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Pages([AtomicU64; PLACES]);

/// Reads at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'p> {
    pages: &'p Pages,
    epoch: u64,
}

impl<'p> Reader<'p> {
    /// Reads at this CLOCK_MONOTONIC time.
    #[inline]
    pub(crate) fn new(process: &'p Process, at_ns: u64) -> Self {
        Self {
            pages: &process.pages,
            // Never 0, which is what empty places hold.
            epoch: (at_ns >> 28 & 0x7fff) + 1,
        }
    }

    /// Whether `len` bytes (at most a page) at an address can be read.
    #[inline(always)]
    pub(crate) fn holds(self, at: u64, len: u64) -> bool {
        let last = at.wrapping_add(len - 1);
        if at >= USER || last >= USER {
            return false;
        }
        let (first, last) = (at >> PAGE_BITS, last >> PAGE_BITS);
        self.page(first) && (first == last || self.page(last))
    }

    #[inline(always)]
    fn page(self, page: u64) -> bool {
        let wanted = page << 16 | self.epoch;
        let place = &self.pages.0[page as usize % PLACES];
        place.load(Ordering::Relaxed) == wanted || Self::ask(place, page, wanted)
    }

    #[cold]
    fn ask(place: &AtomicU64, page: u64, wanted: u64) -> bool {
        let readable = sys::is_readable(page << PAGE_BITS);
        if readable {
            place.store(wanted, Ordering::Relaxed);
        }
        readable
    }

    /// A value at an address; `None` where nothing can be read.
    #[inline(always)]
    pub(crate) fn value<T: Plain>(self, at: u64) -> Option<T> {
        if !self.holds(at, size_of::<T>() as u64) {
            return None;
        }
        // SAFETY: the kernel said that the bytes can be read, and every bit pattern is a `T`.
        Some(unsafe { (at as *const T).read_unaligned() })
    }

    /// Bytes at an address, as many as fit into `into`; `None` where one of them cannot be read.
    pub(crate) fn bytes(self, at: u64, into: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < into.len() {
            let from = at.wrapping_add(done as u64);
            let to_page_end = (1 << PAGE_BITS) - (from as usize & ((1 << PAGE_BITS) - 1));
            let len = to_page_end.min(into.len() - done);
            if !self.holds(from, len as u64) {
                return None;
            }
            let part = into.get_mut(done..done + len)?;
            // SAFETY: as above; the program's memory and the buffer do not overlap.
            unsafe {
                core::ptr::copy_nonoverlapping(from as *const u8, part.as_mut_ptr(), len);
            }
            done += len;
        }
        Some(())
    }
}

/// Types of which every bit pattern is a value.
pub(crate) trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for i32 {}
impl Plain for u32 {}
impl Plain for u64 {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason for this module: reads of what is not there answer, and do not fault.
    #[test]
    fn what_is_not_there_is_not_read() {
        let pages = Pages([const { AtomicU64::new(0) }; PLACES]);
        let reader = Reader {
            pages: &pages,
            epoch: 1,
        };
        let here = 0x1234_5678_9abc_def0_u64;
        assert_eq!(reader.value::<u64>((&raw const here) as u64), Some(here));
        for wild in [
            0,
            1,
            8,
            0xdead_0000,
            USER - 4,
            USER,
            u64::MAX - 3,
            u64::MAX,
            0xdead_beef_0000_0000 | (&raw const here) as u64,
        ] {
            assert_eq!(reader.value::<u64>(wild), None, "{wild:#x}");
        }
        let (closed, _) = sys::private_memory(8192).unwrap();
        assert_eq!(reader.value::<u64>(closed as u64 + 4092), Some(0));
        let second = closed.wrapping_add(4096).cast();
        // SAFETY: the mapping is this test's own, and nothing refers into it.
        let refused = unsafe { libc::mprotect(second, 4096, libc::PROT_NONE) };
        assert_eq!(refused, 0);
        let later = Reader {
            pages: &pages,
            epoch: 2,
        };
        assert_eq!(later.value::<u64>(closed as u64 + 4088), Some(0));
        assert_eq!(later.value::<u64>(closed as u64 + 4092), None);
        let mut bytes = [1; 5000];
        assert_eq!(later.bytes(closed as u64, &mut bytes), None);
        assert_eq!(later.bytes(closed as u64, &mut bytes[..4096]), Some(()));
        // SAFETY: nobody uses it any more.
        unsafe { sys::unmap(closed, 8192) };
    }
}
