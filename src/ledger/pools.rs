//! Stream-ordered pools: what they hold of their device, and what of that is handed out.

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::Class;

use super::{Ledger, Object, Subject};

/// Blocks are handed out in multiples of this, bytes (driver 580).
const GRAIN: u64 = 512;
/// Pools hold multiples of this, bytes (driver 580).
const STEP: u64 = 32 << 20;

/// `CUmemPool_attribute`.
mod attribute {
    pub(super) const RELEASE_THRESHOLD: u32 = 4;
    pub(super) const RESERVED: u32 = 5;
    pub(super) const RESERVED_HIGH: u32 = 6;
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Handle; 0 for a device's own, where no call has named it.
    pub handle: u64,
    /// Device.
    pub device: Option<u8>,
    /// Whether the device has it from the start.
    pub is_default: bool,
    /// Whether it is another process's.
    pub is_imported: bool,
    /// When it was created, CLOCK_MONOTONIC ns, by which stack and call; `None` for one that was there.
    pub created: Option<(u64, u32, u16)>,
    /// When it was destroyed, CLOCK_MONOTONIC ns.
    pub destroyed_ns: Option<u64>,
    /// Blocks that are out.
    pub blocks: u64,
    /// Their bytes, as requested.
    pub requested: u64,
    /// The same, as handed out.
    pub used: u64,
    /// What it holds of its device: as it said last, and what must have come since. Bytes.
    pub reserved: u64,
    /// Greatest of these.
    pub reserved_peak: u64,
    /// When it said so, CLOCK_MONOTONIC ns.
    pub said_ns: Option<u64>,
    /// Above which a wait gives idle memory back, bytes, where the program has set it.
    pub threshold: Option<u64>,
}

/// What a block takes from its pool.
fn handed_out(size: u64) -> u64 {
    size.checked_next_multiple_of(GRAIN).unwrap_or(size)
}

impl Ledger {
    /// The pool with a handle, known or not. Handle 0 is the pool of a device that nobody named.
    fn pool(&mut self, handle: u64, device: Option<u8>) -> usize {
        let key = (handle, if handle == 0 { device } else { None });
        if let Some(&index) = self.pool_index.get(&key) {
            let pool = &mut self.pools[index];
            pool.device = pool.device.or(device);
            return index;
        }
        self.pools.push(Pool {
            handle,
            device,
            ..Pool::default()
        });
        let index = self.pools.len() - 1;
        self.pool_index.insert(key, index);
        index
    }

    /// A pool was created, or imported.
    pub(super) fn pool_born(&mut self, record: &Record, imported: bool) -> Subject {
        let device = record.device();
        if let Some(index) = self.pool_index.remove(&(record.address, None)) {
            // Another pool at a handle that was thought to live.
            if self.pools[index].created.is_some() {
                self.surprises.reused += 1;
            }
            self.end_pool(record, index);
        }
        self.totals.entry(Class::Pool).or_default().created += 1;
        let index = self.pool(record.address, device);
        let pool = &mut self.pools[index];
        pool.is_imported = imported;
        pool.created = Some((record.at_ns, record.stack, record.call));
        if let Some(device) = device {
            self.devices.entry(device).or_default();
        }
        Subject::on(device)
    }

    /// A pool was destroyed: what is out stays until it is freed.
    pub(super) fn pool_destroyed(&mut self, record: &Record) -> Subject {
        let Some(index) = self.pool_index.remove(&(record.address, None)) else {
            self.surprises.unknown_frees += 1;
            return Subject::default();
        };
        self.totals.entry(Class::Pool).or_default().ended += 1;
        let (device, before) = (self.pools[index].device, self.pools[index].reserved);
        self.end_pool(record, index);
        Subject {
            device,
            freed: before.saturating_sub(self.pools[index].reserved),
        }
    }

    fn end_pool(&mut self, record: &Record, index: usize) {
        let pool = &mut self.pools[index];
        pool.destroyed_ns = Some(record.at_ns);
        let left = pool.used.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
        let left = left.min(pool.reserved);
        self.pool_holds(record.at_ns, index, left);
    }

    /// Which pool a device has, or has from now on.
    pub(super) fn pool_named(&mut self, record: &Record, device: Option<u8>, is_default: bool) {
        let index = self.pool(record.address, device);
        self.pools[index].is_default |= is_default;
    }

    /// A pool's policy was set.
    pub(super) fn pool_set(&mut self, record: &Record, which: u32, value: u64) -> Subject {
        let index = self.pool(record.address, None);
        if which == attribute::RELEASE_THRESHOLD {
            self.pools[index].threshold = Some(value);
        }
        Subject::on(self.pools[index].device)
    }

    /// A pool said something about itself.
    pub(super) fn pool_said(&mut self, record: &Record, which: u32, value: u64) -> Subject {
        let index = self.pool(record.address, record.device());
        match which {
            attribute::RESERVED => {
                self.pools[index].said_ns = Some(record.at_ns);
                self.pool_holds(record.at_ns, index, value);
            }
            attribute::RESERVED_HIGH => {
                let peak = &mut self.pools[index].reserved_peak;
                *peak = (*peak).max(value);
            }
            _ => {}
        }
        Subject::on(self.pools[index].device)
    }

    /// A pool holds so much of its device from now on, at least what is handed out.
    fn pool_holds(&mut self, at_ns: u64, index: usize, bytes: u64) {
        let pool = &mut self.pools[index];
        let bytes = if pool.is_imported {
            0
        } else {
            bytes.max(pool.used)
        };
        let before = std::mem::replace(&mut pool.reserved, bytes);
        pool.reserved_peak = pool.reserved_peak.max(bytes);
        if let Some(device) = pool.device {
            self.adjust(at_ns, device, before, bytes);
        }
    }

    /// A pool handed a block out.
    pub(super) fn block_born(&mut self, record: &Record, imported: bool) -> Object {
        let device = record.device();
        let index = self.pool(record.b, device);
        let object = Object {
            device: self.pools[index].device.or(device),
            owner: index as u64,
            is_imported: imported,
            name: if imported { record.a } else { 0 },
            ..self.object(record, Class::PoolBlock)
        };
        if !imported {
            let pool = &mut self.pools[index];
            pool.blocks += 1;
            pool.requested = pool.requested.saturating_add(object.size);
            pool.used = pool.used.saturating_add(handed_out(object.size));
            let reserved = pool.reserved;
            self.pool_holds(record.at_ns, index, reserved);
        }
        object
    }

    /// A block went back to its pool.
    pub(super) fn block_ended(&mut self, at_ns: u64, block: &Object) {
        if block.is_imported {
            return;
        }
        let index = block.owner as usize;
        let Some(pool) = self.pools.get_mut(index) else {
            return;
        };
        pool.blocks = pool.blocks.saturating_sub(1);
        pool.requested = pool.requested.saturating_sub(block.size);
        pool.used = pool.used.saturating_sub(handed_out(block.size));
        if pool.destroyed_ns.is_some() && pool.blocks == 0 {
            self.pool_holds(at_ns, index, 0);
        }
    }

    /// Pools, in the order in which they were seen.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }
}
