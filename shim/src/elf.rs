//! Loaded libraries, read from their own dynamic sections.
//!
//! Why not `dlsym`, `dladdr`, `dlopen`: they wait for the loader's lock, which another thread may hold for seconds
//! while it runs constructors, and a failed `dlsym` allocates its message from the application's heap and leaves it
//! for the application's next `dlerror`. Why not `dl_iterate_phdr` either: [`find`].

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

use crate::sync::{AtomicUsize, Ordering};
use crate::sys;

const DT_SONAME: i64 = 14;
const DT_DEBUG: i64 = 21;
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

/// What the list of libraries says of one.
#[derive(Debug)]
pub(crate) struct Entry {
    bias: usize,
    /// NUL-terminated, or null.
    name: *const c_char,
    dynamic: *mut c_void,
    /// Address of its node in the loader's list.
    node: usize,
    /// Place in the order of loading; 0 is the program itself.
    pub(crate) place: usize,
}

/// A node of the loader's list (`struct link_map` of link.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
    dynamic: *mut c_void,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// Where the loader tells debuggers of that list (`struct r_debug`).
#[repr(C)]
struct Debug {
    version: c_int,
    first: *const LinkMap,
}

/// Longest list that is walked.
const ENTRIES_MAX: usize = 1 << 16;

/// The first node of the list, which the loader leaves in the program's own dynamic section for debuggers.
fn first() -> *const LinkMap {
    static DEBUG: AtomicUsize = AtomicUsize::new(0);
    let mut at = DEBUG.load(Ordering::Relaxed);
    if at == 0 {
        at = debug_of_program().unwrap_or(0);
        DEBUG.store(at, Ordering::Relaxed);
    }
    if at == 0 {
        return core::ptr::null();
    }
    // SAFETY: the loader's structure lives as long as the process.
    unsafe { (*(at as *const Debug)).first }
}

fn debug_of_program() -> Option<usize> {
    let headers = program_headers();
    let own = headers.iter().find(|h| h.p_type == libc::PT_PHDR)?;
    let bias = (headers.as_ptr() as usize).wrapping_sub(own.p_vaddr as usize);
    let dynamic = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
    let object = Object {
        bias,
        dynamic: NonNull::new(bias.wrapping_add(dynamic.p_vaddr as usize) as *mut c_void)?,
    };
    object.word(DT_DEBUG).filter(|at| *at != 0)
}

/// The program's own headers, as the kernel passed them.
fn program_headers() -> &'static [libc::Elf64_Phdr] {
    // SAFETY: reads a vector of the process's.
    let at = unsafe { libc::getauxval(libc::AT_PHDR) } as *const libc::Elf64_Phdr;
    // SAFETY: as above.
    let count = unsafe { libc::getauxval(libc::AT_PHNUM) } as usize;
    if at.is_null() {
        return &[];
    }
    // SAFETY: the kernel put that many headers there, and they stay.
    unsafe { core::slice::from_raw_parts(at, count) }
}

impl Entry {
    /// Program headers; empty where they cannot be found.
    fn headers(&self) -> &'static [libc::Elf64_Phdr] {
        if self.place == 0 {
            return program_headers();
        }
        headers_at(self.bias, self.dynamic as usize)
            .or_else(|| {
                // Linked at an address other than 0: the file's head stands somewhere below the dynamic section.
                let page = self.dynamic as usize & !(PAGE - 1);
                (0..HEAD_PAGES)
                    .map(|back| page.wrapping_sub(back * PAGE))
                    .take_while(|at| sys::is_readable(*at as u64))
                    .find_map(|at| headers_of(at, self.bias, self.dynamic as usize))
            })
            .unwrap_or_default()
    }

    /// Path as the loader knows it; empty for the program itself.
    pub(crate) fn path(&self) -> &[u8] {
        if self.name.is_null() || !sys::is_readable(self.name as u64 & !(PAGE as u64 - 1)) {
            return &[];
        }
        // SAFETY: the loader's names are NUL-terminated and live as long as the entry.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// The library as `dlsym` takes it; `None` for the program itself, whose node stands for the global scope.
    pub(crate) fn handle(&self) -> Option<usize> {
        (self.place != 0).then_some(self.node)
    }

    /// Address minus this is the address in the file.
    pub(crate) fn bias(&self) -> u64 {
        self.bias as u64
    }

    /// First address of the loaded segments and the first after them.
    pub(crate) fn span(&self) -> (u64, u64) {
        let mut span = (u64::MAX, 0);
        for header in self.headers().iter().filter(|h| h.p_type == libc::PT_LOAD) {
            let start = self.bias().wrapping_add(header.p_vaddr);
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
        Some(Object {
            bias: self.bias,
            dynamic: NonNull::new(self.dynamic)?,
        })
    }

    /// Copies the GNU build id; its length, 0 when there is none.
    pub(crate) fn build_id(&self, into: &mut [u8; 20]) -> usize {
        for header in self.headers().iter().filter(|h| h.p_type == libc::PT_NOTE) {
            let mut at = self.bias().wrapping_add(header.p_vaddr) as usize;
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

/// What identifies this very library.
pub(crate) fn own() -> usize {
    let at: usize;
    // SAFETY: takes the address of this library's dynamic section, which the linker names; touches nothing.
    unsafe {
        core::arch::asm!("lea {at}, [rip + _DYNAMIC]", at = out(reg) at, options(pure, nomem, nostack));
    }
    at
}

const PAGE: usize = 4096;
/// Pages below a dynamic section in which a file's head is looked for: 64 MiB.
const HEAD_PAGES: usize = 1 << 14;

/// The headers of a library that is linked at address 0, whose head is at its bias.
fn headers_at(bias: usize, dynamic: usize) -> Option<&'static [libc::Elf64_Phdr]> {
    let is_page = bias != 0 && bias.is_multiple_of(PAGE);
    if !is_page || !sys::is_readable(bias as u64) {
        return None;
    }
    headers_of(bias, bias, dynamic)
}

/// The headers of the ELF file that begins here, if it is the one with this dynamic section. The page can be read.
fn headers_of(at: usize, bias: usize, dynamic: usize) -> Option<&'static [libc::Elf64_Phdr]> {
    // SAFETY: the caller has made sure of the page.
    let head = unsafe { &*(at as *const libc::Elf64_Ehdr) };
    if head.e_ident.get(..4) != Some(b"\x7fELF") {
        return None;
    }
    let (offset, count) = (head.e_phoff as usize, usize::from(head.e_phnum));
    let end = offset + count * size_of::<libc::Elf64_Phdr>();
    if offset > PAGE || end > PAGE {
        return None;
    }
    // SAFETY: inside the page.
    let headers =
        unsafe { core::slice::from_raw_parts((at + offset) as *const libc::Elf64_Phdr, count) };
    let own = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
    (bias.wrapping_add(own.p_vaddr as usize) == dynamic).then_some(headers)
}

/// Walks the loaded libraries in the order of loading, until `visit` answers something.
///
/// The list is the one that the loader keeps for debuggers, read without its lock. `dl_iterate_phdr` would be the way by the book, but
/// others interpose it and call `dlsym` there, which is ours; and a child that is forked while another thread is inside has its lock for ever.
/// What a `dlclose` frees meanwhile may be met: nodes are read only from pages that can be read, and the list is left when it no longer
/// holds together.
pub(crate) fn find<T>(mut visit: impl FnMut(&Entry) -> Option<T>) -> Option<T> {
    let mut at = first();
    let mut page = 0;
    let mut before = core::ptr::null();
    for place in 0..ENTRIES_MAX {
        if at.is_null() {
            break;
        }
        let last = at as usize + size_of::<LinkMap>() - 1;
        for byte in [at as usize, last] {
            if byte / PAGE != page {
                page = byte / PAGE;
                if !sys::is_readable((page * PAGE) as u64) {
                    return None;
                }
            }
        }
        // SAFETY: its pages can be read, and the loader's nodes are never moved.
        let node = unsafe { at.read() };
        if node.previous != before {
            return None;
        }
        let found = visit(&Entry {
            bias: node.bias,
            name: node.name,
            dynamic: node.dynamic,
            node: at as usize,
            place,
        });
        if found.is_some() {
            return found;
        }
        before = at;
        at = node.next;
    }
    None
}

/// The library that an address belongs to.
pub(crate) fn holding(address: usize) -> Option<Entry> {
    // Nearly always the one that begins last before the address; its headers alone are looked at then.
    let mut nearest: Option<Entry> = None;
    find(|entry| {
        if entry.bias <= address && nearest.as_ref().is_none_or(|n| entry.bias >= n.bias) {
            nearest = Some(Entry { ..*entry });
        }
        None::<()>
    });
    nearest
        .filter(|entry| entry.holds(address))
        .or_else(|| find(|entry| entry.holds(address).then_some(Entry { ..*entry })))
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
        self::holding(address)?.object()
    }

    /// A value of the dynamic section as it stands there.
    fn word(self, tag: i64) -> Option<usize> {
        let mut at = self.dynamic.as_ptr().cast::<Dyn>().cast_const();
        if !sys::is_readable(at as u64 & !(PAGE as u64 - 1)) {
            return None;
        }
        loop {
            // SAFETY: a dynamic section ends with a null tag, and everything before it is readable.
            let entry = unsafe { &*at };
            match entry.tag {
                0 => return None,
                found if found == tag => return Some(entry.value as usize),
                // SAFETY: not yet at the null tag.
                _ => at = unsafe { at.add(1) },
            }
        }
    }

    /// An address of the dynamic section. glibc relocates these in place; the vDSO's, and those of a library that is being loaded, are as
    /// they are in the file. Which of the two is told by the tables' own place: they lie near the dynamic section, on whichever side.
    fn entry(self, tag: i64) -> Option<usize> {
        let value = self.word(tag)?;
        let biased = value.wrapping_add(self.bias);
        let from = self.dynamic.as_ptr() as usize;
        Some(if value.abs_diff(from) <= biased.abs_diff(from) {
            value
        } else {
            biased
        })
    }

    /// Whether the library calls itself something that begins so.
    pub(crate) fn is_called(self, name: &[u8]) -> bool {
        let (Some(offset), Some(strings)) = (self.word(DT_SONAME), self.entry(DT_STRTAB)) else {
            return false;
        };
        let at = strings.wrapping_add(offset) as *const c_char;
        // SAFETY: the name lies in the library's string table, NUL-terminated.
        unsafe { CStr::from_ptr(at) }.to_bytes().starts_with(name)
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
