//! PyTorch's own account of its blocks.
//!
//! PyTorch's caching allocator reports every block that it hands out or takes back, and every request that it could not meet, to a
//! function of libc10 that its profiler listens at, always, whether a profiler runs or not. The library that makes the report calls it through
//! its procedure linkage table, so a preloaded definition of the same name gets it first. Ours records it and jumps on to libc10's:
//! the registers are what they were and no frame of ours is left, so that whatever the real function does, throwing included, it
//! does to its caller.
//!
//! The allocator holds its device's lock while it reports, mostly without the GIL: nothing here may allocate, wait, or call Python.

use core::ffi::CStr;

use gpushim_abi::events::Event;
use once_cell::race::OnceNonZeroUsize;

use crate::recorder::{self, Told};
use crate::{autograd, doors};

/// `DeviceType::CUDA`.
const CUDA: u8 = 1;
/// In place of the address of a function that nobody defines.
const NOBODY: usize = 1;

/// A function of libc10's that we stand before.
struct Real {
    cell: OnceNonZeroUsize,
    name: &'static CStr,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self {
            cell: OnceNonZeroUsize::new(),
            name,
        }
    }

    /// Its address, 0 where nobody defines it.
    #[inline]
    fn address(&self) -> usize {
        let found = self.cell.get_or_init(|| {
            let at = doors::next(self.name).max(NOBODY);
            core::num::NonZeroUsize::new(at).unwrap_or(core::num::NonZeroUsize::MIN)
        });
        match found.get() {
            NOBODY => 0,
            address => address,
        }
    }
}

/// A `c10::Device` as it is passed: its type in the low byte, its index in the next.
#[derive(Clone, Copy)]
struct Device(u16);

impl Device {
    /// The ordinal of a CUDA device; blocks of the host's memory and of other makers' devices are reported through the same function.
    fn ordinal(self) -> Option<u8> {
        let [kind, index] = self.0.to_le_bytes();
        (kind == CUDA).then_some(index)
    }
}

#[inline]
fn block(address: u64, size: i64, allocated: u64, reserved: u64, device: Device) {
    let Some(device) = device.ordinal() else {
        return;
    };
    let event = if size < 0 {
        Event::BlockFreed
    } else {
        Event::BlockAllocated
    };
    recorder::tell(&Told {
        event,
        address,
        size: size.unsigned_abs(),
        a: allocated,
        b: reserved,
        device,
    });
}

macro_rules! before_real {
    ($( $(#[$doc:meta])* $name:literal => $hook:ident($($arg:ident: $ty:ty),*) $body:block )*) => {
        $(
            $(#[$doc])*
            ///
            /// Answers the address to go on at, 0 for nowhere. The sixth argument is not the caller's, but where its return address is.
            #[cfg_attr(test, allow(dead_code, reason = "only the assembly calls it"))]
            extern "C" fn $hook($($arg: $ty),*) -> usize {
                static REAL: Real = Real::new(match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                });
                $body
                REAL.address()
            }
        )*

        #[cfg(not(test))]
        core::arch::global_asm!(
            $( concat!(
                "    .globl gpushim_", $name, "\n",
                "    .type gpushim_", $name, ", @function\n",
                "    .p2align 4\n",
                "gpushim_", $name, ":\n",
                "    .cfi_startproc\n",
                "    endbr64\n",
                "    push rdi\n    .cfi_adjust_cfa_offset 8\n",
                "    push rsi\n    .cfi_adjust_cfa_offset 8\n",
                "    push rdx\n    .cfi_adjust_cfa_offset 8\n",
                "    push rcx\n    .cfi_adjust_cfa_offset 8\n",
                "    push r8\n    .cfi_adjust_cfa_offset 8\n",
                "    push r9\n    .cfi_adjust_cfa_offset 8\n",
                "    lea r9, [rsp + 48]\n",
                "    sub rsp, 8\n    .cfi_adjust_cfa_offset 8\n",
                "    call {", stringify!($hook), "}\n",
                "    add rsp, 8\n    .cfi_adjust_cfa_offset -8\n",
                "    pop r9\n    .cfi_adjust_cfa_offset -8\n",
                "    pop r8\n    .cfi_adjust_cfa_offset -8\n",
                "    pop rcx\n    .cfi_adjust_cfa_offset -8\n",
                "    pop rdx\n    .cfi_adjust_cfa_offset -8\n",
                "    pop rsi\n    .cfi_adjust_cfa_offset -8\n",
                "    pop rdi\n    .cfi_adjust_cfa_offset -8\n",
                "    test rax, rax\n",
                "    jz 1f\n",
                "    jmp rax\n",
                "1:  ret\n",
                "    .cfi_endproc\n",
                "    .size gpushim_", $name, ", . - gpushim_", $name, "\n",
                "    .symver gpushim_", $name, ", ", $name, "@GPUSHIM_1\n",
            ), )*
            $( $hook = sym $hook, )*
        );
    };
}

before_real! {
    /// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device)`, from torch 2.0 on.
    "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE" =>
    block_2(address: u64, size: i64, allocated: u64, reserved: u64, device: u16) {
        block(address, size, allocated, reserved, Device(device));
    }
    /// The same with signed totals, torch 1.12 and 1.13.
    "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE" =>
    block_1(address: u64, size: i64, allocated: u64, reserved: u64, device: u16) {
        block(address, size, allocated, reserved, Device(device));
    }
    /// `c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device)`, from torch 2.0 on.
    "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE" =>
    refused_2(size: u64, allocated: u64, reserved: u64, device: u16) {
        refused(size, allocated, reserved, Device(device));
    }
    /// The same with signed totals, torch 1.12 and 1.13.
    "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE" =>
    refused_1(size: u64, allocated: u64, reserved: u64, device: u16) {
        refused(size, allocated, reserved, Device(device));
    }
    /// `torch::autograd::Engine::evaluate_function(shared_ptr<GraphTask>&, Node*, InputBuffer&, shared_ptr<ReadyQueue> const&)`.
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE" =>
    evaluated(_engine: u64, _task: u64, node: u64, _inputs: u64, _queue: u64, stack: u64) {
        autograd::evaluate(node, stack);
    }
    /// `torch::autograd::Engine::execute(edge_list const&, variable_list const&, bool, bool, bool, edge_list const&)`.
    "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_" =>
    executed(_result: u64, _engine: u64, _roots: u64, _inputs: u64, _keep: u64, stack: u64) {
        autograd::execute(stack);
    }
    /// `at::sequence_number::get_and_increment()`.
    "_ZN2at15sequence_number17get_and_incrementEv" =>
    numbered() {
        let peek = PEEK.address();
        if peek != 0 {
            // SAFETY: libtorch's function of this name takes nothing, and answers with the calling thread's counter.
            let peek = unsafe { core::mem::transmute::<usize, extern "C" fn() -> u64>(peek) };
            autograd::number(peek());
        }
    }
    /// `c10::cuda::setCurrentCUDAStream(CUDAStream)`: a device and PyTorch's id of the stream.
    "_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE" =>
    stream_set(device: u16, id: u64) {
        if let Some(device) = Device(device).ordinal() {
            recorder::stream(device, id);
        }
    }
}

/// `at::sequence_number::peek()`: the number that `get_and_increment` gives next.
static PEEK: Real = Real::new(c"_ZN2at15sequence_number4peekEv");

fn refused(size: u64, allocated: u64, reserved: u64, device: Device) {
    if let Some(device) = device.ordinal() {
        recorder::tell(&Told {
            event: Event::BlockRefused,
            address: 0,
            size,
            a: allocated,
            b: reserved,
            device,
        });
    }
}
