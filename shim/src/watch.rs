//! What pools and graphs hold of their device. No call says it: a pool grows inside an allocation and gives memory back inside a
//! wait. So they are asked, when it can have changed, and what is new is recorded beside the calls.
//!
//! A pool is asked when the allocations since the last answer no longer fit into what was idle then, when that
//! answer is old, when it is trimmed, and after a wait that follows a free; at most every 20 µs, but after a wait. On driver 580 a question
//! costs 30 ns.

use gpushim_abi::layout::slot;

use crate::driver;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Pools that are watched; of more of them, some are not asked after a wait.
const POOLS: usize = 64;
/// Devices whose graphs and current pools are remembered.
const DEVICES: usize = 32;
/// How long an answer is good for, ns.
const GOOD_FOR_NS: u64 = 10_000_000;
/// A pool is asked at most this often, ns, so that questions cost little whatever a program does. A wait asks in any case.
const PAUSE_NS: u64 = 20_000;
/// Blocks are handed out in multiples of this (driver 580).
const GRAIN: u64 = 512;

/// Something that a pool or a device's graphs said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// Pool, 0 for the graphs of a device.
    pub(crate) pool: u64,
    /// Device ordinal, or [`slot::DEVICE_UNKNOWN`].
    pub(crate) device: u8,
    /// Bytes held of the device.
    pub(crate) reserved: u64,
}

/// A pool that is watched. Threads that race here ask once too often, or see a growth one call later.
#[derive(Debug)]
#[repr(C)]
struct Pool {
    handle: AtomicU64,
    /// Bytes that can be handed out before the pool may have grown.
    idle: AtomicU64,
    /// What was recorded last, plus one; 0 nothing.
    reserved: AtomicU64,
    /// When it was asked, CLOCK_MONOTONIC ns.
    asked_ns: AtomicU64,
    device: AtomicU8,
}

/// What is watched in a process; zeros are a valid beginning.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Watch {
    /// 1 once any stream was captured.
    captures: AtomicU32,
    /// Devices on which any graph node allocates, a bit each; the highest stands for those that are not known.
    memory_nodes: AtomicU32,
    /// Devices on which a wait may change what pools hold, a bit each: after a free of something that may be a pool's.
    due: AtomicU32,
    /// Devices from which pools were used.
    pooled: AtomicU32,
    pools: [Pool; POOLS],
    /// The pool in use by device, 0 unknown.
    current: [AtomicU64; DEVICES],
    /// What graphs held when it was recorded last, plus one, by device.
    graphs: [AtomicU64; DEVICES],
}

impl Watch {
    /// Forgets what a parent process knew.
    pub(crate) fn begin(&self) {
        for flag in [&self.captures, &self.memory_nodes, &self.due, &self.pooled] {
            flag.store(0, Ordering::Relaxed);
        }
        for pool in &self.pools {
            pool.handle.store(0, Ordering::Relaxed);
            pool.reserved.store(0, Ordering::Relaxed);
        }
        for place in self.current.iter().chain(&self.graphs) {
            place.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn capture_began(&self) {
        self.captures.store(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_captures(&self) -> bool {
        self.captures.load(Ordering::Relaxed) != 0
    }

    /// Notes that a graph node allocates on a device.
    pub(crate) fn memory_node(&self, device: u8) {
        self.memory_nodes.fetch_or(bit(device), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_memory_nodes(&self) -> bool {
        self.memory_nodes.load(Ordering::Relaxed) != 0
    }

    /// Notes that something was freed that may be a pool's.
    #[inline]
    pub(crate) fn freed(&self) {
        let pooled = self.pooled.load(Ordering::Relaxed);
        if self.due.load(Ordering::Relaxed) != pooled {
            self.due.store(pooled, Ordering::Relaxed);
        }
    }

    /// Whether a wait can have changed what pools hold.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    /// The pool that `cuMemAllocAsync` takes from on a device; 0 where the driver does not say.
    pub(crate) fn current_pool(&self, device: u8) -> u64 {
        let Some(place) = self.current.get(usize::from(device)) else {
            return 0;
        };
        match place.load(Ordering::Relaxed) {
            0 => {
                let pool = driver::current_pool(device).unwrap_or(0);
                place.store(pool, Ordering::Relaxed);
                pool
            }
            pool => pool,
        }
    }

    /// After a call that may have changed which pool is in use.
    pub(crate) fn forget_current(&self) {
        for place in &self.current {
            place.store(0, Ordering::Relaxed);
        }
    }

    /// The place of a pool that is watched.
    fn find(&self, pool: u64) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|entry| entry.handle.load(Ordering::Relaxed) == pool)
    }

    /// The place of a pool, or one for it: a free one, else one that its handle decides.
    fn place(&self, pool: u64) -> Option<&Pool> {
        self.find(pool).or_else(|| self.find(0)).or_else(|| {
            // Handles are addresses: their low bits say little.
            let hash = (pool.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
            self.pools.get(hash % POOLS)
        })
    }

    /// After an allocation from a pool on a thread whose device is `here`; `device` is the pool's, where it is known.
    pub(crate) fn allocated(
        &self,
        pool: u64,
        device: u8,
        here: u8,
        size: u64,
        at_ns: u64,
        tell: impl FnMut(Observation),
    ) {
        let Some(entry) = self.place(pool).filter(|_| pool != 0) else {
            return;
        };
        if entry.handle.load(Ordering::Relaxed) == pool {
            let size = size.checked_next_multiple_of(GRAIN).unwrap_or(size);
            let idle = entry.idle.load(Ordering::Relaxed);
            let age = at_ns.wrapping_sub(entry.asked_ns.load(Ordering::Relaxed));
            if size <= idle && age < GOOD_FOR_NS {
                entry.idle.store(idle - size, Ordering::Relaxed);
                return;
            }
            if age < PAUSE_NS {
                let waits = entry.waits(here);
                self.due.fetch_or(waits, Ordering::Relaxed);
                return;
            }
        } else {
            entry.begin(pool, device);
        }
        let waits = entry.waits(here);
        if self.pooled.load(Ordering::Relaxed) & waits != waits {
            self.pooled.fetch_or(waits, Ordering::Relaxed);
        }
        entry.asked_ns.store(at_ns, Ordering::Relaxed);
        ask(entry, pool, tell);
    }

    /// Asks one pool, if it is watched.
    pub(crate) fn look_at(&self, pool: u64, tell: impl FnMut(Observation)) {
        if let Some(entry) = self.find(pool).filter(|_| pool != 0) {
            ask(entry, pool, tell);
        }
    }

    /// Asks every pool that is watched, after a wait on a thread whose device is `here`, if that can have changed anything.
    pub(crate) fn look_at_all(&self, here: u8, mut tell: impl FnMut(Observation)) {
        if self.due.fetch_and(!bit(here), Ordering::Relaxed) & bit(here) == 0 {
            return;
        }
        for entry in &self.pools {
            match entry.handle.load(Ordering::Relaxed) {
                0 => {}
                pool => ask(entry, pool, &mut tell),
            }
        }
    }

    /// Before a pool ends: its handle may come to mean another one.
    pub(crate) fn forget(&self, pool: u64) {
        if let Some(entry) = self.find(pool) {
            entry.handle.store(0, Ordering::Relaxed);
        }
        // A device whose pool in use is destroyed goes back to its default one.
        self.forget_current();
    }

    /// After the driver has refused to end a pool.
    pub(crate) fn remember(&self, pool: u64) {
        if let Some(entry) = self.place(pool).filter(|_| pool != 0) {
            entry.begin(pool, slot::DEVICE_UNKNOWN);
        }
    }

    /// Asks what the graphs hold on every device on which they allocate.
    pub(crate) fn look_at_graphs(&self, mut tell: impl FnMut(Observation)) {
        let devices = self.memory_nodes.load(Ordering::Relaxed);
        for (device, place) in (0_u8..).zip(&self.graphs) {
            if devices & (1 << device) == 0 {
                continue;
            }
            let Some(reserved) = driver::graph_memory(device) else {
                continue;
            };
            let said = reserved.wrapping_add(1);
            if place.swap(said, Ordering::Relaxed) != said {
                tell(Observation {
                    pool: 0,
                    device,
                    reserved,
                });
            }
        }
    }
}

/// A device's bit; the highest stands for those that are not known.
fn bit(device: u8) -> u32 {
    1 << u32::from(device).min(u32::BITS - 1)
}

impl Pool {
    /// Devices on which a wait can change what the pool holds, a bit each, as far as a thread whose device is `here` can tell: a pool
    /// that the program named may be any device's.
    fn waits(&self, here: u8) -> u32 {
        match self.device.load(Ordering::Relaxed) {
            slot::DEVICE_UNKNOWN => u32::MAX,
            device => bit(device) | bit(here),
        }
    }

    /// Begins to watch a pool, of which nothing was recorded yet.
    fn begin(&self, pool: u64, device: u8) {
        self.handle.store(pool, Ordering::Relaxed);
        self.device.store(device, Ordering::Relaxed);
        self.idle.store(0, Ordering::Relaxed);
        self.reserved.store(0, Ordering::Relaxed);
    }
}

fn ask(entry: &Pool, pool: u64, mut tell: impl FnMut(Observation)) {
    let Some((reserved, used)) = driver::pool(pool) else {
        // Say nothing, and ask again at the next call.
        entry.idle.store(0, Ordering::Relaxed);
        return;
    };
    entry
        .idle
        .store(reserved.saturating_sub(used), Ordering::Relaxed);
    let said = reserved.wrapping_add(1);
    if entry.reserved.swap(said, Ordering::Relaxed) != said {
        let device = entry.device.load(Ordering::Relaxed);

        tell(Observation {
            pool,
            device,
            reserved,
        });
    }
}
