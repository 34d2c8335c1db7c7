//! The real driver: which library it is, where its functions are, and telling its answers apart.
//!
//! Nothing is chosen by name or by version. The library that first answers for one of our names is the driver;
//! each of its exports is looked up once, and whatever a look-up hands out later is recognised by its address. On
//! real drivers every answer of `cuGetProcAddress` is the address of an exported symbol (measured on 470 to 580).

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use gpushim_abi::hooks::{CUDA_SUCCESS, CUresult, HOOKS, HookId};

use crate::elf::{self, Object};
use crate::sync::{AtomicUsize, Ordering};
use crate::{exports, sys};

const HOOK_COUNT: usize = HOOKS.len();
/// Key of the library in use, 0 while there is none.
static LIBRARY: AtomicUsize = AtomicUsize::new(0);
/// Its functions by row; 0 for one that it lacks.
static REAL: [AtomicUsize; HOOK_COUNT] = [const { AtomicUsize::new(0) }; HOOK_COUNT];
/// First address of that library and the first after it.
static SPAN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Functions that the recorder itself asks, by [`Query`].
static QUERIES: [AtomicUsize; Query::ALL.len()] = [const { AtomicUsize::new(0) }; Query::ALL.len()];

/// Driver functions that the recorder calls itself: questions without effect. Up to `DeviceAttribute`, and for `CaptureInfo`, they
/// are legal at any moment; the others are asked in [`relaxed`] mode, since they would invalidate a stream capture of
/// the program's (`cuMemPoolGetAttribute` was seen to on driver 580).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Query {
    ContextCurrent,
    ContextDevice,
    DriverVersion,
    DeviceCount,
    DeviceGet,
    DeviceName,
    DeviceUuidV2,
    DeviceUuid,
    DeviceTotal,
    DevicePci,
    DeviceAttribute,
    CaptureInfo,
    CaptureMode,
    AddressRange,
    HandleProperties,
    FunctionIsLoaded,
    FunctionAttribute,
    PoolAttribute,
    CurrentPool,
    GraphAttribute,
}

impl Query {
    const ALL: [(Self, &'static CStr); 20] = [
        (Self::ContextCurrent, c"cuCtxGetCurrent"),
        (Self::ContextDevice, c"cuCtxGetDevice"),
        (Self::DriverVersion, c"cuDriverGetVersion"),
        (Self::DeviceCount, c"cuDeviceGetCount"),
        (Self::DeviceGet, c"cuDeviceGet"),
        (Self::DeviceName, c"cuDeviceGetName"),
        (Self::DeviceUuidV2, c"cuDeviceGetUuid_v2"),
        (Self::DeviceUuid, c"cuDeviceGetUuid"),
        (Self::DeviceTotal, c"cuDeviceTotalMem_v2"),
        (Self::DevicePci, c"cuDeviceGetPCIBusId"),
        (Self::DeviceAttribute, c"cuDeviceGetAttribute"),
        (Self::CaptureInfo, c"cuStreamGetCaptureInfo"),
        (Self::CaptureMode, c"cuThreadExchangeStreamCaptureMode"),
        (Self::AddressRange, c"cuMemGetAddressRange_v2"),
        (
            Self::HandleProperties,
            c"cuMemGetAllocationPropertiesFromHandle",
        ),
        (Self::FunctionIsLoaded, c"cuFuncIsLoaded"),
        (Self::FunctionAttribute, c"cuFuncGetAttribute"),
        (Self::PoolAttribute, c"cuMemPoolGetAttribute"),
        (Self::CurrentPool, c"cuDeviceGetMemPool"),
        (Self::GraphAttribute, c"cuDeviceGetGraphMemAttribute"),
    ];

    /// Each stands at its own number.
    const ORDERED: () = {
        let mut n = 0;
        while n < Self::ALL.len() {
            assert!(Self::ALL[n].0 as usize == n);
            n += 1;
        }
    };

    /// The function's address, 0 when the driver lacks it.
    fn address(self) -> usize {
        let () = Self::ORDERED;
        QUERIES[self as usize].load(Ordering::Relaxed)
    }
}

/// Address of the driver's own function; `None` when no driver is loaded or it lacks the function.
#[inline]
pub(crate) fn real(hook: HookId) -> Option<usize> {
    match REAL[hook.index()].load(Ordering::Relaxed) {
        0 => find_by_scan(hook),
        address => Some(address),
    }
}

/// A program that is linked against the driver calls our export before any look-up: find the library that
/// its call would have reached.
#[cold]
fn find_by_scan(hook: HookId) -> Option<usize> {
    if LIBRARY.load(Ordering::Acquire) == 0 {
        let candidate = |named: bool| {
            elf::find(|entry| {
                let object = entry.object()?;
                let is_ours = object.key() == elf::own();
                let fits = !named || object.is_called(b"libcuda.so");
                (!is_ours && fits && is_driver(object)).then_some(object)
            })
        };
        // A library of stubs may be loaded before the driver.
        adopt(candidate(true).or_else(|| candidate(false))?);
        interposed();
    }
    match REAL[hook.index()].load(Ordering::Relaxed) {
        0 => None,
        address => Some(address),
    }
}

/// A program that calls us through its procedure linkage table would call, without us, the first library after us that was preloaded and
/// defines the name, and the driver where none does.
fn interposed() {
    let Some(preloaded) = sys::variable(c"LD_PRELOAD") else {
        return;
    };
    let mut passed = false;
    elf::find(|entry| {
        let object = entry.object()?;
        if object.key() == elf::own() {
            passed = true;
            return None;
        }
        if !passed || object.key() == LIBRARY.load(Ordering::Relaxed) {
            return None;
        }
        let leaf = entry
            .path()
            .rsplit(|&b| b == b'/')
            .next()
            .unwrap_or_default();
        if !preloaded
            .split(|&b| b == b':' || b == b' ')
            .any(|item| !leaf.is_empty() && item.ends_with(leaf))
        {
            // Preloaded libraries come one after the other.
            return Some(());
        }
        if object.function(c"gpushim_mark") != 0 {
            // A second copy of us would pass the call back.
            return None;
        }
        for (real, hook) in REAL.iter().zip(HOOKS) {
            let address = object.function(exports::name(hook.id));
            if address != 0 {
                real.store(address, Ordering::Relaxed);
            }
        }
        None::<()>
    });
}

/// Whether a library is a CUDA driver, or a shim that stands before one.
fn is_driver(object: Object) -> bool {
    object.function(c"cuInit") != 0
        && object.function(c"cuMemAlloc_v2") != 0
        // Another copy of ourselves is none.
        && object.function(c"gpushim_mark") == 0
}

/// Takes this library as the driver in use and learns its functions. Threads that do it at the same moment write
/// the same values; a library other than the one in use is left alone while that one is still loaded.
fn adopt(object: Object) {
    let key = object.key();
    let held = LIBRARY.load(Ordering::Acquire);
    if held != key {
        if held != 0 && Object::with_key(held).is_some() {
            return;
        }
        if LIBRARY
            .compare_exchange(held, key, Ordering::AcqRel, Ordering::Acquire)
            .is_err_and(|winner| winner != key)
        {
            return;
        }
    }
    for (real, hook) in REAL.iter().zip(HOOKS) {
        let address = object.function(exports::name(hook.id));
        real.store(address, Ordering::Relaxed);
    }
    if let Some(entry) = elf::holding(key) {
        let (start, end) = entry.span();
        SPAN[0].store(start as usize, Ordering::Relaxed);
        SPAN[1].store(end as usize, Ordering::Relaxed);
    }
    for (place, (_, name)) in QUERIES.iter().zip(Query::ALL) {
        place.store(object.function(name), Ordering::Release);
    }
}

/// The row whose driver function this address is.
///
/// A walk over the rows: look-ups cost the driver hundreds of nanoseconds, a table would have to be rebuilt when
/// a driver is unloaded, and a thread that reads it meanwhile would lose a function for ever.
pub(crate) fn recognise(address: usize) -> Option<HookId> {
    let row = REAL
        .iter()
        .position(|real| real.load(Ordering::Relaxed) == address)?;
    HOOKS.get(row).map(|hook| hook.id)
}

/// What a look-up of a hooked name answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The driver's function: hand out the hook in its place.
    Hooked(HookId),
    /// Some other library's function of that name: not ours to replace.
    Foreign,
}

/// Tells what an address is that a look-up of this name gave, and takes its library as the driver if there is none yet.
pub(crate) fn identify(address: usize, name: &CStr) -> Answer {
    // By name too: after a driver was unloaded, another library's function may have the address of one that we remember.
    if let Some(hook) = recognise(address)
        && (exports::name(hook) == name || is_alias(address, exports::name(hook), name))
    {
        return Answer::Hooked(hook);
    }
    if let Some(object) = Object::holding(address)
        && object.key() != elf::own()
        && is_driver(object)
    {
        adopt(object);
    }
    recognise(address).map_or(Answer::Foreign, Answer::Hooked)
}

/// Whether an address lies in the library in use: a call that returns there is the driver's own.
pub(crate) fn is_inside(address: u64) -> bool {
    let [start, end] = [0, 1].map(|at: usize| SPAN[at & 1].load(Ordering::Relaxed) as u64);
    (start..end).contains(&address)
}

/// Whether one library calls the function at this address by both names.
fn is_alias(address: usize, one: &CStr, other: &CStr) -> bool {
    Object::holding(address)
        .is_some_and(|object| object.function(one) == address && object.function(other) == address)
}

/// Copies the path of the driver's file; the bytes copied.
pub(crate) fn path(into: &mut [u8]) -> usize {
    let key = LIBRARY.load(Ordering::Acquire);
    elf::find(|entry| {
        if entry.object().map(Object::key) != Some(key) {
            return None;
        }
        let path = entry.path();
        let len = path.len().min(into.len());
        for (to, from) in into.iter_mut().zip(path) {
            *to = *from;
        }
        Some(len)
    })
    .unwrap_or(0)
}

macro_rules! ask {
    ($query:ident ( $($ty:ty),* ) ( $($value:expr),* )) => {{
        match Query::$query.address() {
            0 => None,
            address => {
                type Function = unsafe extern "C" fn($($ty),*) -> CUresult;
                // SAFETY: the address is the driver's export of the name that stands beside the query, whose
                // signature in cuda.h is the one given here.
                let function = unsafe { core::mem::transmute::<usize, Function>(address) };
                // SAFETY: out-parameters are locals of ours, large enough for what the driver writes.
                let status = unsafe { function($($value),*) };
                Some(status).filter(|&status| status == CUDA_SUCCESS)
            }
        }
    }};
}

/// The calling thread's current context; null when there is none.
pub(crate) fn current_context() -> *mut c_void {
    let mut context = core::ptr::null_mut();
    let _ = ask!(ContextCurrent(*mut *mut c_void)(&raw mut context));
    context
}

/// Ordinal of the current context's device.
pub(crate) fn current_device() -> Option<c_int> {
    let mut device = -1;
    ask!(ContextDevice(*mut c_int)(&raw mut device))?;
    Some(device)
}

/// Id of the capture that a stream is in, [`INVALIDATED`] for one that can only be ended; `None` outside of any.
pub(crate) fn capture(stream: u64) -> Option<u64> {
    /// `CUstreamCaptureStatus`.
    const NONE: c_uint = 0;
    const ACTIVE: c_uint = 1;
    let (mut status, mut id) = (NONE, 0_u64);
    let _errno = sys::ErrnoGuard::new();
    ask!(CaptureInfo(*mut c_void, *mut c_uint, *mut u64)(
        stream as *mut c_void,
        &raw mut status,
        &raw mut id
    ))?;
    match status {
        NONE => None,
        ACTIVE => Some(id),
        // The driver says no id any more.
        _ => Some(INVALIDATED),
    }
}

/// In place of the id of a capture that a forbidden call has invalidated.
const INVALIDATED: u64 = u64::MAX;

/// Asks something that the driver forbids while a stream is captured; in relaxed mode neither this thread's captures nor those of
/// others are touched. `None` where the driver has no such mode, or is asked in vain.
fn relaxed<T>(question: impl FnOnce() -> Option<T>) -> Option<T> {
    /// `CU_STREAM_CAPTURE_MODE_RELAXED`.
    const RELAXED: c_uint = 2;
    let _errno = sys::ErrnoGuard::new();
    let mut mode = RELAXED;
    ask!(CaptureMode(*mut c_uint)(&raw mut mode))?;
    let answer = question();
    let _ = ask!(CaptureMode(*mut c_uint)(&raw mut mode));
    answer
}

/// Size of the allocation that an address lies in, bytes.
pub(crate) fn allocation_size(address: u64) -> Option<u64> {
    let (mut base, mut size) = (0_u64, 0_u64);
    relaxed(|| {
        ask!(AddressRange(*mut u64, *mut u64, u64)(
            &raw mut base,
            &raw mut size,
            address
        ))
    })?;
    Some(size)
}

/// Location of physical memory, as a `CUmemLocation`.
pub(crate) fn handle_location(handle: u64) -> Option<u64> {
    // CUmemAllocationProp: 32 bytes, the location is at offset 8.
    let mut properties = [0_u64; 8];
    relaxed(|| {
        ask!(HandleProperties(*mut u64, u64)(
            properties.as_mut_ptr(),
            handle
        ))
    })?;
    Some(properties[1])
}

/// Local memory of a kernel's thread, bytes. Only where the driver says that the kernel is loaded: the question alone would
/// load it.
pub(crate) fn local_bytes(function: u64) -> Option<u64> {
    /// `CU_FUNCTION_LOADING_STATE_LOADED`.
    const LOADED: c_uint = 1;
    /// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
    const LOCAL_SIZE: c_uint = 3;
    relaxed(|| {
        let function = function as *mut c_void;
        let (mut state, mut bytes) = (0, 0);
        ask!(FunctionIsLoaded(*mut c_uint, *mut c_void)(
            &raw mut state,
            function
        ))?;
        if state != LOADED {
            return None;
        }
        ask!(FunctionAttribute(*mut c_int, c_uint, *mut c_void)(
            &raw mut bytes,
            LOCAL_SIZE,
            function
        ))?;
        u64::try_from(bytes).ok()
    })
}

/// What a pool holds of its device, and what of that is handed out, bytes.
pub(crate) fn pool(pool: u64) -> Option<(u64, u64)> {
    /// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT` and `…_USED_MEM_CURRENT`.
    const RESERVED: c_uint = 5;
    const USED: c_uint = 7;
    let attribute = |which: c_uint| {
        let mut value = 0_u64;
        ask!(PoolAttribute(*mut c_void, c_uint, *mut u64)(
            pool as *mut c_void,
            which,
            &raw mut value
        ))?;
        Some(value)
    };
    relaxed(|| Some((attribute(RESERVED)?, attribute(USED)?)))
}

/// The pool that `cuMemAllocAsync` takes from on a device.
pub(crate) fn current_pool(device: u8) -> Option<u64> {
    let mut pool = core::ptr::null_mut();
    relaxed(|| {
        ask!(CurrentPool(*mut *mut c_void, c_int)(
            &raw mut pool,
            c_int::from(device)
        ))
    })?;
    Some(pool as u64)
}

/// What the graphs of a device hold of it, bytes.
pub(crate) fn graph_memory(device: u8) -> Option<u64> {
    /// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
    const RESERVED: c_uint = 2;
    let mut value = 0_u64;
    relaxed(|| {
        ask!(GraphAttribute(c_int, c_uint, *mut u64)(
            c_int::from(device),
            RESERVED,
            &raw mut value
        ))
    })?;
    Some(value)
}

/// Version of the driver, 0 unknown.
pub(crate) fn version() -> c_int {
    let mut version = 0;
    let _ = ask!(DriverVersion(*mut c_int)(&raw mut version));
    version
}

/// Number of devices that this process sees.
pub(crate) fn device_count() -> c_int {
    let mut count = 0;
    let _ = ask!(DeviceCount(*mut c_int)(&raw mut count));
    count
}

/// A device, as the driver describes it.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) uuid: [u8; 16],
    pub(crate) total: u64,
    pub(crate) capability: (u16, u16),
    pub(crate) processors: u32,
    pub(crate) processor_threads: u32,
    name: [u8; 128],
    pci: [u8; 32],
}

fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

impl Device {
    pub(crate) fn name(&self) -> &[u8] {
        text(&self.name)
    }

    pub(crate) fn pci(&self) -> &[u8] {
        text(&self.pci)
    }
}

/// Asks the driver about a device; what it does not answer stays empty.
pub(crate) fn device(ordinal: c_int) -> Option<Device> {
    const MAJOR: c_uint = 75;
    const MINOR: c_uint = 76;
    const PROCESSORS: c_uint = 16;
    const PROCESSOR_THREADS: c_uint = 39;
    let mut handle = 0;
    ask!(DeviceGet(*mut c_int, c_int)(&raw mut handle, ordinal))?;
    let mut device = Device {
        uuid: [0; 16],
        total: 0,
        capability: (0, 0),
        processors: 0,
        processor_threads: 0,
        name: [0; 128],
        pci: [0; 32],
    };
    let uuid = device.uuid.as_mut_ptr();
    if ask!(DeviceUuidV2(*mut u8, c_int)(uuid, handle)).is_none() {
        let _ = ask!(DeviceUuid(*mut u8, c_int)(uuid, handle));
    }
    let _ = ask!(DeviceTotal(*mut u64, c_int)(&raw mut device.total, handle));
    let _ = ask!(DeviceName(*mut c_char, c_int, c_int)(
        device.name.as_mut_ptr().cast(),
        device.name.len() as c_int - 1,
        handle
    ));
    let _ = ask!(DevicePci(*mut c_char, c_int, c_int)(
        device.pci.as_mut_ptr().cast(),
        device.pci.len() as c_int - 1,
        handle
    ));
    let attribute = |which: c_uint| {
        let mut value = 0;
        let _ = ask!(DeviceAttribute(*mut c_int, c_uint, c_int)(
            &raw mut value,
            which,
            handle
        ));
        value as u32
    };
    device.capability = (attribute(MAJOR) as u16, attribute(MINOR) as u16);
    device.processors = attribute(PROCESSORS);
    device.processor_threads = attribute(PROCESSOR_THREADS);
    Some(device)
}
