//! What is charged to which device, and what the driver takes for it.

use std::collections::HashMap;

use gpushim_abi::hooks::Space;
use gpushim_abi::layout::slot::DEVICE_UNKNOWN;

use super::{Ledger, Object};
use crate::timeline::Timeline;

/// The driver takes device memory in blocks of this many bytes.
const BLOCK: u64 = 2 << 20;

/// Allocations up to this size share blocks (measured on driver 580).
const PACKED_MAX: u64 = 1 << 20;

/// `CUmemLocationType` of a device.
const LOCATION_DEVICE: u32 = 1;

/// `CUmemLocationType` of a part of a device's memory; the device is the first byte of the union behind it.
const LOCATION_DEVICE_LOCALITY_DOMAIN: u32 = 6;

/// A device's books: its own memory, as requested.
#[derive(Debug, Default)]
pub struct DeviceBooks {
    /// Alive now: linear and physical memory, bytes.
    pub live: u64,
    /// The greatest that was alive at a time.
    pub peak: u64,
    /// When, CLOCK_MONOTONIC ns.
    pub peak_ns: u64,
    /// Everything that was ever allocated, bytes.
    pub allocated: u64,
    /// How many allocations.
    pub allocations: u64,
    /// How many were given back, by themselves or with their context.
    pub frees: u64,
    /// The course of `live`.
    pub timeline: Timeline,
}

impl Ledger {
    pub(super) fn charge(&mut self, at_ns: u64, object: &Object) {
        if let (Some(device), Space::Device | Space::Physical) = (object.device, object.space) {
            let books = self.devices.entry(device).or_default();
            // Sizes come from a file: no sum of them may overflow.
            books.live = books.live.saturating_add(object.size);
            books.allocated = books.allocated.saturating_add(object.size);
            books.allocations += 1;
            if books.live > books.peak {
                (books.peak, books.peak_ns) = (books.live, at_ns);
            }
            books.timeline.put(at_ns, books.live);
        } else if let Some(device) = object.device {
            // A device is listed as soon as anything is on it.
            self.devices.entry(device).or_default();
        }
    }

    pub(super) fn uncharge(&mut self, at_ns: u64, object: &Object) {
        if let Some(life) = object.life {
            let belongings = &mut self.belongings[life as usize];
            belongings.alive = belongings.alive.saturating_sub(1);
        }
        if let (Some(device), Space::Device | Space::Physical) = (object.device, object.space) {
            let books = self.devices.entry(device).or_default();
            books.live = books.live.saturating_sub(object.size);
            books.frees += 1;
            books.timeline.put(at_ns, books.live);
        }
    }
}

/// The device of a physical allocation, by the location in its properties: type and id, 32 bits each. `Some(None)` is memory of
/// the host, `None` a record without a location.
pub(super) fn location(word: u64) -> Option<Option<u8>> {
    let (kind, id) = (word as u32, (word >> 32) as u32);
    match kind {
        0 => None,
        LOCATION_DEVICE => Some(u8::try_from(id).ok().filter(|d| *d != DEVICE_UNKNOWN)),
        LOCATION_DEVICE_LOCALITY_DOMAIN => Some(Some((id & 0xff) as u8)),
        _ => Some(None),
    }
}

/// What the driver takes for these allocations, by the rule measured on driver 580: up to 1 MiB they are packed into
/// shared 2 MiB blocks of their context, above it each is rounded up to 2 MiB. An estimate: holes that frees leave in a shared block
/// are not seen.
pub fn footprint<'o>(objects: impl IntoIterator<Item = &'o Object>) -> u64 {
    let blocks = |bytes: u64| bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    let mut packed: HashMap<Option<u32>, u64> = HashMap::new();
    let mut total = 0_u64;
    for object in objects {
        match object.space {
            Space::Device if object.size <= PACKED_MAX => {
                let bytes = packed.entry(object.life).or_default();
                *bytes = bytes.saturating_add(object.size.next_multiple_of(512));
            }
            Space::Device | Space::Physical => total = total.saturating_add(blocks(object.size)),
            _ => {}
        }
    }
    packed
        .values()
        .fold(total, |sum, bytes| sum.saturating_add(blocks(*bytes)))
}
