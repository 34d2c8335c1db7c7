//! What a person tries who trains two small models in a loop and wonders why the memory does not come back.
//!
//! The driver calls are those of a PyTorch program: a primary context, a caching allocator that takes 2 MiB and 20 MiB segments
//! and keeps them, `empty_cache` that returns the idle ones. Model A is deleted whole. Model B's optimizer is kept, by
//! a list that somebody forgot: each loop leaves one optimizer's state behind. After every statement the program prints
//! what the whole device has in use, as `nvidia-smi` would, which is all that its author knows.
//!
//! usage: `two_models [ORDINAL]` (default: the last device)

use std::error::Error;
use std::ffi::{c_int, c_uint, c_void};
use std::io::Write as _;
use std::{env, process, thread, time::Duration};

use libloading::os::unix::{Library, RTLD_NOW, Symbol};

/// Parameters of one model, bytes: two layers of 2048 × 2048 floats.
const PARAMETERS: usize = 2 * 2048 * 2048 * 4;
/// Activations of one forward pass, bytes.
const ACTIVATIONS: usize = 24 << 20;
/// A batch, bytes.
const BATCH: usize = 4 << 20;
const LOOPS: usize = 3;

fn main() {
    if let Err(error) = run() {
        eprintln!("two_models: {error}");
        process::exit(1);
    }
}

/// The driver functions that the program needs, found as a CUDA runtime finds them.
struct Driver {
    init: Symbol<unsafe extern "C" fn(c_uint) -> c_int>,
    count: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int>,
    retain: Symbol<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>,
    set_current: Symbol<unsafe extern "C" fn(*mut c_void) -> c_int>,
    info: Symbol<unsafe extern "C" fn(*mut usize, *mut usize) -> c_int>,
    alloc: Symbol<unsafe extern "C" fn(*mut u64, usize) -> c_int>,
    free: Symbol<unsafe extern "C" fn(u64) -> c_int>,
    pinned: Symbol<unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int>,
}

impl Driver {
    fn open() -> Result<Self, Box<dyn Error>> {
        // SAFETY: loading the CUDA driver is what every CUDA program does.
        let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW) }?;
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: the field that takes it has the signature of cuda.h; the library is never unloaded.
                unsafe { library.get($name) }?
            };
        }
        let driver = Self {
            init: find!(b"cuInit\0"),
            count: find!(b"cuDeviceGetCount\0"),
            retain: find!(b"cuDevicePrimaryCtxRetain\0"),
            set_current: find!(b"cuCtxSetCurrent\0"),
            info: find!(b"cuMemGetInfo_v2\0"),
            alloc: find!(b"cuMemAlloc_v2\0"),
            free: find!(b"cuMemFree_v2\0"),
            pinned: find!(b"cuMemHostAlloc\0"),
        };
        library.into_raw();
        Ok(driver)
    }
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("{call} answered {status}"))
    }
}

/// A segment of device memory and the blocks that are cut from it.
struct Segment {
    address: u64,
    bytes: usize,
    blocks: Vec<(u64, usize)>,
}

/// Hands out blocks from segments and keeps the segments, as PyTorch's caching allocator does.
struct Allocator<'d> {
    driver: &'d Driver,
    segments: Vec<Segment>,
}

/// Something that a variable of the program holds.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
}

impl Allocator<'_> {
    fn segment_bytes(bytes: usize) -> usize {
        match bytes {
            0..=0x10_0000 => 2 << 20,
            0x10_0001..=0xa0_0000 => 20 << 20,
            _ => bytes.next_multiple_of(2 << 20),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<Block, String> {
        let bytes = bytes.next_multiple_of(512);
        for segment in &mut self.segments {
            let mut at = segment.address;
            for &(start, len) in &segment.blocks {
                if start - at >= bytes as u64 {
                    break;
                }
                at = start + len as u64;
            }
            if at + bytes as u64 <= segment.address + segment.bytes as u64 {
                segment.blocks.push((at, bytes));
                segment.blocks.sort_unstable();
                return Ok(Block { address: at });
            }
        }
        let size = Self::segment_bytes(bytes);
        let mut address = 0;
        // SAFETY: the pointer is to a local; a context is current.
        check("cuMemAlloc", unsafe {
            (self.driver.alloc)(&raw mut address, size)
        })?;
        self.segments.push(Segment {
            address,
            bytes: size,
            blocks: vec![(address, bytes)],
        });
        Ok(Block { address })
    }

    fn give(&mut self, block: Block) {
        for segment in &mut self.segments {
            segment.blocks.retain(|&(at, _)| at != block.address);
        }
    }

    /// `torch.cuda.empty_cache()`.
    fn empty_cache(&mut self) -> Result<(), String> {
        let (idle, held) = std::mem::take(&mut self.segments)
            .into_iter()
            .partition(|segment| segment.blocks.is_empty());
        self.segments = held;
        let idle: Vec<Segment> = idle;
        for segment in idle {
            // SAFETY: no block of the segment is in use.
            check("cuMemFree", unsafe { (self.driver.free)(segment.address) })?;
        }
        Ok(())
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let driver = Driver::open()?;
    // SAFETY: the driver takes flags 0.
    check("cuInit", unsafe { (driver.init)(0) })?;
    let mut devices = 0;
    // SAFETY: the pointer is to a local.
    check("cuDeviceGetCount", unsafe {
        (driver.count)(&raw mut devices)
    })?;
    let ordinal = match env::args().nth(1) {
        Some(text) => text.parse()?,
        None => devices - 1,
    };
    let mut context = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    check("cuDevicePrimaryCtxRetain", unsafe {
        (driver.retain)(&raw mut context, ordinal)
    })?;
    // SAFETY: the context was just given.
    check("cuCtxSetCurrent", unsafe { (driver.set_current)(context) })?;
    let mut staging = std::ptr::null_mut();
    // SAFETY: the pointer is to a local.
    check("cuMemHostAlloc", unsafe {
        (driver.pinned)(&raw mut staging, BATCH, 0)
    })?;

    println!("two small models, one after another, {LOOPS} loops on cuda:{ordinal}");
    let mut torch = Allocator {
        driver: &driver,
        segments: Vec::new(),
    };
    // The list that somebody forgot.
    let mut history: Vec<[Block; 2]> = Vec::new();
    for turn in 0..LOOPS {
        for (model, keeps_optimizer) in [("A", false), ("B", true)] {
            let [moment, variance] = train(&mut torch, &driver, turn, model)?;
            if keeps_optimizer {
                history.push([moment, variance]);
            } else {
                torch.give(moment);
                torch.give(variance);
            }
            torch.empty_cache()?;
            show(
                &driver,
                &format!("loop {turn} {model}: all deleted, empty_cache"),
            )?;
        }
    }
    println!("{} optimizers are still in the history", history.len());
    Ok(())
}

/// One model's life; what remains is its optimizer's state.
fn train(
    torch: &mut Allocator<'_>,
    driver: &Driver,
    turn: usize,
    model: &str,
) -> Result<[Block; 2], Box<dyn Error>> {
    let batch = torch.take(BATCH)?;
    let parameters = torch.take(PARAMETERS)?;
    show(driver, &format!("loop {turn} {model}: x, model.to(device)"))?;
    let activations = torch.take(ACTIVATIONS)?;
    let loss = torch.take(512)?;
    show(driver, &format!("loop {turn} {model}: forward"))?;
    let gradients = torch.take(PARAMETERS)?;
    show(driver, &format!("loop {turn} {model}: loss.backward()"))?;
    let optimizer = [torch.take(PARAMETERS)?, torch.take(PARAMETERS)?];
    show(driver, &format!("loop {turn} {model}: optimizer.step()"))?;
    for block in [loss, activations, gradients, parameters, batch] {
        torch.give(block);
    }
    Ok(optimizer)
}

/// Prints what the device has in use, and gives the timeline some breadth.
fn show(driver: &Driver, statement: &str) -> Result<(), Box<dyn Error>> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are to locals; a context is current.
    check("cuMemGetInfo", unsafe {
        (driver.info)(&raw mut free, &raw mut total)
    })?;
    let used = (total - free) >> 20;
    writeln!(std::io::stdout(), "{statement:44} {used:6} MiB in use")?;
    thread::sleep(Duration::from_millis(20));
    Ok(())
}
