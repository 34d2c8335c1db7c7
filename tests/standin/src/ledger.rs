//! The books: devices, contexts, and everything that is alive, with what each costs a device.
//!
//! Costs are those measured on an H200 with driver 580.159.04: a context takes 523.6 MiB; allocations up to 1 MiB are packed into
//! blocks of 2 MiB that belong to their context; larger ones are rounded up to 2 MiB; pools grow by 32 MiB.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::thread::ThreadId;

use crate::entry::{Answer, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const BLOCK: u64 = 2 * MIB;
/// Allocations up to this share blocks.
const PACKED_MAX: u64 = MIB;
/// Small allocations begin at multiples of this.
const GRAIN: u64 = 512;
/// What initialising costs each device.
const INIT_BYTES: u64 = 3_358_720;
/// What a context costs.
const CONTEXT_BYTES: u64 = 549_036_032;
/// A thread's stack unless the program sets another, bytes, and how many threads have one.
pub(crate) const STACK_BYTES: u64 = 1024;
pub(crate) const STACKS: u64 = PROCESSORS * PROCESSOR_THREADS;
pub(crate) const PROCESSORS: u64 = 132;
pub(crate) const PROCESSOR_THREADS: u64 = 2048;
/// Small arrays begin at multiples of this.
const ARRAY_GRAIN: u64 = 64 << 10;
/// By which pools grow.
const POOL_STEP: u64 = 32 * MIB;
/// Where addresses of the 32-bit interface lie.
const LOW: u64 = 0x1000_0000;
const LOW_END: u64 = 0xf000_0000;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Linear,
    Managed,
    Pool,
    Host,
    Registered,
    Array,
    Mipmapped,
    /// Another process's allocation.
    Ipc,
    /// Memory of another interface.
    External,
    /// A part of it, at an address.
    ExternalBuffer,
    /// What a graph's node allocated at a launch.
    GraphBlock,
    Stream,
    Event,
    Module,
    Library,
    Texture,
    Surface,
    Semaphore,
    Graphics,
    Green,
    Endpoint,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Managed => "managed",
            Self::Pool => "pool",
            Self::Host => "host",
            Self::Registered => "registered",
            Self::Array => "array",
            Self::Mipmapped => "mipmapped",
            Self::Ipc => "ipc",
            Self::External => "external",
            Self::ExternalBuffer => "external_buffer",
            Self::GraphBlock => "graph_block",
            Self::Stream => "stream",
            Self::Event => "event",
            Self::Module => "module",
            Self::Library => "library",
            Self::Texture => "texture",
            Self::Surface => "surface",
            Self::Semaphore => "semaphore",
            Self::Graphics => "graphics",
            Self::Green => "green",
            Self::Endpoint => "endpoint",
        }
    }

    fn dies_with_context(self) -> bool {
        !matches!(
            self,
            Self::Pool | Self::GraphBlock | Self::Library | Self::Green | Self::Endpoint
        )
    }
}

/// Something alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) device: usize,
    pub(crate) context: u64,
    /// What it came out of: the pool, the executable graph, the external memory.
    pub(crate) owner: u64,
    /// How often it is held: openings of another process's allocation.
    pub(crate) held: u32,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Ordinal on the machine, before CUDA_VISIBLE_DEVICES.
    pub(crate) physical: usize,
    pub(crate) total: u64,
    pub(crate) used: u64,
    pub(crate) primary: u64,
    pub(crate) primary_references: u32,
    pub(crate) default_pool: u64,
    pub(crate) current_pool: u64,
    /// What its graphs hold, bytes.
    pub(crate) graphs_reserved: u64,
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) is_primary: bool,
    pub(crate) references: u32,
    /// A thread's stack, bytes: limit 0.
    pub(crate) stack: u64,
    /// What the stacks take beyond what is part of the context, bytes.
    pub(crate) stack_bytes: i64,
    /// Shared blocks: first address, then taken ranges by offset. Arrays have their own.
    blocks: [BTreeMap<u64, BTreeMap<u64, u64>>; 2],
}

/// A stream-ordered pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    pub(crate) reserved: u64,
    pub(crate) used: u64,
    pub(crate) reserved_high: u64,
    pub(crate) used_high: u64,
    pub(crate) threshold: u64,
    /// Whether its handle was given back; it ends with its last block.
    pub(crate) is_destroyed: bool,
    /// Whether it is another process's.
    pub(crate) is_imported: bool,
}

/// Physical memory behind a handle.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) size: u64,
    /// `None` for memory on the host.
    pub(crate) device: Option<usize>,
    pub(crate) references: u32,
    pub(crate) mappings: u32,
    /// Bindings to multicast objects and endpoints.
    pub(crate) bindings: u32,
    /// Our ends of the descriptors that were handed out: they tell when all copies of the others are closed.
    pub(crate) exports: Vec<OwnedFd>,
    /// Handles of this process that name the same memory after an import.
    pub(crate) aliases: u32,
    /// For such a handle: the one whose memory it is.
    pub(crate) alias_of: u64,
    /// Whether the memory is another handle's or process's, so that nothing is charged for it.
    pub(crate) is_imported: bool,
    pub(crate) is_multicast: bool,
}

impl Physical {
    pub(crate) fn new(size: u64, device: Option<usize>) -> Self {
        Self {
            size,
            device,
            references: 1,
            mappings: 0,
            bindings: 0,
            exports: Vec::new(),
            aliases: 0,
            alias_of: 0,
            is_imported: false,
            is_multicast: false,
        }
    }
}

/// A part of a multicast object or endpoint that memory is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) to: u64,
    pub(crate) offset: u64,
    pub(crate) handle: u64,
}

/// A step of a graph that has to do with memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Alloc {
        address: u64,
        size: u64,
        device: usize,
    },
    Free {
        address: u64,
    },
}

/// An executable graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exec {
    pub(crate) steps: Vec<Step>,
    pub(crate) frees_at_launch: bool,
    /// Whether its memory was taken.
    pub(crate) is_backed: bool,
}

/// A stream that is being captured.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) mode: c_uint,
    pub(crate) thread: ThreadId,
    pub(crate) graph: u64,
    /// Whether its end makes the graph.
    pub(crate) makes_graph: bool,
    pub(crate) is_invalid: bool,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: BTreeMap<u64, Context>,
    /// Device and host objects by address; streams, events and modules by handle.
    pub(crate) objects: BTreeMap<u64, Object>,
    pub(crate) registered: BTreeMap<u64, Object>,
    pub(crate) pools: BTreeMap<u64, Pool>,
    pub(crate) physical: BTreeMap<u64, Physical>,
    pub(crate) reservations: BTreeMap<u64, u64>,
    /// Mappings: first address to length and handle.
    pub(crate) mappings: BTreeMap<u64, (u64, u64)>,
    pub(crate) bindings: Vec<Binding>,
    /// Parts of sparse arrays that have memory: array and part to handle.
    pub(crate) tiles: BTreeMap<(u64, Vec<u8>), u64>,
    pub(crate) graphs: BTreeMap<u64, Vec<Step>>,
    pub(crate) execs: BTreeMap<u64, Exec>,
    /// By stream.
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) captures_begun: u64,
    /// Green contexts: the primary context behind each.
    pub(crate) greens: BTreeMap<u64, u64>,
    next_address: u64,
    next_low: u64,
    next_handle: u64,
    free_addresses: HashMap<(bool, u64), Vec<u64>>,
    free_contexts: Vec<u64>,
}

fn size_variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], MIB),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (&text[..], 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// UUID of a device of this machine; begins like no real one.
pub(crate) fn uuid(physical: usize) -> [u8; 16] {
    let mut id = *b"gpushim-stand-in";
    id[15] = physical as u8;
    id
}

/// Ordinals that CUDA_VISIBLE_DEVICES leaves.
fn visible(count: usize) -> Vec<usize> {
    let Ok(text) = env::var("CUDA_VISIBLE_DEVICES") else {
        return (0..count).collect();
    };
    let mut left = Vec::new();
    for item in text.split(',').map(str::trim) {
        let by_uuid = || {
            (0..count).find(|ordinal| {
                let hex: String = uuid(*ordinal).iter().map(|b| format!("{b:02x}")).collect();
                item.strip_prefix("GPU-")
                    .is_some_and(|id| !id.is_empty() && hex.starts_with(&id.replace('-', "")))
            })
        };
        // The first that means nothing ends the list, as in the real driver.
        match item.parse().ok().filter(|n| *n < count).or_else(by_uuid) {
            Some(ordinal) if !left.contains(&ordinal) => left.push(ordinal),
            _ => break,
        }
    }
    left
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let count = env::var("STANDIN_DEVICES")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(1)
            .min(8);
        let total = size_variable("STANDIN_MEMORY").unwrap_or(143_771 * MIB);
        Self::with(&visible(count), total)
    }

    pub(crate) fn with(visible: &[usize], total: u64) -> Self {
        let mut ledger = Self {
            next_address: 0x7f00_0000_0000,
            next_low: LOW,
            next_handle: 0x5555_0000_1000,
            ..Self::default()
        };
        for &physical in visible {
            let device = ledger.devices.len();
            let pool = ledger.add_pool(device);
            ledger.devices.push(Device {
                physical,
                total,
                used: INIT_BYTES.min(total),
                primary: 0,
                primary_references: 0,
                default_pool: pool,
                current_pool: pool,
                graphs_reserved: 0,
            });
        }
        ledger
    }

    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 64;
        self.next_handle
    }

    pub(crate) fn add_pool(&mut self, device: usize) -> u64 {
        let handle = self.handle();
        self.pools.insert(
            handle,
            Pool {
                device,
                reserved: 0,
                used: 0,
                reserved_high: 0,
                used_high: 0,
                threshold: 0,
                is_destroyed: false,
                is_imported: false,
            },
        );
        handle
    }

    /// The device of a program's ordinal.
    pub(crate) fn device(&self, ordinal: c_int) -> Option<usize> {
        usize::try_from(ordinal)
            .ok()
            .filter(|device| *device < self.devices.len())
    }

    pub(crate) fn take(&mut self, device: usize, bytes: u64) -> Answer {
        let device = &mut self.devices[device];
        if device.used + bytes > device.total {
            return Err(OUT_OF_MEMORY);
        }
        device.used += bytes;
        Ok(())
    }

    /// Takes or gives, without a limit.
    pub(crate) fn take_signed(&mut self, device: usize, bytes: i64) {
        let used = &mut self.devices[device].used;
        *used = used.saturating_add_signed(bytes);
    }

    pub(crate) fn give(&mut self, device: usize, bytes: u64) {
        self.devices[device].used -= bytes;
    }

    /// Addresses for `bytes`; those given back last are handed out first.
    fn address(&mut self, bytes: u64, low: bool) -> u64 {
        if let Some(address) = self
            .free_addresses
            .get_mut(&(low, bytes))
            .and_then(Vec::pop)
        {
            return address;
        }
        let next = if low {
            &mut self.next_low
        } else {
            &mut self.next_address
        };
        let address = *next;
        *next += bytes;
        address
    }

    fn give_address(&mut self, address: u64, bytes: u64) {
        let low = address < LOW_END;
        self.free_addresses
            .entry((low, bytes))
            .or_default()
            .push(address);
    }

    pub(crate) fn reserve_addresses(&mut self, bytes: u64, alignment: u64) -> u64 {
        let alignment = alignment.max(BLOCK);
        self.next_address = self.next_address.next_multiple_of(alignment);
        self.address(bytes, false)
    }

    pub(crate) fn release_addresses(&mut self, address: u64, bytes: u64) {
        self.give_address(address, bytes);
    }

    pub(crate) fn new_context(&mut self, device: usize, is_primary: bool) -> Result<u64, c_int> {
        self.take(device, CONTEXT_BYTES)?;
        // The last handle given back is the next one, as it often is in reality.
        let handle = match self.free_contexts.pop() {
            Some(handle) => handle,
            None => self.handle(),
        };
        self.contexts.insert(
            handle,
            Context {
                device,
                is_primary,
                references: 1,
                stack: STACK_BYTES,
                stack_bytes: 0,
                blocks: Default::default(),
            },
        );
        Ok(handle)
    }

    /// Ends a context and everything that it owns.
    pub(crate) fn end_context(&mut self, handle: u64) {
        let Some(device) = self.contexts.get(&handle).map(|context| context.device) else {
            return;
        };
        let owned: Vec<u64> = self
            .objects
            .iter()
            .filter(|(_, object)| object.context == handle && object.kind.dies_with_context())
            .map(|(address, _)| *address)
            .collect();
        for address in owned {
            self.free(address);
        }
        self.registered.retain(|_, object| object.context != handle);
        // A green context is none without its primary one; the handle may come to mean another.
        for primary in self.greens.values_mut() {
            if *primary == handle {
                *primary = 0;
            }
        }
        if let Some(context) = self.contexts.remove(&handle) {
            self.take_signed(device, -context.stack_bytes);
        }
        self.give(device, CONTEXT_BYTES);
        self.free_contexts.push(handle);
    }

    /// The context behind a handle, which may be a green one's.
    pub(crate) fn resolve(&self, handle: u64) -> u64 {
        self.greens.get(&handle).copied().unwrap_or(handle)
    }

    pub(crate) fn context(&self, handle: u64) -> Result<&Context, c_int> {
        self.contexts
            .get(&self.resolve(handle))
            .ok_or(INVALID_CONTEXT)
    }

    /// Linear memory of a context.
    pub(crate) fn linear(&mut self, context: u64, size: u64, low: bool) -> Result<u64, c_int> {
        let context = self.resolve(context);
        let device = self.context(context)?.device;
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let address = if size <= PACKED_MAX && !low {
            self.packed(context, device, size.next_multiple_of(GRAIN), 0)?
        } else {
            let bytes = size.checked_next_multiple_of(BLOCK).ok_or(OUT_OF_MEMORY)?;
            if low && self.next_low + bytes > LOW_END {
                return Err(OUT_OF_MEMORY);
            }
            self.take(device, bytes)?;
            self.address(bytes, low)
        };
        self.add(address, Kind::Linear, size, device, context);
        Ok(address)
    }

    /// A place in one of the context's shared blocks.
    fn packed(
        &mut self,
        context: u64,
        device: usize,
        bytes: u64,
        set: usize,
    ) -> Result<u64, c_int> {
        let blocks = &self.contexts[&context].blocks[set];
        let place = blocks.iter().find_map(|(base, taken)| {
            let mut at = 0;
            for (start, len) in taken {
                if start - at >= bytes {
                    break;
                }
                at = start + len;
            }
            (at + bytes <= BLOCK).then_some((*base, at))
        });
        let (base, at) = match place {
            Some(place) => place,
            None => {
                self.take(device, BLOCK)?;
                (self.address(BLOCK, false), 0)
            }
        };
        if let Some(context) = self.contexts.get_mut(&context) {
            context.blocks[set]
                .entry(base)
                .or_default()
                .insert(at, bytes);
        }
        Ok(base + at)
    }

    pub(crate) fn add(&mut self, at: u64, kind: Kind, size: u64, device: usize, context: u64) {
        self.objects.insert(
            at,
            Object {
                kind,
                size,
                device,
                context,
                owner: 0,
                held: 1,
            },
        );
    }

    /// Memory of an array, whose handle is its address here: what it takes is `bytes`.
    pub(crate) fn array(
        &mut self,
        context: u64,
        kind: Kind,
        bytes: u64,
        owner: u64,
    ) -> Result<u64, c_int> {
        let context = self.resolve(context);
        let device = self.context(context)?.device;
        let address = if bytes == 0 {
            self.handle()
        } else if bytes <= PACKED_MAX {
            self.packed(context, device, bytes.next_multiple_of(ARRAY_GRAIN), 1)?
        } else {
            let bytes = bytes.checked_next_multiple_of(BLOCK).ok_or(OUT_OF_MEMORY)?;
            self.take(device, bytes)?;
            self.address(bytes, false)
        };
        self.add(address, kind, bytes, device, context);
        if let Some(object) = self.objects.get_mut(&address) {
            object.owner = owner;
        }
        Ok(address)
    }

    /// Frees a place in one of a context's shared blocks.
    fn unpack(&mut self, object: &Object, address: u64, set: usize) {
        let base = address & !(BLOCK - 1);
        let mut emptied = false;
        if let Some(context) = self.contexts.get_mut(&object.context)
            && let Some(taken) = context.blocks[set].get_mut(&base)
        {
            taken.remove(&(address - base));
            emptied = taken.is_empty();
            if emptied {
                context.blocks[set].remove(&base);
            }
        }
        if emptied {
            self.give(object.device, BLOCK);
            self.give_address(base, BLOCK);
        }
    }

    /// Ends an object, whatever it is.
    pub(crate) fn free(&mut self, address: u64) {
        let Some(object) = self.objects.remove(&address) else {
            return;
        };
        match object.kind {
            Kind::Linear if object.size <= PACKED_MAX && address >= LOW_END => {
                self.unpack(&object, address, 0);
            }
            Kind::Array | Kind::Mipmapped if object.size == 0 => {}
            Kind::Array | Kind::Mipmapped if object.size <= PACKED_MAX => {
                self.unpack(&object, address, 1);
            }
            Kind::Array | Kind::Mipmapped => {
                let bytes = object.size.next_multiple_of(BLOCK);
                self.give(object.device, bytes);
                self.give_address(address, bytes);
            }
            Kind::Linear => {
                let bytes = object.size.next_multiple_of(BLOCK);
                self.give(object.device, bytes);
                self.give_address(address, bytes);
            }
            Kind::Managed => {
                self.give_address(address, object.size.next_multiple_of(BLOCK));
            }
            Kind::Pool => {
                if let Some(pool) = self.pools.get_mut(&object.owner) {
                    pool.used -= object.size.next_multiple_of(GRAIN);
                }
                self.give_address(address, object.size.next_multiple_of(BLOCK));
                let over = self
                    .pools
                    .get(&object.owner)
                    .is_some_and(|pool| pool.is_destroyed && pool.used == 0);
                if over {
                    self.trim(object.owner, 0);
                    self.pools.remove(&object.owner);
                }
            }
            Kind::Host => {
                // SAFETY: the address came from `posix_memalign` in `calls::memory`, and its object is gone.
                unsafe { libc::free(address as *mut libc::c_void) };
            }
            Kind::Module => self.give(object.device, object.size),
            // A graph's address is its node's: it comes back at the next launch.
            Kind::GraphBlock
            | Kind::Ipc
            | Kind::External
            | Kind::ExternalBuffer
            | Kind::Stream
            | Kind::Event
            | Kind::Registered
            | Kind::Library
            | Kind::Texture
            | Kind::Surface
            | Kind::Semaphore
            | Kind::Graphics
            | Kind::Green
            | Kind::Endpoint => {}
        }
        if matches!(object.kind, Kind::Array | Kind::Mipmapped) {
            let parts: Vec<_> = self
                .tiles
                .keys()
                .filter(|(array, _)| *array == address)
                .cloned()
                .collect();
            for part in parts {
                self.untile(part);
            }
        }
    }

    /// Takes the memory of a part of a sparse array away.
    pub(crate) fn untile(&mut self, part: (u64, Vec<u8>)) {
        if let Some(handle) = self.tiles.remove(&part) {
            if let Some(physical) = self.physical.get_mut(&handle) {
                physical.mappings -= 1;
            }
            self.settle(handle);
        }
    }

    /// Addresses for something that costs nothing.
    pub(crate) fn addresses(&mut self, bytes: u64) -> Result<u64, c_int> {
        let bytes = bytes.checked_next_multiple_of(BLOCK).ok_or(OUT_OF_MEMORY)?;
        Ok(self.address(bytes.max(BLOCK), false))
    }

    /// What a graph's steps need at a time, bytes by device.
    fn needs(steps: &[Step]) -> BTreeMap<usize, u64> {
        let (mut now, mut most) = (BTreeMap::new(), BTreeMap::new());
        let mut sizes = HashMap::new();
        for step in steps {
            match *step {
                Step::Alloc {
                    address,
                    size,
                    device,
                } => {
                    let size = size.next_multiple_of(BLOCK);
                    sizes.insert(address, (device, size));
                    let held: &mut u64 = now.entry(device).or_default();
                    *held += size;
                    let high: &mut u64 = most.entry(device).or_default();
                    *high = (*high).max(*held);
                }
                Step::Free { address } => {
                    if let Some((device, size)) = sizes.remove(&address) {
                        *now.entry(device).or_default() -= size;
                    }
                }
            }
        }
        most
    }

    /// Takes the memory of an executable graph.
    pub(crate) fn back(&mut self, exec: u64) -> Answer {
        let Some(graph) = self.execs.get(&exec).filter(|exec| !exec.is_backed) else {
            return Ok(());
        };
        let needs = Self::needs(&graph.steps);
        // All of it or nothing.
        for (device, bytes) in &needs {
            let device = &self.devices[*device];
            if device.used + bytes > device.total {
                return Err(OUT_OF_MEMORY);
            }
        }
        for (device, bytes) in needs {
            self.take(device, bytes)?;
            self.devices[device].graphs_reserved += bytes;
        }
        if let Some(graph) = self.execs.get_mut(&exec) {
            graph.is_backed = true;
        }
        Ok(())
    }

    /// Whether anything that a graph allocated is alive.
    fn has_blocks(&self, exec: u64) -> bool {
        self.objects
            .values()
            .any(|object| object.kind == Kind::GraphBlock && object.owner == exec)
    }

    /// Gives what graphs hold and do not use back: all but the memory of what is alive.
    pub(crate) fn trim_graphs(&mut self, device: usize) {
        let live: u64 = self
            .objects
            .values()
            .filter(|object| object.kind == Kind::GraphBlock && object.device == device)
            .map(|object| object.size.next_multiple_of(BLOCK))
            .sum();
        let execs: Vec<u64> = self.execs.keys().copied().collect();
        for exec in execs {
            let idle = !self.has_blocks(exec);
            if let Some(graph) = self.execs.get_mut(&exec)
                && idle
            {
                graph.is_backed = false;
            }
        }
        let held = &mut self.devices[device].graphs_reserved;
        let more = held.saturating_sub(live);
        *held -= more;
        self.give(device, more);
    }

    /// Managed memory: addresses alone, until it is touched.
    pub(crate) fn managed(&mut self, context: u64, size: u64) -> Result<u64, c_int> {
        let context = self.resolve(context);
        let device = self.context(context)?.device;
        let bytes = size.checked_next_multiple_of(BLOCK).ok_or(OUT_OF_MEMORY)?;
        let address = self.address(bytes, false);
        self.add(address, Kind::Managed, size, device, context);
        Ok(address)
    }

    /// Memory from a pool, which grows if it must.
    pub(crate) fn take_from_pool(
        &mut self,
        pool: u64,
        context: u64,
        size: u64,
    ) -> Result<u64, c_int> {
        if size == 0 {
            return Err(INVALID_VALUE);
        }
        let held = self
            .pools
            .get(&pool)
            .filter(|pool| !pool.is_destroyed && !pool.is_imported)
            .ok_or(INVALID_VALUE)?;
        let context = self.resolve(context);
        let (device, needed) = (
            held.device,
            size.checked_next_multiple_of(GRAIN)
                .and_then(|size| held.used.checked_add(size))
                .ok_or(OUT_OF_MEMORY)?,
        );
        if needed > held.reserved {
            let grown = needed
                .checked_next_multiple_of(POOL_STEP)
                .ok_or(OUT_OF_MEMORY)?;
            let more = grown - held.reserved;
            self.take(device, more)?;
        }
        if let Some(held) = self.pools.get_mut(&pool) {
            held.used = needed;
            held.reserved = held.reserved.max(needed.next_multiple_of(POOL_STEP));
            held.used_high = held.used_high.max(held.used);
            held.reserved_high = held.reserved_high.max(held.reserved);
        }
        let address = self.address(size.next_multiple_of(BLOCK), false);
        self.add(address, Kind::Pool, size, device, context);
        if let Some(object) = self.objects.get_mut(&address) {
            object.owner = pool;
        }
        Ok(address)
    }

    /// Gives what a pool holds and does not use back, down to `keep`.
    pub(crate) fn trim(&mut self, pool: u64, keep: u64) {
        let Some(held) = self.pools.get_mut(&pool) else {
            return;
        };
        let left = held
            .used
            .next_multiple_of(POOL_STEP)
            .max(keep.min(held.reserved));
        let (device, more) = (held.device, held.reserved - left.min(held.reserved));
        held.reserved -= more;
        self.give(device, more);
    }

    /// What a synchronisation does to the pools of a device.
    pub(crate) fn synchronised(&mut self, device: usize) {
        let due: Vec<(u64, u64)> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.device == device && pool.reserved > pool.threshold)
            .map(|(handle, pool)| (*handle, pool.threshold))
            .collect();
        for (pool, threshold) in due {
            self.trim(pool, threshold);
        }
    }

    /// Physical memory goes when no reference, mapping, binding or open descriptor holds it.
    pub(crate) fn settle(&mut self, handle: u64) {
        let Some(physical) = self.physical.get_mut(&handle) else {
            return;
        };
        physical.exports.retain(is_open);
        if physical.references > 0
            || physical.mappings > 0
            || physical.bindings > 0
            || physical.aliases > 0
            || !physical.exports.is_empty()
        {
            return;
        }
        if let Some(physical) = self.physical.remove(&handle) {
            let bound: Vec<u64> = self
                .bindings
                .iter()
                .filter(|binding| binding.to == handle)
                .map(|binding| binding.handle)
                .collect();
            self.bindings.retain(|binding| binding.to != handle);
            for handle in bound {
                self.unbound(handle);
            }
            if let Some(original) = self.physical.get_mut(&physical.alias_of) {
                original.aliases -= 1;
                self.settle(physical.alias_of);
            }
            if let Some(device) = physical.device
                && !physical.is_imported
                && !physical.is_multicast
            {
                self.give(device, physical.size);
            }
        }
    }

    /// One binding less.
    pub(crate) fn unbound(&mut self, handle: u64) {
        if let Some(physical) = self.physical.get_mut(&handle) {
            physical.bindings -= 1;
        }
        self.settle(handle);
    }

    /// Looks whether descriptors were closed meanwhile.
    pub(crate) fn settle_all(&mut self) {
        let handles: Vec<u64> = self.physical.keys().copied().collect();
        for handle in handles {
            self.settle(handle);
        }
    }
}

/// Whether any copy of the other end is open.
fn is_open(end: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: end.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one entry, which is a local.
    unsafe { libc::poll(&raw mut poll, 1, 0) };
    poll.revents & libc::POLLHUP == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read off the card: so many allocations of this size take so much.
    #[test]
    fn allocations_cost_what_they_cost_on_the_card() {
        for (count, size, cost) in [
            (64, 1, 2),
            (64, 512, 2),
            (64, 64 << 10, 4),
            (64, MIB, 64),
            (1, MIB + 1, 2),
            (1, 2 * MIB + 1, 4),
            (1, 3 * MIB, 4),
            (1, 10 * MIB, 10),
            (1, 20_975_616, 22),
        ] {
            let mut ledger = Ledger::with(&[0], 1 << 40);
            let context = ledger.new_context(0, true).expect("room");
            let before = ledger.devices[0].used;
            let addresses: Vec<u64> = (0..count)
                .map(|_| ledger.linear(context, size, false).expect("room"))
                .collect();
            assert_eq!(
                ledger.devices[0].used - before,
                cost * MIB,
                "{count} × {size}"
            );
            for address in addresses {
                ledger.free(address);
            }
            assert_eq!(ledger.devices[0].used, before, "{count} × {size}");
        }
    }

    #[test]
    fn a_context_costs_what_it_costs_and_takes_its_memory_with_it() {
        let mut ledger = Ledger::with(&[0], 1 << 40);
        let idle = ledger.devices[0].used;
        let context = ledger.new_context(0, false).expect("room");
        let mib = (ledger.devices[0].used - idle) as f64 / MIB as f64;
        assert!((mib - 523.6).abs() < 0.1, "{mib}");
        ledger.linear(context, 100 * MIB, false).expect("room");
        ledger.linear(context, 100, false).expect("room");
        ledger.end_context(context);
        assert_eq!(ledger.devices[0].used, idle);
        assert_eq!(
            ledger.new_context(0, false),
            Ok(context),
            "handles are handed out again"
        );
    }

    #[test]
    fn pools_grow_by_32_mib_and_survive_their_context() {
        let mut ledger = Ledger::with(&[0], 1 << 40);
        let context = ledger.new_context(0, true).expect("room");
        let pool = ledger.devices[0].default_pool;
        let before = ledger.devices[0].used;
        let small = ledger.take_from_pool(pool, context, MIB).expect("room");
        assert_eq!(ledger.devices[0].used - before, 32 * MIB);
        ledger
            .take_from_pool(pool, context, 100 * MIB)
            .expect("room");
        assert_eq!(ledger.devices[0].used - before, 128 * MIB);
        ledger.end_context(context);
        assert!(ledger.objects.contains_key(&small));
    }

    #[test]
    fn memory_runs_out() {
        let mut ledger = Ledger::with(&[0], 1 << 30);
        let context = ledger.new_context(0, true).expect("room");
        assert_eq!(ledger.linear(context, 600 * MIB, false), Err(OUT_OF_MEMORY));
        assert_eq!(ledger.linear(context, u64::MAX, false), Err(OUT_OF_MEMORY));
        assert_eq!(ledger.linear(context, 0, false), Err(INVALID_VALUE));
        assert_eq!(ledger.linear(context + 1, 1, false), Err(INVALID_CONTEXT));
    }
}
