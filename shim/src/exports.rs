//! One function per row of the hook table.
//!
//! Each export is a two-instruction thunk that hands its own stack pointer to the hook behind it, in the register after the
//! last argument: there the caller's return address stands, which nothing in Rust could otherwise be sure to find. The driver's
//! function is then called like any other.

use core::arch::global_asm;
use core::ffi::{CStr, c_int, c_uint, c_void};

use gpushim_abi::for_each_hook;
use gpushim_abi::hooks::{
    CUDA_ERROR_NOT_SUPPORTED, CUDA_SUCCESS, CUcontext, CUdevice, CUdeviceptr, CUdeviceptr_v1,
    CUmemGenericAllocationHandle, CUmemoryPool, CUresult, CUstream, HOOKS, HookId, Opaque, Text,
};

use crate::recorder::{Device, Facts};
use crate::{doors, driver, recorder};

/// Values that fit a record's words.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($ty:ty),*) => { $( impl Word for $ty {
        #[inline(always)]
        fn word(self) -> u64 {
            self as u64
        }
    } )* };
}
words!(u64, usize, c_uint);

impl Word for c_int {
    #[inline(always)]
    fn word(self) -> u64 {
        u64::from(self as u32)
    }
}

impl<T> Word for *mut T {
    #[inline(always)]
    fn word(self) -> u64 {
        self as u64
    }
}

/// The words that are read before the call; those that only the driver can fill are 0 until then.
macro_rules! early {
    (none) => {
        0
    };
    (arg $x:ident) => {
        $x.word()
    };
    (field $x:ident $at:literal) => {
        if $x.is_null() {
            0
        } else {
            // SAFETY: the caller passes the driver a readable struct, longer than this offset plus 8.
            unsafe { $x.cast::<u8>().wrapping_add($at).cast::<u64>().read_unaligned() }
        }
    };
    ($other:ident $($x:ident)*) => {
        0
    };
}

/// The words that the driver wrote; the others stay as they were read before the call.
macro_rules! late {
    ($to:expr, out $p:ident) => {
        if !$p.is_null() {
            // SAFETY: the driver answered success, so it wrote through the caller's pointer.
            $to = unsafe { $p.read_unaligned() }.word();
        }
    };
    ($to:expr, pitched $p:ident $rows:ident) => {
        if !$p.is_null() {
            // SAFETY: the driver answered success, so it wrote through the caller's pointer.
            let pitch = unsafe { $p.read_unaligned() };
            $to = pitch.word().wrapping_mul($rows.word());
        }
    };
    ($to:expr, $other:ident $($x:tt)*) => {};
}

macro_rules! device {
    (current) => {
        Device::Current
    };
    (arg $dev:ident) => {
        Device::ordinal($dev)
    };
    (location $prop:ident) => {
        location($prop)
    };
    (owner) => {
        Device::Unknown
    };
    (none) => {
        Device::Unknown
    };
}

/// The device of a `CUmemAllocationProp`: location type and id at offsets 8 and 12, unchanged from CUDA 11.7 to 13.5.
fn location(prop: *const Opaque) -> Device {
    const DEVICE: u32 = 1;
    const DEVICE_LOCALITY_DOMAIN: u32 = 6;
    if prop.is_null() {
        return Device::Unknown;
    }
    // SAFETY: the caller passes the driver a readable struct of 32 bytes.
    let [kind, id] = unsafe {
        prop.cast::<u8>()
            .wrapping_add(8)
            .cast::<[u32; 2]>()
            .read_unaligned()
    };
    match kind {
        DEVICE => Device::ordinal(id as c_int),
        // Here the device is the first byte of the union, not the int.
        DEVICE_LOCALITY_DOMAIN => Device::ordinal((id & 0xff) as c_int),
        _ => Device::Unknown,
    }
}

/// The body of a hook, by the row's word for `record`.
macro_rules! body {
    (door, $sym:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {
        // SAFETY: the caller's promise, passed on unchanged.
        unsafe { doors::$sym($($arg),*) }
    };
    (before, $sym:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        let Some(real) = driver::real(HookId::$sym) else {
            return CUDA_ERROR_NOT_SUPPORTED;
        };
        type Real = unsafe extern "C" fn($($ty),*) -> CUresult;
        // SAFETY: the address is the driver's export of this name, and the row holds its signature.
        let real = unsafe { core::mem::transmute::<usize, Real>(real) };
        let facts: Facts = $facts;
        let Some(call) = recorder::begin(facts.hook, facts.address, facts.size, $entry) else {
            recorder::missed();
            // SAFETY: the caller's promise, passed on unchanged.
            return unsafe { real($($arg),*) };
        };
        let pending = call.before(&facts);
        // SAFETY: the caller's promise, passed on unchanged.
        let status = unsafe { real($($arg),*) };
        call.settle(&facts, pending, status);
        call.leave();
        status
    }};
    ($after:ident, $sym:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        let Some(real) = driver::real(HookId::$sym) else {
            return CUDA_ERROR_NOT_SUPPORTED;
        };
        type Real = unsafe extern "C" fn($($ty),*) -> CUresult;
        // SAFETY: the address is the driver's export of this name, and the row holds its signature.
        let real = unsafe { core::mem::transmute::<usize, Real>(real) };
        let mut facts: Facts = $facts;
        let begun = recorder::begin(facts.hook, facts.address, facts.size, $entry);
        // SAFETY: the caller's promise, passed on unchanged.
        let status = unsafe { real($($arg),*) };
        let Some(call) = begun.or_else(|| recorder::first(facts.hook, status, $entry)) else {
            return status;
        };
        if status == CUDA_SUCCESS {
            $late(&mut facts);
        }
        body!(@record $after, call, facts, status);
        call.leave();
        status
    }};
    (@record switch, $call:ident, $facts:ident, $status:ident) => {
        $call.switched(&$facts, $status)
    };
    (@record $after:ident, $call:ident, $facts:ident, $status:ident) => {
        $call.after(&$facts, $status)
    };
}

/// The register of the argument after the given ones, by the System V calling convention.
macro_rules! next_register {
    () => {
        "rdi"
    };
    ($a:ident) => {
        "rsi"
    };
    ($a:ident $b:ident) => {
        "rdx"
    };
    ($a:ident $b:ident $c:ident) => {
        "rcx"
    };
    ($a:ident $b:ident $c:ident $d:ident) => {
        "r8"
    };
    ($a:ident $b:ident $c:ident $d:ident $e:ident) => {
        "r9"
    };
}

macro_rules! exports {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) {
        asked: $asked:literal since $since:literal $flavor:ident,
        kind: $kind:ident $(($space:ident))?, record: $when:ident,
        address: $address:ident $(($($address_of:tt),*))?, size: $size:ident $(($($size_of:tt),*))?,
        a: $a:ident $(($($a_of:tt),*))?, b: $b:ident $(($($b_of:tt),*))?,
        device: $device:ident $(($device_of:ident))?,
    } )*) => {
        /// The hooks behind the exported thunks.
        #[allow(non_snake_case, reason = "hooks carry the driver's own names")]
        mod hooks {
            use super::*;
            $(
                #[doc = $doc]
                ///
                /// # Safety
                /// The driver's own contract for this call; `entry` points to the caller's return address.
                #[allow(unused_variables, reason = "not every row uses every value")]
                pub(super) unsafe extern "C" fn $sym($($arg: $ty,)* entry: *const usize) -> CUresult {
                    body!($when, $sym, entry, ($($arg: $ty),*),
                        Facts {
                            hook: HookId::$sym,
                            address: early!($address $($($address_of)*)?),
                            size: early!($size $($($size_of)*)?),
                            a: early!($a $($($a_of)*)?),
                            b: early!($b $($($b_of)*)?),
                            device: device!($device $($device_of)?),
                        },
                        |facts: &mut Facts| {
                            late!(facts.address, $address $($($address_of)*)?);
                            late!(facts.size, $size $($($size_of)*)?);
                        }
                    )
                }
            )*
        }

        /// The driver's name of a row, for looking it up.
        pub(crate) fn name(hook: HookId) -> &'static CStr {
            match hook {
                $( HookId::$sym => {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($sym), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    };
                    NAME
                } )*
            }
        }

        /// The row of an exported name. The compiler makes this a decision by length, so that names that are not ours
        /// are turned down in a few instructions.
        pub(crate) fn by_name(name: &[u8]) -> Option<HookId> {
            $(
                #[allow(non_upper_case_globals, reason = "constants carry the driver's own names")]
                const $sym: &[u8] = stringify!($sym).as_bytes();
            )*
            match name {
                $( $sym => Some(HookId::$sym), )*
                _ => None,
            }
        }

        #[cfg(not(test))]
        global_asm!(
            $( concat!(
                "    .globl gpushim_", stringify!($sym), "\n",
                "    .type gpushim_", stringify!($sym), ", @function\n",
                "    .p2align 4\n",
                "gpushim_", stringify!($sym), ":\n",
                "    .cfi_startproc\n",
                "    endbr64\n",
                "    mov ", next_register!($($arg)*), ", rsp\n",
                "    jmp {", stringify!($sym), "}\n",
                "    .cfi_endproc\n",
                "    .size gpushim_", stringify!($sym), ", . - gpushim_", stringify!($sym), "\n",
                "    .symver gpushim_", stringify!($sym), ", ", stringify!($sym), "@GPUSHIM_1\n",
            ), )*
            // The thunks' addresses in the order of the rows.
            "    .pushsection .data.rel.ro.gpushim_thunks, \"aw\", @progbits",
            "    .globl gpushim_thunks",
            "    .hidden gpushim_thunks",
            "    .type gpushim_thunks, @object",
            "    .p2align 3",
            "gpushim_thunks:",
            $( concat!("    .quad gpushim_", stringify!($sym)), )*
            "    .size gpushim_thunks, . - gpushim_thunks",
            "    .popsection",
            $( $sym = sym hooks::$sym, )*
        );
    };
}

for_each_hook!(exports);

#[cfg(not(test))]
unsafe extern "C" {
    static gpushim_thunks: [usize; HOOKS.len()];
}

/// What a program is handed in place of the driver's function.
#[cfg(not(test))]
pub(crate) fn thunk(hook: HookId) -> *mut c_void {
    // SAFETY: the table is read-only data of this library, one word per row.
    let thunks = unsafe { &gpushim_thunks };
    thunks.get(hook.index()).map_or(0, |&at| at) as *mut c_void
}

/// In unit tests nothing is exported.
#[cfg(test)]
pub(crate) fn thunk(hook: HookId) -> *mut c_void {
    let _ = HOOKS;
    hook.index() as *mut c_void
}
