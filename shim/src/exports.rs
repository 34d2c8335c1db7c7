//! One function per row of the hook table.
//!
//! Each export is a two-instruction thunk that hands its own stack pointer to the hook behind it: there the caller's return
//! address stands, which nothing in Rust could otherwise be sure to find. It travels in the first floating-point
//! register, which no driver call uses, so that the arguments stay where the caller put them, on the stack too. The
//! driver's function is then called like any other.

use core::arch::global_asm;
use core::ffi::{CStr, c_int, c_uint, c_void};

use gpushim_abi::effect::ArrayShape;
use gpushim_abi::for_each_hook;
use gpushim_abi::hooks::*;

use crate::recorder::{Device, Facts};
use crate::words::{self, Name as _, Word as _};
use crate::{doors, driver, recorder};

/// The words that arguments hold by themselves; the others are 0 until the driver has answered.
macro_rules! early {
    ($flavor:ident, arg $x:ident) => {
        $x.word()
    };
    ($flavor:ident, destination $x:ident) => {
        words::destination($x)
    };
    ($flavor:ident, capture_now $stream:ident) => {
        recorder::capture(words::stream($stream.word(), Flavor::$flavor))
    };
    ($flavor:ident, $other:ident $($x:tt)*) => {
        0
    };
}

/// The words that are read behind pointers, once the driver was there; `$given` says that it has read what it was given, and
/// `$done` that it has written what it was asked for.
macro_rules! late {
    ($flavor:ident, $done:ident, $to:expr, none) => {};
    ($flavor:ident, $done:ident, $to:expr, arg $x:ident) => {};
    ($flavor:ident, $done:ident, $to:expr, destination $x:ident) => {};
    ($flavor:ident, $done:ident, $to:expr, capture_now $x:ident) => {};
    // Node parameters are read as one, by the row's word for `record`.
    ($flavor:ident, $done:ident, $to:expr, node_address $x:ident) => {};
    ($flavor:ident, $done:ident, $to:expr, node_size $x:ident) => {};
    ($flavor:ident, $done:ident, $to:expr, field $x:ident $at:literal) => {
        // SAFETY: the driver has read this struct, and the table says that it is long enough.
        $to = unsafe { words::field::<u64, _>($x, $at) }
    };
    ($flavor:ident, $done:ident, $to:expr, field32 $x:ident $at:literal) => {
        // SAFETY: as above.
        $to = unsafe { words::field::<c_uint, _>($x, $at) }
    };
    ($flavor:ident, $done:ident, $to:expr, extent $x:ident $shape:ident) => {
        // SAFETY: the driver has read a descriptor of this shape.
        $to = unsafe { words::array($x, shape!($shape)) }.0
    };
    ($flavor:ident, $done:ident, $to:expr, texel $x:ident $shape:ident) => {
        // SAFETY: as above.
        $to = unsafe { words::array($x, shape!($shape)) }.1
    };
    ($flavor:ident, $done:ident, $to:expr, $word:ident $($x:tt)*) => {
        if $done {
            $to = answered!($flavor, $word $($x)*)
        }
    };
}

/// The words that only an answer holds.
macro_rules! answered {
    ($flavor:ident, later $x:ident $at:literal) => {
        // SAFETY: the driver has written this field of a struct that the table says is long enough.
        unsafe { words::field::<u64, _>($x, $at) }
    };
    ($flavor:ident, out $p:ident) => {
        // SAFETY: the driver answered success, so it wrote through the caller's pointer.
        unsafe { words::at($p) }
    };
    ($flavor:ident, pitched $p:ident $rows:ident) => {
        // SAFETY: as above.
        unsafe { words::at($p) }.wrapping_mul($rows.word())
    };
    ($flavor:ident, first $list:ident $count:ident) => {
        // SAFETY: the driver has read the list.
        unsafe { words::first($list, $count.word()) }
    };
    ($flavor:ident, sum $list:ident $count:ident) => {
        // SAFETY: the driver has read the list.
        unsafe { words::sum($list, $count) }
    };
    ($flavor:ident, digest $x:ident) => {
        // SAFETY: the driver has read the 64 bytes.
        unsafe { $x.digest() }
    };
    ($flavor:ident, digest_out $x:ident) => {
        // SAFETY: the driver has written the 64 bytes.
        unsafe { $x.digest() }
    };
    ($flavor:ident, shareable $p:ident $ty:ident) => {
        // SAFETY: the driver has written a handle of this type.
        unsafe { words::shareable($p, $ty.word()) }
    };
    ($flavor:ident, foreign $h:ident $ty:ident) => {
        // SAFETY: the driver has read a handle of this type.
        unsafe { words::foreign($h, $ty.word()) }
    };
    ($flavor:ident, setting $attr:ident $p:ident) => {
        // SAFETY: the driver has read a value of this attribute.
        unsafe { words::pool_value($attr, $p) }
    };
    ($flavor:ident, reading $attr:ident $p:ident) => {
        // SAFETY: the driver has written a value of this attribute.
        unsafe { words::pool_value($attr, $p) }
    };
    ($flavor:ident, reading64 $p:ident) => {
        // SAFETY: the driver has written eight bytes.
        unsafe { words::field::<u64, _>($p, 0) }
    };
    ($flavor:ident, range $p:ident) => {
        // SAFETY: the driver has written an address.
        unsafe { words::range($p) }
    };
    ($flavor:ident, properties $p:ident) => {
        // SAFETY: the driver has written a handle.
        unsafe { words::properties($p) }
    };
    ($flavor:ident, local $p:ident) => {
        // SAFETY: the driver has written a handle.
        driver::local_bytes(unsafe { words::at($p) }).unwrap_or(0)
    };
    ($flavor:ident, local_of $x:ident) => {
        driver::local_bytes($x.word()).unwrap_or(0)
    };
    ($flavor:ident, capture $stream:ident) => {
        recorder::capture(words::stream($stream.word(), Flavor::$flavor))
    };
}

macro_rules! shape {
    (flat32) => {
        ArrayShape::Flat32
    };
    (flat) => {
        ArrayShape::Flat
    };
    (solid32) => {
        ArrayShape::Solid32
    };
    (solid) => {
        ArrayShape::Solid
    };
    (external) => {
        ArrayShape::External
    };
}

/// The device as the arguments say it.
macro_rules! device {
    (current) => {
        Device::Current
    };
    (arg $dev:ident) => {
        Device::ordinal($dev)
    };
    ($other:ident $($x:ident)?) => {
        Device::Unknown
    };
}

/// The device as a struct says it.
macro_rules! late_device {
    ($to:expr, location $prop:ident) => {
        // SAFETY: the driver has read this struct, which has its location at offset 8.
        $to = words::on(unsafe { words::field::<u64, _>($prop, 8) })
    };
    ($to:expr, place $location:ident) => {
        // SAFETY: the driver has read this location.
        $to = words::on(unsafe { words::field::<u64, _>($location, 0) })
    };
    ($to:expr, $other:ident $($x:ident)?) => {};
}

/// The driver's function, with the row's signature.
macro_rules! real {
    ($sym:ident, ($($ty:ty),*)) => {{
        let Some(real) = driver::real(HookId::$sym) else {
            return CUDA_ERROR_NOT_SUPPORTED;
        };
        type Real = unsafe extern "C" fn($($ty),*) -> CUresult;
        // SAFETY: the address is the driver's export of this name, and the row holds its signature.
        unsafe { core::mem::transmute::<usize, Real>(real) }
    }};
}

/// The body of a hook, by the row's word for `record`.
macro_rules! body {
    (door, $sym:ident, $flavor:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {
        // SAFETY: the caller's promise, passed on unchanged.
        unsafe { doors::$sym($($arg),*) }
    };
    (sync, $sym:ident, $flavor:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        let real = real!($sym, ($($ty),*));
        // SAFETY: the caller's promise, passed on unchanged.
        let status = unsafe { real($($arg),*) };
        if status == CUDA_SUCCESS {
            recorder::waited($entry);
        }
        status
    }};
    (switch, $sym:ident, $flavor:ident, $entry:ident, ($arg:ident: $ty:ty), $facts:expr, $late:expr) => {{
        if recorder::is_unchanged($arg.word()) {
            let real = real!($sym, ($ty));
            // SAFETY: the caller's promise, passed on unchanged.
            let status = unsafe { real($arg) };
            if status == CUDA_SUCCESS {
                recorder::unchanged();
            } else if let Some(call) = recorder::begin(HookId::$sym, $arg.word(), 0, $entry) {
                let mut facts: Facts = $facts;
                call.switched(&mut facts, status);
                call.leave();
            }
            return status;
        }
        body!(made_current, $sym, $flavor, $entry, ($arg: $ty), $facts, $late)
    }};
    (before, $sym:ident, $flavor:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        let real = real!($sym, ($($ty),*));
        let mut facts: Facts = $facts;
        let Some(call) = recorder::begin(facts.hook, facts.address, facts.size, $entry) else {
            recorder::missed();
            // SAFETY: the caller's promise, passed on unchanged.
            return unsafe { real($($arg),*) };
        };
        let pending = call.before::<{ HookId::$sym as u16 }>(&mut facts, Flavor::$flavor);
        // SAFETY: the caller's promise, passed on unchanged.
        let status = unsafe { real($($arg),*) };
        call.settle::<{ HookId::$sym as u16 }>(&facts, pending, status);
        call.leave();
        status
    }};
    (launch, $sym:ident, $flavor:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        if !recorder::has_memory_nodes() {
            let real = real!($sym, ($($ty),*));
            // SAFETY: the caller's promise, passed on unchanged.
            return unsafe { real($($arg),*) };
        }
        body!(after, $sym, $flavor, $entry, ($($arg: $ty),*), $facts, $late)
    }};
    ($after:ident, $sym:ident, $flavor:ident, $entry:ident, ($($arg:ident: $ty:ty),*), $facts:expr, $late:expr) => {{
        let real = real!($sym, ($($ty),*));
        let mut facts: Facts = $facts;
        let begun = recorder::begin(facts.hook, facts.address, facts.size, $entry);
        // SAFETY: the caller's promise, passed on unchanged.
        let status = unsafe { real($($arg),*) };
        let Some(call) = begun.or_else(|| recorder::first(facts.hook, status, $entry)) else {
            return status;
        };
        if words::was_read(status) {
            $late(&mut facts, status == CUDA_SUCCESS);
        }
        body!(@record $after, $sym, $flavor, call, facts, status, ($($arg),*));
        call.leave();
        status
    }};
    (@record made_current, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($($arg:ident),*)) => {
        $call.switched(&mut $facts, $status)
    };
    (@record answer, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($($arg:ident),*)) => {
        if $status == CUDA_SUCCESS {
            $call.after::<{ HookId::$sym as u16 }>(&mut $facts, Flavor::$flavor, $status)
        }
    };
    (@record node, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($($arg:ident),+)) => {
        if $status == CUDA_SUCCESS {
            // SAFETY: the driver has read and written the parameters, which are the last argument.
            $call.node(&mut $facts, unsafe { words::Node::read(last!($($arg),+)) })
        }
    };
    (@record tiles, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($list:ident, $count:ident, $stream:ident)) => {
        if $status == CUDA_SUCCESS {
            // SAFETY: the driver has read this many entries.
            unsafe { $call.tiles(&$facts, $list, $count) }
        }
    };
    (@record capture_end, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($($arg:ident),*)) => {
        $call.capture_ended(&mut $facts, Flavor::$flavor, $status)
    };
    (@record $after:ident, $sym:ident, $flavor:ident, $call:ident, $facts:ident, $status:ident, ($($arg:ident),*)) => {
        $call.after::<{ HookId::$sym as u16 }>(&mut $facts, Flavor::$flavor, $status)
    };
}

macro_rules! last {
    ($last:ident) => {
        $last
    };
    ($first:ident, $($rest:ident),+) => {
        last!($($rest),+)
    };
}

macro_rules! exports {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) {
        asked: $asked:literal since $since:literal $flavor:ident,
        kind: $kind:ident $(($class:ident))?, record: $when:ident,
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
                /// The driver's own contract for this call; the bits of `entry` are the address of the caller's return address.
                #[allow(unused_variables, reason = "not every row uses every value")]
                pub(super) unsafe extern "C" fn $sym($($arg: $ty,)* entry: f64) -> CUresult {
                    body!($when, $sym, $flavor, entry, ($($arg: $ty),*),
                        Facts {
                            hook: HookId::$sym,
                            address: early!($flavor, $address $($($address_of)*)?),
                            size: early!($flavor, $size $($($size_of)*)?),
                            a: early!($flavor, $a $($($a_of)*)?),
                            b: early!($flavor, $b $($($b_of)*)?),
                            device: device!($device $($device_of)?),
                            flags: 0,
                        },
                        |facts: &mut Facts, done: bool| {
                            late!($flavor, done, facts.address, $address $($($address_of)*)?);
                            late!($flavor, done, facts.size, $size $($($size_of)*)?);
                            late!($flavor, done, facts.a, $a $($($a_of)*)?);
                            late!($flavor, done, facts.b, $b $($($b_of)*)?);
                            late_device!(facts.device, $device $($device_of)?);
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
                "    movq xmm0, rsp\n",
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
