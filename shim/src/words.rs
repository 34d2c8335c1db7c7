//! The words of the hook table: how each value of a record is taken from a call's arguments.
//!
//! What is behind a pointer is read once the driver has answered success or out-of-memory, since then it has read or
//! written there itself; a wild pointer that the driver refuses is never followed here. The answer of such a word is 0
//! where the pointer is null.

use core::ffi::{c_int, c_uint};

use gpushim_abi::effect::{ArrayFacts, ArrayShape, Place, digest, node};
use gpushim_abi::hooks::{CUDA_SUCCESS, CUipcMemHandle, CUresult, Flavor};

use crate::driver;
use crate::recorder::Device;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: CUresult = 2;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`; a dma-buf's range handle has the same number.
const DESCRIPTOR: u64 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`: 64 bytes.
const FABRIC: u64 = 8;

/// Whether the driver has read what the arguments point to.
pub(crate) const fn was_read(status: CUresult) -> bool {
    matches!(status, CUDA_SUCCESS | OUT_OF_MEMORY)
}

/// Values that fit a record's words.
pub(crate) trait Word {
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

impl<T> Word for *const T {
    #[inline(always)]
    fn word(self) -> u64 {
        self as u64
    }
}

/// A device number of an older call as a location.
pub(crate) fn destination(device: c_int) -> u64 {
    Place::from_device(device)
}

/// The device that a location names.
pub(crate) fn on(location: u64) -> Device {
    match Place::of(location) {
        Place::Device(ordinal) => Device::Ordinal(ordinal),
        Place::Host | Place::Unknown => Device::Unknown,
    }
}

/// The stream that a handle means: 0 is another one in the per-thread calls.
pub(crate) fn stream(handle: u64, flavor: Flavor) -> u64 {
    const PER_THREAD: u64 = 2;
    match (handle, flavor) {
        (0, Flavor::PerThread) => PER_THREAD,
        _ => handle,
    }
}

/// A value behind a pointer.
///
/// # Safety
/// The pointer is null, or the driver has read or written a `T` there.
pub(crate) unsafe fn at<T: Word>(pointer: *const T) -> u64 {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { pointer.read_unaligned() }.word()
}

/// A value at an offset behind a pointer.
///
/// # Safety
/// The pointer is null, or the driver has read or written a struct there that holds a `T` at the offset.
pub(crate) unsafe fn field<T: Word, S>(pointer: *const S, offset: usize) -> u64 {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { at(pointer.cast::<u8>().wrapping_add(offset).cast::<T>()) }
}

/// All values of a list.
///
/// # Safety
/// The list is null, or the driver has read `count` values there.
pub(crate) unsafe fn sum(list: *const usize, count: usize) -> u64 {
    if list.is_null() {
        return 0;
    }
    let mut all = 0_u64;
    for n in 0..count {
        // SAFETY: the caller's promise.
        all = all.wrapping_add(unsafe { at(list.wrapping_add(n)) });
    }
    all
}

/// The first value of a list of `count`.
///
/// # Safety
/// As for [`sum`].
pub(crate) unsafe fn first<T: Word>(list: *const T, count: u64) -> u64 {
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { at(list) }
}

/// A name of 64 bytes, in eight; by value, or where it is.
pub(crate) trait Name {
    /// # Safety
    /// A pointer is null, or the driver has read or written 64 bytes there.
    unsafe fn digest(self) -> u64;
}

impl Name for CUipcMemHandle {
    unsafe fn digest(self) -> u64 {
        digest(&self.0)
    }
}

impl<T> Name for *mut T {
    unsafe fn digest(self) -> u64 {
        if self.is_null() {
            return 0;
        }
        // SAFETY: the caller's promise.
        digest(&unsafe { self.cast::<[u8; 64]>().read_unaligned() })
    }
}

/// What was handed out to share memory by: a descriptor, or 64 bytes.
///
/// # Safety
/// `place` is null, or the driver has written a handle of this type there.
pub(crate) unsafe fn shareable<T>(place: *mut T, handle_type: u64) -> u64 {
    match handle_type {
        // SAFETY: the caller's promise; a descriptor is an int.
        DESCRIPTOR => unsafe { field::<c_int, T>(place, 0) },
        // SAFETY: likewise.
        FABRIC => unsafe { place.digest() },
        _ => 0,
    }
}

/// What was handed in: a descriptor is passed as if it were a pointer.
///
/// # Safety
/// For a fabric handle, `handle` is null or the driver has read 64 bytes there.
pub(crate) unsafe fn foreign<T>(handle: *mut T, handle_type: u64) -> u64 {
    match handle_type {
        DESCRIPTOR => handle as u64,
        // SAFETY: the caller's promise.
        FABRIC => unsafe { handle.digest() },
        _ => 0,
    }
}

/// A pool attribute's value: the first three are ints, the others have eight bytes.
///
/// # Safety
/// `value` is null, or the driver has read or written a value of this attribute there.
pub(crate) unsafe fn pool_value<T>(attribute: c_uint, value: *const T) -> u64 {
    const RELEASE_THRESHOLD: c_uint = 4;
    const USED_HIGH: c_uint = 8;
    if (RELEASE_THRESHOLD..=USED_HIGH).contains(&attribute) {
        // SAFETY: the caller's promise.
        unsafe { field::<u64, T>(value, 0) }
    } else {
        // SAFETY: likewise.
        unsafe { field::<c_uint, T>(value, 0) }
    }
}

/// An array descriptor's facts, as a record's words hold them.
///
/// # Safety
/// `descriptor` is null, or the driver has read a descriptor of this shape there.
pub(crate) unsafe fn array<T>(descriptor: *const T, shape: ArrayShape) -> (u64, u64) {
    if descriptor.is_null() {
        return (0, 0);
    }
    let extent = |offset: usize| {
        let value = if shape.is_narrow() {
            // SAFETY: the caller's promise, and the shape says where.
            unsafe { field::<c_uint, T>(descriptor, offset) }
        } else {
            // SAFETY: likewise.
            unsafe { field::<u64, T>(descriptor, offset) }
        };
        u32::try_from(value).unwrap_or(u32::MAX)
    };
    let word = |offset: usize| {
        // SAFETY: likewise.
        unsafe { field::<c_uint, T>(descriptor, offset) }
    };
    let (width, height, depth) = shape.extents();
    let (format, channels, flags) = shape.format();
    ArrayFacts {
        width: extent(width),
        height: extent(height),
        depth: depth.map_or(0, extent),
        format: word(format) as u16,
        channels: word(channels) as u8,
        flags: flags.map_or(0, word) as u8,
    }
    .words()
}

/// What a record needs of `CUgraphNodeParams`, which has the same offsets in every version that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) kind: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) location: u64,
}

impl Node {
    /// Whether it matters to memory.
    pub(crate) fn matters(&self) -> bool {
        matches!(self.kind, node::ALLOCATES | node::FREES | node::GRAPH)
    }

    /// # Safety
    /// `parameters` is null, or the driver has read and written the struct there.
    pub(crate) unsafe fn read<T>(parameters: *const T) -> Self {
        let word = |offset| {
            // SAFETY: the caller's promise; the struct has 256 bytes.
            unsafe { field::<u64, T>(parameters, offset) }
        };
        let kind = word(node::TYPE) as u32;
        let allocates = kind == node::ALLOCATES;
        Self {
            kind,
            address: word(match kind {
                node::ALLOCATES => node::ALLOC_ADDRESS,
                node::GRAPH => node::CHILD_GRAPH,
                _ => node::FREE_ADDRESS,
            }),
            size: if allocates { word(node::ALLOC_SIZE) } else { 0 },
            location: if allocates {
                word(node::ALLOC_LOCATION)
            } else {
                0
            },
        }
    }
}

/// Size of the allocation at `*place`, as the driver says.
///
/// # Safety
/// `place` is null, or the driver has written an address there.
pub(crate) unsafe fn range(place: *const u64) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { at(place) } {
        0 => 0,
        address => driver::allocation_size(address).unwrap_or(0),
    }
}

/// Location of the physical memory `*place`, as the driver says.
///
/// # Safety
/// `place` is null, or the driver has written a handle there.
pub(crate) unsafe fn properties(place: *const u64) -> u64 {
    // SAFETY: the caller's promise.
    driver::handle_location(unsafe { at(place) }).unwrap_or(0)
}
