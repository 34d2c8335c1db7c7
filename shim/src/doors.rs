//! The doors through which programs get at the driver: `dlsym`, `dlvsym`, `cuGetProcAddress`.
//!
//! The rule of every door: ask the real one first, then recognise its answer by address. So a program is handed a hook
//! exactly where it would have been handed the driver's function, and null where it would have got null.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use gpushim_abi::hooks::{CUDA_ERROR_NOT_SUPPORTED, CUDA_SUCCESS, CUresult, HookId};
use gpushim_abi::layout::{Counter, note};
use once_cell::race::OnceNonZeroUsize;

use crate::driver::{self, Answer};
use crate::elf::{self, Object};
use crate::{exports, tables};

/// The next library's `dlsym`: glibc's, or another interposer's that comes after us.
static REAL_DLSYM: OnceNonZeroUsize = OnceNonZeroUsize::new();
/// Likewise `dlvsym`.
static REAL_DLVSYM: OnceNonZeroUsize = OnceNonZeroUsize::new();

const RTLD_NEXT: usize = usize::MAX;
const RTLD_DEFAULT: usize = 0;

/// Finds the next library after this one that defines `name`. Not by `dlvsym`, which would skip an interposer that
/// exports without versions, and allocates when it fails.
pub(crate) fn next(name: &CStr) -> usize {
    let mut passed = false;
    elf::find(|entry| {
        let object = entry.object()?;
        if object.key() == elf::own() {
            passed = true;
            return None;
        }
        if !passed {
            return None;
        }
        let address = object.function(name);
        (address != 0).then_some(address)
    })
    .unwrap_or(0)
}

/// Asks the real `dlsym` for a symbol of a library by its handle; 0 when it has none.
pub(crate) fn defined_in(handle: usize, name: &CStr) -> usize {
    type Dlsym = unsafe extern "C" fn(usize, *const c_char) -> *mut c_void;
    // SAFETY: the address is that of a dlsym.
    let dlsym = unsafe { core::mem::transmute::<usize, Dlsym>(real_dlsym()) };
    // SAFETY: a handle that dlopen gave, and NUL-terminated text.
    unsafe { dlsym(handle, name.as_ptr()) as usize }
}

fn real(cell: &OnceNonZeroUsize, name: &CStr) -> usize {
    cell.get_or_try_init(|| core::num::NonZeroUsize::new(next(name)).ok_or(()))
        .map_or(0, core::num::NonZeroUsize::get)
}

/// The real `dlsym`, for the tail jump. 0 cannot happen in a process that has a libc; were it to, the jump would fault,
/// so there it is a function that answers null.
extern "C" fn real_dlsym() -> usize {
    match real(&REAL_DLSYM, c"dlsym") {
        0 => nothing as *const () as usize,
        address => address,
    }
}

/// The real `dlvsym`, likewise.
extern "C" fn real_dlvsym() -> usize {
    match real(&REAL_DLVSYM, c"dlvsym") {
        0 => nothing as *const () as usize,
        address => address,
    }
}

extern "C" fn nothing() -> *mut c_void {
    core::ptr::null_mut()
}

/// Which of our names a look-up is for.
enum Wanted {
    Driver,
    Dlsym,
    Dlvsym,
}

fn wanted(name: &[u8]) -> Option<Wanted> {
    match name {
        b"dlsym" => Some(Wanted::Dlsym),
        b"dlvsym" => Some(Wanted::Dlvsym),
        _ => exports::by_name(name).map(|_| Wanted::Driver),
    }
}

/// What becomes of a look-up.
#[repr(C)]
struct Decision {
    /// The answer, where there is one.
    answer: *mut c_void,
    /// 1 to give the answer, 0 to have the real function answer its caller itself.
    settled: usize,
}

impl Decision {
    const PASS: Self = Self {
        answer: core::ptr::null_mut(),
        settled: 0,
    };

    fn give(answer: *mut c_void) -> Self {
        Self { answer, settled: 1 }
    }
}

/// Decides a look-up that may be for one of our names.
///
/// # Safety
/// `name` is NUL-terminated text; `look_up` asks the real function.
unsafe fn decide(
    handle: usize,
    name: *const c_char,
    caller: usize,
    look_up: impl Fn(usize) -> *mut c_void,
) -> Decision {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(wanted) = wanted(name.to_bytes()) else {
        return Decision::PASS;
    };
    match handle {
        // ld.so itself answers these with ours where it should: our dlsym is an ordinary, visible export.
        RTLD_DEFAULT | RTLD_NEXT if !matches!(wanted, Wanted::Driver) => return Decision::PASS,
        // A caller that comes after us cannot be handed ours, and only the real function can tell what it is handed.
        RTLD_NEXT if !we_are_next(caller, name) => return Decision::PASS,
        _ => {}
    }
    let mut found = look_up(handle);
    if found.is_null() && handle == RTLD_DEFAULT {
        // The caller's own scope comes after the global one, and only the caller's: a plug-in that is linked against the driver and loaded
        // with RTLD_LOCAL. A handle is the library's node in the loader's list.
        if let Some(own) = elf::holding(caller).and_then(|entry| entry.handle()) {
            found = look_up(own);
        }
    }
    if found.is_null() {
        // "Next" after the caller is "next" after us, but glibc before 2.36 would show the caller our own export there.
        // Anything else is asked again by the caller itself: the same null, and its own message in dlerror.
        return if handle == RTLD_NEXT {
            Decision::give(found)
        } else {
            Decision::PASS
        };
    }
    match wanted {
        Wanted::Driver => match driver::identify(found as usize, name) {
            Answer::Hooked(hook) => Decision::give(exports::thunk(hook)),
            Answer::Foreign => {
                tables::tally(Counter::Foreign);
                Decision::give(found)
            }
        },
        Wanted::Dlsym if found as usize == real_dlsym() => {
            Decision::give(entry_points()[0] as *mut c_void)
        }
        Wanted::Dlvsym if found as usize == real_dlvsym() => {
            Decision::give(entry_points()[1] as *mut c_void)
        }
        Wanted::Dlsym | Wanted::Dlvsym => Decision::PASS,
    }
}

/// Whether a caller's "next" definition of `name` would be ours: it was loaded before us, and nothing in between defines the name.
fn we_are_next(caller: usize, name: &CStr) -> bool {
    let Some(caller) = Object::holding(caller) else {
        return false;
    };
    let mut passed = false;
    elf::find(|entry| {
        let object = entry.object()?;
        if object.key() == elf::own() {
            return Some(passed);
        }
        if object.key() == caller.key() {
            passed = true;
            return None;
        }
        let defines = passed && object.function(name) != 0;
        defines.then_some(false)
    })
    .unwrap_or(false)
}

/// Decides a `dlsym` whose name may be ours.
///
/// # Safety
/// The caller's promises to `dlsym`.
#[cfg_attr(test, allow(dead_code, reason = "only the assembly calls it"))]
unsafe extern "C" fn decide_dlsym(handle: usize, name: *const c_char, caller: usize) -> Decision {
    let look_up = |handle: usize| {
        // SAFETY: the address is that of a dlsym.
        let dlsym: unsafe extern "C" fn(usize, *const c_char) -> *mut c_void =
            unsafe { core::mem::transmute::<usize, _>(real_dlsym()) };
        // SAFETY: the caller's promise, passed on.
        unsafe { dlsym(handle, name) }
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { decide(handle, name, caller, look_up) }
}

/// Decides a `dlvsym` whose name may be ours.
///
/// # Safety
/// The caller's promises to `dlvsym`.
#[cfg_attr(test, allow(dead_code, reason = "only the assembly calls it"))]
unsafe extern "C" fn decide_dlvsym(
    handle: usize,
    name: *const c_char,
    version: *const c_char,
    caller: usize,
) -> Decision {
    let look_up = |handle: usize| {
        // SAFETY: the address is that of a dlvsym.
        let dlvsym: unsafe extern "C" fn(usize, *const c_char, *const c_char) -> *mut c_void =
            unsafe { core::mem::transmute::<usize, _>(real_dlvsym()) };
        // SAFETY: the caller's promise, passed on.
        unsafe { dlvsym(handle, name, version) }
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { decide(handle, name, caller, look_up) }
}

// The entry points. Every look-up in the process comes through here, so a name that cannot be ours is turned down by its
// first letters ("cuX…" with a capital, "dl…") and jumps on: a jump, not a call, since the real function finds out who
// asks by its return address, and answers RTLD_NEXT and RTLD_DEFAULT by that.
#[cfg(not(test))]
macro_rules! entry_point {
    ($entry:literal, $name:literal, $real:literal, $decide:literal) => {
        concat!(
            "    .globl ",
            $entry,
            "\n",
            "    .type ",
            $entry,
            ", @function\n",
            "    .p2align 4\n",
            $entry,
            ":\n",
            "    .cfi_startproc\n",
            "    endbr64\n",
            "    test rsi, rsi\n",
            "    jz 3f\n",
            "    movzx eax, byte ptr [rsi]\n",
            "    cmp al, 'c'\n",
            "    jne 1f\n",
            "    cmp byte ptr [rsi + 1], 'u'\n",
            "    jne 3f\n",
            "    movzx eax, byte ptr [rsi + 2]\n",
            "    sub al, 'A'\n",
            "    cmp al, 25\n",
            "    jbe 2f\n",
            "    jmp 3f\n",
            "1:  cmp al, 'd'\n",
            "    jne 3f\n",
            "    cmp byte ptr [rsi + 1], 'l'\n",
            "    jne 3f\n",
            // Maybe ours: decide, with the arguments kept for the case that it is not.
            "2:  push rdi\n",
            "    .cfi_adjust_cfa_offset 8\n",
            "    push rsi\n",
            "    .cfi_adjust_cfa_offset 8\n",
            "    push rdx\n",
            "    .cfi_adjust_cfa_offset 8\n",
            $decide,
            "    mov r11, rdx\n",
            "    pop rdx\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    pop rsi\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    pop rdi\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    test r11, r11\n",
            "    jz 3f\n",
            "    ret\n",
            // Not ours: go on as if we were not here.
            "3:  mov rax, qword ptr [rip + {",
            $real,
            "_cell}]\n",
            "    test rax, rax\n",
            "    jz 4f\n",
            "    jmp rax\n",
            "4:  push rdi\n",
            "    .cfi_adjust_cfa_offset 8\n",
            "    push rsi\n",
            "    .cfi_adjust_cfa_offset 8\n",
            "    push rdx\n",
            "    .cfi_adjust_cfa_offset 8\n",
            "    call {",
            $real,
            "}\n",
            "    pop rdx\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    pop rsi\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    pop rdi\n",
            "    .cfi_adjust_cfa_offset -8\n",
            "    jmp rax\n",
            "    .cfi_endproc\n",
            "    .size ",
            $entry,
            ", . - ",
            $entry,
            "\n",
        )
    };
}

#[cfg(not(test))]
core::arch::global_asm!(
    entry_point!(
        "gpushim_dlsym",
        "dlsym",
        "real_dlsym",
        "    mov rdx, qword ptr [rsp + 24]\n    call {decide_dlsym}\n"
    ),
    entry_point!(
        "gpushim_dlvsym",
        "dlvsym",
        "real_dlvsym",
        "    mov rcx, qword ptr [rsp + 24]\n    call {decide_dlvsym}\n"
    ),
    // glibc has each twice: at the version of the day when libdl was a library of its own, and at 2.34.
    ".set gpushim_dlsym_2_34, gpushim_dlsym",
    ".set gpushim_dlvsym_2_34, gpushim_dlvsym",
    ".globl gpushim_dlsym_2_34",
    ".globl gpushim_dlvsym_2_34",
    ".type gpushim_dlsym_2_34, @function",
    ".type gpushim_dlvsym_2_34, @function",
    ".symver gpushim_dlsym, dlsym@GLIBC_2.2.5",
    ".symver gpushim_dlvsym, dlvsym@GLIBC_2.2.5",
    ".symver gpushim_dlsym_2_34, dlsym@@GLIBC_2.34",
    ".symver gpushim_dlvsym_2_34, dlvsym@@GLIBC_2.34",
    real_dlsym_cell = sym REAL_DLSYM,
    real_dlvsym_cell = sym REAL_DLVSYM,
    real_dlsym = sym real_dlsym,
    real_dlvsym = sym real_dlvsym,
    decide_dlsym = sym decide_dlsym,
    decide_dlvsym = sym decide_dlvsym,
);

/// The addresses of our `dlsym` and `dlvsym`.
#[cfg(not(test))]
fn entry_points() -> [usize; 2] {
    unsafe extern "C" {
        fn gpushim_dlsym();
        fn gpushim_dlvsym();
    }
    [
        gpushim_dlsym as *const () as usize,
        gpushim_dlvsym as *const () as usize,
    ]
}

/// In unit tests nothing is exported.
#[cfg(test)]
fn entry_points() -> [usize; 2] {
    [1, 2]
}

/// Puts hooks in the place of what `cuGetProcAddress` handed out.
///
/// # Safety
/// The driver answered success for these arguments of the program's.
unsafe fn substitute(symbol: *const c_char, pfn: *mut *mut c_void, version: c_int) {
    if pfn.is_null() {
        return;
    }
    // SAFETY: the driver answered success, so it wrote through the caller's pointer.
    let found = unsafe { *pfn };
    if found.is_null() {
        return;
    }
    if let Some(hook) = driver::recognise(found as usize) {
        // SAFETY: as above.
        unsafe { *pfn = exports::thunk(hook) };
        return;
    }
    tables::tally(Counter::Unhooked);
    if !symbol.is_null() {
        // SAFETY: the driver has just read this NUL-terminated name.
        let name = unsafe { CStr::from_ptr(symbol) };
        tables::note(note::UNHOOKED, version as u32, name.to_bytes());
    }
}

/// `cuGetProcAddress`, CUDA 11.3 to 11.8.
///
/// # Safety
/// The driver's own contract for this call.
#[allow(non_snake_case, reason = "NVIDIA's own names")]
pub(crate) unsafe fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: u64,
) -> CUresult {
    type Real = unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64) -> CUresult;
    let Some(real) = driver::real(HookId::cuGetProcAddress) else {
        return CUDA_ERROR_NOT_SUPPORTED;
    };
    // SAFETY: the address is the driver's export of this name, with the signature of cuda.h.
    let real: Real = unsafe { core::mem::transmute::<usize, Real>(real) };
    // SAFETY: the caller's promise, passed on unchanged.
    let status = unsafe { real(symbol, pfn, cudaVersion, flags) };
    if status == CUDA_SUCCESS {
        // SAFETY: the driver answered success.
        unsafe { substitute(symbol, pfn, cudaVersion) };
    }
    status
}

/// `cuGetProcAddress_v2`, from CUDA 12.0.
///
/// # Safety
/// The driver's own contract for this call.
#[allow(non_snake_case, reason = "NVIDIA's own names")]
pub(crate) unsafe fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: u64,
    symbolStatus: *mut c_uint,
) -> CUresult {
    type Real =
        unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_uint) -> CUresult;
    let Some(real) = driver::real(HookId::cuGetProcAddress_v2) else {
        return CUDA_ERROR_NOT_SUPPORTED;
    };
    // SAFETY: the address is the driver's export of this name, with the signature of cuda.h.
    let real: Real = unsafe { core::mem::transmute::<usize, Real>(real) };
    // SAFETY: the caller's promise, passed on unchanged.
    let status = unsafe { real(symbol, pfn, cudaVersion, flags, symbolStatus) };
    if status == CUDA_SUCCESS {
        // SAFETY: the driver answered success.
        unsafe { substitute(symbol, pfn, cudaVersion) };
    }
    status
}

/// `cuGetExportTable`: passed through untouched (the runtime checks a hash over the tables), its UUID noted once.
///
/// # Safety
/// The driver's own contract for this call.
#[allow(non_snake_case, reason = "NVIDIA's own names")]
pub(crate) unsafe fn cuGetExportTable(
    ppExportTable: *mut *const c_void,
    pExportTableId: *const c_void,
) -> CUresult {
    type Real = unsafe extern "C" fn(*mut *const c_void, *const c_void) -> CUresult;
    let Some(real) = driver::real(HookId::cuGetExportTable) else {
        return CUDA_ERROR_NOT_SUPPORTED;
    };
    // SAFETY: the address is the driver's export of this name, with the signature of cuda.h.
    let real: Real = unsafe { core::mem::transmute::<usize, Real>(real) };
    // SAFETY: the caller's promise, passed on unchanged.
    let status = unsafe { real(ppExportTable, pExportTableId) };
    // Refused, it may not have looked at the UUID.
    if status == CUDA_SUCCESS && !pExportTableId.is_null() {
        // SAFETY: the driver has just read this UUID of 16 bytes.
        let id = unsafe { pExportTableId.cast::<[u8; 16]>().read_unaligned() };
        tables::note(note::EXPORT_TABLE, status as u32, &uuid_text(id));
    }
    status
}

/// A UUID in its usual form.
fn uuid_text(id: [u8; 16]) -> [u8; 36] {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut places = text
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23))
        .map(|(_, place)| place);
    for byte in id {
        for digit in [byte >> 4, byte & 15] {
            if let (Some(place), Some(&digit)) = (places.next(), DIGITS.get(usize::from(digit))) {
                *place = digit;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_written_as_everywhere() {
        let id = [
            0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
            0x9d, 0xf9,
        ];
        assert_eq!(&uuid_text(id), b"6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
    }

    /// A prefix that matches too much would send cuDNN's and cuBLAS's look-ups through the slow path for nothing, or worse.
    #[test]
    fn only_exact_names_are_ours() {
        for name in ["cuMemAlloc_v2", "cuInit", "dlsym", "dlvsym"] {
            assert!(wanted(name.as_bytes()).is_some(), "{name}");
        }
        for name in [
            "cuMemAlloc_v3",
            "cudnnCreate",
            "cublasCreate_v2",
            "cuMemAlloc_v2 ",
            "",
            "dl",
        ] {
            assert!(wanted(name.as_bytes()).is_none(), "{name}");
        }
    }
}
