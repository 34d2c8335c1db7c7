//! Physical memory behind handles: references, mappings, bindings, and descriptors that were handed out.

use std::collections::{BTreeMap, HashMap};

use gpushim_abi::effect::{Place, Record};
use gpushim_abi::hooks::Class;

use super::{Ledger, Object, Subject};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: u64 = 1;

/// Physical memory, with what keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Physical {
    /// What was created; [`Class::Multicast`] for a multicast object.
    pub object: Object,
    /// References through handles, also those that name the same memory after an import from this very process.
    pub references: u32,
    /// Mapped ranges, parts of sparse arrays among them.
    pub mappings: u32,
    /// Bindings to multicast objects and endpoints.
    pub bindings: u32,
    /// Descriptors that were handed out. While one of them is open somewhere the memory stays, and nobody sees them closed.
    pub descriptors: Vec<u64>,
    /// When the last reference was given back, CLOCK_MONOTONIC ns.
    pub released_ns: Option<u64>,
}

/// Handles, mappings and the memory behind them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) all: HashMap<u64, Physical>,
    /// Keys of `all` with the references of each handle; a released handle's number may mean another object while a
    /// mapping holds the first.
    handles: HashMap<u64, (u64, u32)>,
    /// Mapped ranges by first address: length and key.
    pub(super) mappings: BTreeMap<u64, (u64, u64)>,
    /// Parts of sparse arrays: array and part, to key.
    tiles: BTreeMap<(u64, u64), u64>,
    /// What is bound to an object, by its handle and the offset: to key.
    bindings: BTreeMap<(u64, u64), u64>,
    /// Keys by the number of the descriptor that was handed out for them last.
    by_descriptor: HashMap<u64, u64>,
    /// Memory that only descriptors can hold any more.
    pub(super) adrift: Vec<Physical>,
    next: u64,
}

impl Memory {
    fn key(&self, handle: u64) -> Option<u64> {
        self.handles.get(&handle).map(|(key, _)| *key)
    }

    /// Likewise, what is known of it.
    pub(super) fn at(&self, address: u64) -> Option<&Physical> {
        self.all.get(&self.key_at(address)?)
    }

    /// The memory that is mapped at an address.
    fn key_at(&self, address: u64) -> Option<u64> {
        let (start, (len, key)) = self.mappings.range(..=address).next_back()?;
        (address - start < *len).then_some(*key)
    }
}

impl Ledger {
    /// Physical memory was created, or imported.
    pub(super) fn physical_born(&mut self, record: &Record, class: Class, imported: bool) {
        let device = match Place::of(record.b) {
            Place::Device(device) => Some(device),
            Place::Host => None,
            Place::Unknown => record.device(),
        };
        let object = Object {
            device: device.filter(|_| class == Class::Physical),
            // An import says no size; a mapping will.
            size: if imported { 0 } else { record.size },
            is_imported: imported,
            name: if imported { record.a } else { 0 },
            ..self.object(record, class)
        };
        // Its own memory, come back by another handle.
        let own = if imported {
            self.memory
                .by_descriptor
                .get(&record.a)
                .copied()
                .filter(|key| self.memory.all.contains_key(key))
        } else {
            None
        };
        let key = match own {
            Some(key) => key,
            None => {
                let key = self.memory.next;
                self.memory.next += 1;
                self.memory.all.insert(
                    key,
                    Physical {
                        object,
                        references: 0,
                        mappings: 0,
                        bindings: 0,
                        descriptors: Vec::new(),
                        released_ns: None,
                    },
                );
                self.totals.entry(class).or_default().created += 1;
                self.charge(record.at_ns, &object);
                key
            }
        };
        if let Some((old, references)) = self.memory.handles.insert(record.address, (key, 1)) {
            // The number was given out again while it was thought to be held.
            self.surprises.reused += 1;
            self.drop_references(record.at_ns, old, references);
        }
        if let Some(physical) = self.memory.all.get_mut(&key) {
            physical.references = physical.references.saturating_add(1);
            physical.released_ns = None;
        }
    }

    /// One more reference, through a mapped address.
    pub(super) fn physical_retained(&mut self, record: &Record) -> Subject {
        let key = self
            .memory
            .key(record.address)
            .or_else(|| self.memory.key_at(record.a));
        let Some(key) = key else {
            return Subject::default();
        };
        let held = self
            .memory
            .handles
            .entry(record.address)
            .or_insert((key, 0));
        held.1 = held.1.saturating_add(1);
        let Some(physical) = self.memory.all.get_mut(&key) else {
            return Subject::default();
        };
        physical.references = physical.references.saturating_add(1);
        physical.released_ns = None;
        Subject::on(physical.object.device)
    }

    /// One reference less to a handle.
    pub(super) fn physical_released(&mut self, record: &Record) -> Subject {
        let Some((key, references)) = self.memory.handles.get_mut(&record.address) else {
            self.surprises.unknown_frees += 1;
            return Subject::default();
        };
        let key = *key;
        *references = references.saturating_sub(1);
        if *references == 0 {
            self.memory.handles.remove(&record.address);
        }
        self.drop_references(record.at_ns, key, 1)
    }

    fn drop_references(&mut self, at_ns: u64, key: u64, references: u32) -> Subject {
        if let Some(physical) = self.memory.all.get_mut(&key) {
            physical.references = physical.references.saturating_sub(references);
            if physical.references == 0 {
                physical.released_ns = Some(at_ns);
            }
        }
        self.settle_physical(at_ns, key)
    }

    /// A handle was mapped.
    pub(super) fn mapped(&mut self, record: &Record, handle: u64) -> Subject {
        let Some(key) = self.memory.key(handle) else {
            return Subject::default();
        };
        let Some(physical) = self.memory.all.get_mut(&key) else {
            return Subject::default();
        };
        physical.mappings = physical.mappings.saturating_add(1);
        if physical.object.is_imported {
            physical.object.size = physical.object.size.max(record.size);
        }
        let device = physical.object.device;
        self.blocks.range_born(record.address, record.size);
        let old = self
            .memory
            .mappings
            .insert(record.address, (record.size, key));
        if let Some((_, key)) = old {
            self.unmap_one(record.at_ns, key);
        }
        Subject::on(device)
    }

    /// Mappings went away.
    pub(super) fn unmapped(&mut self, record: &Record) -> Subject {
        let mut subject = Subject::default();
        let end = record.address.saturating_add(record.size);
        let gone: Vec<u64> = self
            .memory
            .mappings
            .range(record.address..end)
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            self.blocks.range_ended(address);
            if let Some((_, key)) = self.memory.mappings.remove(&address) {
                subject.add(self.unmap_one(record.at_ns, key));
            }
        }
        subject
    }

    fn unmap_one(&mut self, at_ns: u64, key: u64) -> Subject {
        if let Some(physical) = self.memory.all.get_mut(&key) {
            physical.mappings = physical.mappings.saturating_sub(1);
        }
        self.settle_physical(at_ns, key)
    }

    /// A part of a sparse array got memory, or lost it.
    pub(super) fn tile(&mut self, record: &Record, handle: u64, part: u64) -> Subject {
        let mut subject = Subject::default();
        if let Some(key) = self.memory.tiles.remove(&(record.address, part)) {
            subject = self.unmap_one(record.at_ns, key);
        }
        if let Some(key) = self.memory.key(handle).filter(|_| handle != 0)
            && let Some(physical) = self.memory.all.get_mut(&key)
        {
            physical.mappings = physical.mappings.saturating_add(1);
            self.memory.tiles.insert((record.address, part), key);
        }
        subject
    }

    /// An array is gone, with the memory of its parts; bytes that went with it.
    pub(super) fn untiled(&mut self, at_ns: u64, array: u64) -> u64 {
        let parts: Vec<(u64, u64)> = self
            .memory
            .tiles
            .range((array, 0)..=(array, u64::MAX))
            .map(|(part, _)| *part)
            .collect();
        let mut freed = 0_u64;
        for part in parts {
            if let Some(key) = self.memory.tiles.remove(&part) {
                freed = freed.saturating_add(self.unmap_one(at_ns, key).freed);
            }
        }
        freed
    }

    /// Memory was bound to a multicast object or an endpoint, by its handle or by where it is mapped.
    pub(super) fn bound(&mut self, record: &Record, handle: Option<u64>, at: u64) {
        let key = match handle {
            Some(handle) => self.memory.key(handle),
            None => self.memory.key_at(at),
        };
        let Some(key) = key else {
            return;
        };
        if let Some(physical) = self.memory.all.get_mut(&key) {
            physical.bindings = physical.bindings.saturating_add(1);
        }
        let place = (record.address, record.b);
        if let Some(old) = self.memory.bindings.insert(place, key) {
            self.unbind_one(record.at_ns, old);
        }
    }

    /// Bindings to an object that begin in a range are gone.
    pub(super) fn unbound(&mut self, at_ns: u64, to: u64, offset: u64, size: u64) -> Subject {
        let mut subject = Subject::default();
        let end = offset.saturating_add(size);
        let gone: Vec<(u64, u64)> = self
            .memory
            .bindings
            .range((to, offset)..(to, end))
            .map(|(place, _)| *place)
            .collect();
        for place in gone {
            if let Some(key) = self.memory.bindings.remove(&place) {
                subject.add(self.unbind_one(at_ns, key));
            }
        }
        subject
    }

    fn unbind_one(&mut self, at_ns: u64, key: u64) -> Subject {
        if let Some(physical) = self.memory.all.get_mut(&key) {
            physical.bindings = physical.bindings.saturating_sub(1);
        }
        self.settle_physical(at_ns, key)
    }

    /// A handle was made a descriptor, or a name for a fabric.
    pub(super) fn physical_exported(&mut self, record: &Record) -> Subject {
        let Some(key) = self.memory.key(record.address) else {
            return Subject::default();
        };
        let Some(physical) = self.memory.all.get_mut(&key) else {
            return Subject::default();
        };
        physical.object.is_exported = true;
        if record.b == DESCRIPTOR {
            physical.descriptors.push(record.a);
            self.memory.by_descriptor.insert(record.a, key);
        }
        let object = physical.object;
        self.export(record, &object);
        Subject::on(object.device)
    }

    /// Physical memory goes when neither a reference nor a mapping nor a binding holds it. A descriptor may still.
    fn settle_physical(&mut self, at_ns: u64, key: u64) -> Subject {
        let Some(physical) = self.memory.all.get(&key) else {
            return Subject::default();
        };
        let object = physical.object;
        if physical.references > 0 || physical.mappings > 0 || physical.bindings > 0 {
            return Subject::on(object.device);
        }
        if let Some(physical) = self.memory.all.remove(&key)
            && !physical.descriptors.is_empty()
            && !object.is_imported
        {
            self.memory.adrift.push(physical);
        }
        let mut subject = Subject {
            device: object.device,
            freed: self.let_go(at_ns, &object),
        };
        if object.class == Class::Multicast {
            subject.add(self.unbound(at_ns, object.address, 0, u64::MAX));
        }
        subject
    }

    /// Memory behind handles, in the order of birth.
    pub fn physical(&self) -> Vec<&Physical> {
        let mut all: Vec<&Physical> = self.memory.all.values().collect();
        all.sort_unstable_by_key(|physical| physical.object.sequence);
        all
    }

    /// Memory that nothing holds here but descriptors, which nobody sees closed: it may be gone.
    pub fn adrift(&self) -> &[Physical] {
        &self.memory.adrift
    }

    /// Mapped ranges by the birth of the memory behind them: first addresses, in order.
    pub fn mappings(&self) -> HashMap<u64, Vec<u64>> {
        let mut by_birth: HashMap<u64, Vec<u64>> = HashMap::new();
        for (address, (_, key)) in &self.memory.mappings {
            if let Some(physical) = self.memory.all.get(key) {
                let places = by_birth.entry(physical.object.sequence).or_default();
                places.push(*address);
            }
        }
        by_birth
    }

    /// Bytes of mapped ranges, by device of the memory behind them.
    pub fn mapped_bytes(&self, device: u8) -> u64 {
        self.memory
            .mappings
            .values()
            .filter(|(_, key)| {
                self.memory
                    .all
                    .get(key)
                    .is_some_and(|p| p.object.device == Some(device))
            })
            .fold(0, |sum: u64, (len, _)| sum.saturating_add(*len))
    }
}
