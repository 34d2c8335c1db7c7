//! What is charged to which device, and what the driver takes for it.

use std::collections::HashMap;

use gpushim_abi::hooks::Class;

use super::sites::{Level, SiteKey};
use super::{Ledger, Object, is_memory};
use crate::timeline::Timeline;

/// The driver takes device memory in blocks of this many bytes.
const BLOCK: u64 = 2 << 20;

/// Allocations up to this size share blocks (measured on driver 580).
const PACKED_MAX: u64 = 1 << 20;

/// What small allocations are rounded up to, bytes: linear memory, and arrays.
const LINEAR_GRAIN: u64 = 512;
const ARRAY_GRAIN: u64 = 64 << 10;

/// A device's books. Bytes are as requested, but for pools and graphs, which say what they hold.
#[derive(Debug, Default)]
pub struct DeviceBooks {
    /// Held now: linear and physical memory, arrays, and what pools and graphs hold.
    pub live: u64,
    /// The greatest that was held at a time.
    pub peak: u64,
    /// When, CLOCK_MONOTONIC ns.
    pub peak_ns: u64,
    /// Everything that was ever allocated, bytes.
    pub allocated: u64,
    /// How many allocations.
    pub allocations: u64,
    /// How many were given back, by themselves or with their context.
    pub frees: u64,
    /// What graphs hold, as the device said last.
    pub graphs_reserved: u64,
    /// The greatest of these.
    pub graphs_peak: u64,
    /// When it said so, CLOCK_MONOTONIC ns.
    pub graphs_said_ns: Option<u64>,
    /// What the device said about its free and its whole memory last: when, and how much.
    pub said: Option<(u64, u64, u64)>,
    /// The course of `live`.
    pub timeline: Timeline,
}

/// Whether a device is charged for the object itself.
fn is_charged(object: &Object) -> bool {
    !object.is_imported
        && matches!(
            object.class,
            Class::Linear | Class::Physical | Class::Array | Class::MipmappedArray
        )
}

/// Whether it is an allocation, whoever is charged for it.
fn is_allocation(object: &Object) -> bool {
    is_charged(object)
        || (!object.is_imported && matches!(object.class, Class::PoolBlock | Class::GraphBlock))
}

/// Bytes that a device is charged for an object.
fn charged(object: &Object) -> u64 {
    if is_charged(object) && (object.array_bytes > 0 || !is_array(object.class)) {
        object.size
    } else {
        0
    }
}

fn is_array(class: Class) -> bool {
    matches!(class, Class::Array | Class::MipmappedArray)
}

impl Object {
    /// Where its memory was taken; `None` for what is no memory, or another process's.
    pub fn site(&self) -> Option<SiteKey> {
        (is_memory(self.class) && !self.is_imported).then_some(SiteKey {
            level: Level::Driver,
            class: Some(self.class),
            device: self.device,
            stack: self.stack,
            call: self.call,
        })
    }
}

impl Ledger {
    /// Something that a device may be charged for came into being.
    pub(super) fn charge(&mut self, at_ns: u64, object: &Object) {
        if let Some(site) = object.site() {
            self.sites.took(site, object.size, at_ns);
        }
        let Some(device) = object.device else {
            return;
        };
        // A device is listed as soon as anything is on it.
        let books = self.devices.entry(device).or_default();
        if is_allocation(object) {
            // Sizes come from a file: no sum of them may overflow.
            books.allocated = books.allocated.saturating_add(object.size);
            books.allocations += 1;
        }
        self.adjust(at_ns, device, 0, charged(object));
    }

    /// It is gone.
    pub(super) fn uncharge(&mut self, at_ns: u64, object: &Object) {
        if let Some(site) = object.site() {
            self.sites.gave(site, object.size, at_ns);
        }
        if let Some(life) = object.life {
            let belongings = &mut self.belongings[life as usize];
            belongings.alive = belongings.alive.saturating_sub(1);
        }
        let Some(device) = object.device else {
            return;
        };
        if is_allocation(object) {
            self.devices.entry(device).or_default().frees += 1;
        }
        self.adjust(at_ns, device, charged(object), 0);
    }

    /// Something on a device takes other bytes than before.
    pub(super) fn adjust(&mut self, at_ns: u64, device: u8, before: u64, after: u64) {
        if before == after {
            return;
        }
        let books = self.devices.entry(device).or_default();
        books.live = books.live.saturating_sub(before).saturating_add(after);
        if books.live > books.peak {
            (books.peak, books.peak_ns) = (books.live, at_ns);
        }
        books.timeline.put(at_ns, books.live);
    }
}

/// What the driver takes for these objects, by the rules measured on driver 580: allocations and arrays up to 1 MiB are packed into
/// shared 2 MiB blocks of their context, above it each is rounded up to 2 MiB. An estimate: holes that frees leave in a shared block
/// are not seen.
pub fn footprint<'o>(objects: impl IntoIterator<Item = &'o Object>) -> u64 {
    let blocks = |bytes: u64| bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    let mut packed: HashMap<(Option<u32>, bool), u64> = HashMap::new();
    let mut total = 0_u64;
    for object in objects.into_iter().filter(|object| is_charged(object)) {
        let array = is_array(object.class);
        let (bytes, grain) = if array {
            (object.array_bytes, ARRAY_GRAIN)
        } else {
            (object.size, LINEAR_GRAIN)
        };
        if bytes <= PACKED_MAX && object.class != Class::Physical {
            let sum = packed.entry((object.life, array)).or_default();
            *sum = sum.saturating_add(bytes.next_multiple_of(grain));
        } else {
            total = total.saturating_add(blocks(bytes));
        }
    }
    packed
        .values()
        .fold(total, |sum, bytes| sum.saturating_add(blocks(*bytes)))
}
