//! What the recorder keeps per thread.
//!
//! Initial-exec thread-local storage, declared and reached in assembly: the library is always loaded at start, so its block is
//! in the static area, and no access can call `__tls_get_addr`, which allocates when a thread's table grows. A
//! forked child inherits a copy of its parent thread's block; `owner` tells that it is stale.

use core::arch::{asm, global_asm};
use core::ffi::c_void;

use gpushim_abi::layout::slot;

use crate::autograd::Noted;

global_asm!(
    ".pushsection .tbss.gpushim_thread,\"awT\",@nobits",
    ".balign 64",
    ".globl gpushim_thread",
    ".hidden gpushim_thread",
    ".type gpushim_thread,@object",
    ".size gpushim_thread,128",
    "gpushim_thread:",
    ".zero 128",
    ".popsection",
);

/// Devices of which a thread's stream of PyTorch's is known.
pub(crate) const STREAMS: usize = 16;

/// A thread's block; all zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Thread {
    /// Process for which the rest was filled in; 0 for nobody.
    pub(crate) owner: u32,
    /// Thread id.
    pub(crate) id: u32,
    /// Entry in the capture's threads region, null when there was no room.
    pub(crate) entry: *mut u8,
    /// Context seen last, with the index and the device that were found for it.
    pub(crate) context: *mut c_void,
    pub(crate) context_index: u16,
    pub(crate) context_device: u8,
    /// Whether `switched_to` holds a value.
    pub(crate) has_switched: bool,
    /// Epoch in which `context` was looked up.
    pub(crate) context_epoch: u32,
    /// What `cuCtxSetCurrent` last made current.
    pub(crate) switched_to: u64,
    /// Hooked calls that this thread is inside of.
    pub(crate) depth: u32,
    /// Where the outermost of them found the stack.
    pub(crate) stack_pointer: u64,
    /// Index of its entry, `u32::MAX` when it has none.
    pub(crate) place: u32,
    /// Whether it is reading its own frames: a signal handler may come in between.
    pub(crate) is_walking: bool,
    /// Numbers of PyTorch's streams that it made current, by device; 0 for the default stream.
    pub(crate) streams: [u16; STREAMS],
    /// The node of PyTorch's autograd graph that it evaluated last.
    pub(crate) node: Noted,
}

const _: () = assert!(size_of::<Thread>() <= 128);

impl Thread {
    /// The calling thread's block.
    #[inline(always)]
    pub(crate) fn here() -> *mut Self {
        let at: *mut Self;
        // SAFETY: reads the thread pointer and the offset that the dynamic linker put into the table; touches nothing else.
        unsafe {
            asm!(
                "mov {at}, qword ptr [rip + gpushim_thread@GOTTPOFF]",
                "add {at}, qword ptr fs:[0]",
                at = out(reg) at,
                options(pure, nomem, nostack),
            );
        }
        at
    }

    /// Forgets what a parent process's thread knew.
    pub(crate) fn begin(&mut self, owner: u32, id: u32, entry: *mut u8, place: u32) {
        self.owner = owner;
        self.id = id;
        self.entry = entry;
        self.place = place;
        self.is_walking = false;
        self.streams = [0; STREAMS];
        self.node = Noted::default();
        self.context = core::ptr::null_mut();
        self.context_index = slot::CONTEXT_NONE;
        self.context_device = slot::DEVICE_UNKNOWN;
        self.context_epoch = 0;
        self.has_switched = false;
        self.switched_to = 0;
    }
}
