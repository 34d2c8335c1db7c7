//! Loaded libraries, read from their own dynamic sections.
//!
//! Why not `dlsym`, `dladdr`, `dlopen`: they wait for the loader's lock, which another thread may hold for seconds
//! while it runs constructors, and a failed `dlsym` allocates its message from the application's heap and leaves it
//! for the application's next `dlerror`. `dl_iterate_phdr` only takes the short lock on the list of libraries.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const NT_GNU_BUILD_ID: u32 = 3;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const SHN_UNDEF: u16 = 0;

/// An entry of a dynamic section.
#[repr(C)]
struct Dyn {
    tag: i64,
    value: u64,
}

/// An entry of a symbol table.
#[repr(C)]
struct Sym {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A loaded library; valid while it stays loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    bias: usize,
    dynamic: NonNull<c_void>,
}

/// What the list of libraries says of one; borrowed while the list is walked.
#[derive(Debug)]
pub(crate) struct Entry<'l> {
    info: &'l libc::dl_phdr_info,
    /// Place in the order of loading; 0 is the program itself.
    pub(crate) place: usize,
}

impl Entry<'_> {
    fn headers(&self) -> &[libc::Elf64_Phdr] {
        if self.info.dlpi_phdr.is_null() {
            return &[];
        }
        // SAFETY: the loader's list describes that many program headers there.
        unsafe {
            core::slice::from_raw_parts(self.info.dlpi_phdr, usize::from(self.info.dlpi_phnum))
        }
    }

    /// Path as the loader knows it; empty for the program itself.
    pub(crate) fn path(&self) -> &[u8] {
        if self.info.dlpi_name.is_null() {
            return &[];
        }
        // SAFETY: the loader's names are NUL-terminated and live as long as the entry.
        unsafe { CStr::from_ptr(self.info.dlpi_name) }.to_bytes()
    }

    /// Address minus this is the address in the file.
    pub(crate) fn bias(&self) -> u64 {
        self.info.dlpi_addr
    }

    /// First address of the loaded segments and the first after them.
    pub(crate) fn span(&self) -> (u64, u64) {
        let mut span = (u64::MAX, 0);
        for header in self.headers().iter().filter(|h| h.p_type == libc::PT_LOAD) {
            let start = self.info.dlpi_addr.wrapping_add(header.p_vaddr);
            span.0 = span.0.min(start);
            span.1 = span.1.max(start.wrapping_add(header.p_memsz));
        }
        span
    }

    /// Whether an address lies in one of the loaded segments.
    pub(crate) fn holds(&self, address: usize) -> bool {
        let (start, end) = self.span();
        (start..end).contains(&(address as u64))
    }

    /// The library's dynamic section.
    pub(crate) fn object(&self) -> Option<Object> {
        let dynamic = self
            .headers()
            .iter()
            .find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let bias = self.info.dlpi_addr as usize;
        let at = bias.wrapping_add(dynamic.p_vaddr as usize) as *mut c_void;
        Some(Object {
            bias,
            dynamic: NonNull::new(at)?,
        })
    }

    /// Copies the GNU build id; its length, 0 when there is none.
    pub(crate) fn build_id(&self, into: &mut [u8; 20]) -> usize {
        for header in self.headers().iter().filter(|h| h.p_type == libc::PT_NOTE) {
            let mut at = self.info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
            let end = at.wrapping_add(header.p_memsz as usize);
            while at + 12 <= end {
                // SAFETY: the note lies in a loaded segment, by the library's own headers.
                let head = unsafe { (at as *const [u32; 3]).read_unaligned() };
                let [name_len, len, kind] = head.map(|word| word as usize);
                let name = at + 12;
                let body = name + name_len.next_multiple_of(4);
                let next = body + len.next_multiple_of(4);
                if next > end {
                    break;
                }
                // SAFETY: four bytes inside the note, checked just above.
                let is_gnu =
                    name_len == 4 && unsafe { (name as *const [u8; 4]).read() } == *b"GNU\0";
                if is_gnu && kind == NT_GNU_BUILD_ID as usize {
                    let len = len.min(into.len());
                    // SAFETY: `len` bytes of the note's body, inside the segment.
                    let bytes = unsafe { core::slice::from_raw_parts(body as *const u8, len) };
                    for (to, from) in into.iter_mut().zip(bytes) {
                        *to = *from;
                    }
                    return len;
                }
                at = next;
            }
        }
        0
    }
}

/// Walks the loaded libraries in the order of loading, until `visit` answers something.
pub(crate) fn find<T>(mut visit: impl FnMut(&Entry<'_>) -> Option<T>) -> Option<T> {
    struct Walk<'v, T> {
        visit: &'v mut dyn FnMut(&Entry<'_>) -> Option<T>,
        found: Option<T>,
        place: usize,
    }
    unsafe extern "C" fn step<T>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `data` is the walk below, alive and not used by anyone else during the call.
        let walk = unsafe { &mut *data.cast::<Walk<'_, T>>() };
        // SAFETY: the loader hands out a valid description for the time of this call.
        let info = unsafe { &*info };
        let entry = Entry {
            info,
            place: walk.place,
        };
        walk.place += 1;
        walk.found = (walk.visit)(&entry);
        c_int::from(walk.found.is_some())
    }
    let mut walk = Walk {
        visit: &mut visit,
        found: None,
        place: 0,
    };
    // SAFETY: `step` gets the walk that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step::<T>), (&raw mut walk).cast()) };
    walk.found
}

impl Object {
    /// What identifies the library while it is loaded.
    pub(crate) fn key(self) -> usize {
        self.dynamic.as_ptr() as usize
    }

    /// The library with this key, if it is still loaded.
    pub(crate) fn with_key(key: usize) -> Option<Self> {
        find(|entry| entry.object().filter(|object| object.key() == key))
    }

    /// The library that an address belongs to.
    pub(crate) fn holding(address: usize) -> Option<Self> {
        find(|entry| entry.holds(address).then(|| entry.object()).flatten())
    }

    fn entry(self, tag: i64) -> Option<usize> {
        let mut at = self.dynamic.as_ptr().cast::<Dyn>().cast_const();
        loop {
            // SAFETY: a dynamic section ends with a null tag, and everything before it is readable.
            let entry = unsafe { &*at };
            match entry.tag {
                0 => return None,
                found if found == tag => {
                    let value = entry.value as usize;
                    // glibc relocates these in place; the vDSO's stay as they are in the file.
                    return Some(if value < self.bias {
                        value.wrapping_add(self.bias)
                    } else {
                        value
                    });
                }
                // SAFETY: not yet at the null tag.
                _ => at = unsafe { at.add(1) },
            }
        }
    }

    /// Address of a function that the library defines, whatever its version; 0 when it defines none.
    pub(crate) fn function(self, name: &CStr) -> usize {
        self.symbol(name, STT_FUNC)
    }

    /// Likewise of a variable.
    pub(crate) fn data(self, name: &CStr) -> usize {
        self.symbol(name, STT_OBJECT)
    }

    fn symbol(self, name: &CStr, kind: u8) -> usize {
        let (Some(symbols), Some(strings)) = (self.entry(DT_SYMTAB), self.entry(DT_STRTAB)) else {
            return 0;
        };
        let table = Symbols {
            symbols: symbols as *const Sym,
            strings: strings as *const c_char,
            kind,
        };
        let index = if let Some(hash) = self.entry(DT_GNU_HASH) {
            table.gnu(hash as *const u32, name)
        } else if let Some(hash) = self.entry(DT_HASH) {
            table.sysv(hash as *const u32, name)
        } else {
            None
        };
        index.map_or(0, |value| self.bias.wrapping_add(value as usize))
    }
}

struct Symbols {
    symbols: *const Sym,
    strings: *const c_char,
    /// Kind of the symbols that count.
    kind: u8,
}

impl Symbols {
    /// The value of symbol `index`, if it defines `name`.
    fn defines(&self, index: u32, name: &CStr) -> Option<u64> {
        // SAFETY: the index comes from the library's own hash table.
        let symbol = unsafe { &*self.symbols.wrapping_add(index as usize) };
        if symbol.section == SHN_UNDEF || symbol.info & 15 != self.kind {
            return None;
        }
        // SAFETY: names lie in the library's string table, NUL-terminated.
        let found = unsafe { CStr::from_ptr(self.strings.wrapping_add(symbol.name as usize)) };
        (found == name).then_some(symbol.value)
    }

    fn gnu(&self, table: *const u32, name: &CStr) -> Option<u64> {
        // SAFETY: the table begins with four words: buckets, first symbol, bloom words, bloom shift.
        let word = |i: usize| unsafe { table.wrapping_add(i).read() };
        let (buckets, first, bloom) = (word(0), word(1), word(2) as usize);
        if buckets == 0 {
            return None;
        }
        let hash = name.to_bytes().iter().fold(5381_u32, |h, &b| {
            h.wrapping_mul(33).wrapping_add(u32::from(b))
        });
        let bucket_at = 4 + bloom * 2;
        let mut index = word(bucket_at + (hash % buckets) as usize);
        if index < first {
            return None;
        }
        loop {
            let chain = word(bucket_at + buckets as usize + (index - first) as usize);
            if chain | 1 == hash | 1
                && let Some(value) = self.defines(index, name)
            {
                return Some(value);
            }
            if chain & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }

    fn sysv(&self, table: *const u32, name: &CStr) -> Option<u64> {
        // SAFETY: the table begins with the number of buckets and of symbols, then buckets, then chains.
        let word = |i: usize| unsafe { table.wrapping_add(i).read() };
        let (buckets, symbols) = (word(0), word(1));
        if buckets == 0 {
            return None;
        }
        let hash = name.to_bytes().iter().fold(0_u32, |h, &b| {
            let h = (h << 4).wrapping_add(u32::from(b));
            let top = h & 0xf000_0000;
            (h ^ (top >> 24)) & !top
        });
        let mut index = word(2 + (hash % buckets) as usize);
        // A chain longer than the table is a broken table.
        for _ in 0..symbols {
            if index == 0 || index >= symbols {
                return None;
            }
            if let Some(value) = self.defines(index, name) {
                return Some(value);
            }
            index = word(2 + buckets as usize + index as usize);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libc is asked for addresses that the dynamic linker also knows: an independent answer.
    #[test]
    fn finds_what_dlsym_finds() {
        for name in [c"malloc", c"dlvsym", c"gettimeofday", c"pthread_create"] {
            // SAFETY: a default look-up of a NUL-terminated name.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
            let object = Object::holding(expected).expect("the library that holds it");
            let found = object.function(name);
            // An indirect function's symbol is its resolver, which `function` leaves alone.
            if found != 0 {
                assert_eq!(found, expected, "{name:?}");
            }
        }
        let malloc = libc::malloc as *const () as usize;
        let libc = Object::holding(malloc).expect("libc");
        assert_eq!(libc.function(c"malloc"), malloc);
        assert_eq!(libc.function(c"gpushim has no such function"), 0);
        assert_eq!(
            Object::with_key(libc.key()).map(Object::key),
            Some(libc.key())
        );
        assert!(Object::with_key(1).is_none());
    }
}
