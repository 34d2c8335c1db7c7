//! Records to what is alive. Pure: takes records, keeps tables, answers questions.
//!
//! What a record does is said in `gpushim_abi::effect`; what follows from it is decided here: which object dies with
//! which context, what keeps physical memory alive, what is charged to which device. Spaces are never added up with each other.

mod charge;
mod contexts;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gpushim_abi::effect::{Effect, Record, owned_by_context};
use gpushim_abi::hooks::Space;
use gpushim_abi::layout::slot::{DEVICE_UNKNOWN, NESTED};

use crate::capture::Tables;
use charge::location;
pub use charge::{DeviceBooks, footprint};
use contexts::Belongings;
pub use contexts::{End, Life, Origin};
pub use objects::Object;
use objects::Objects;

/// `CUDA_ERROR_DEINITIALIZED`: the driver's exit handler had run.
const DEINITIALIZED: u16 = 4;

/// Physical memory behind a handle, with what keeps it.
#[derive(Clone, Debug)]
struct Physical {
    object: Object,
    references: u32,
    mappings: u32,
}

/// Calls that the driver refused, by call and result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// Greatest size asked for, bytes.
    pub largest: u64,
    /// CLOCK_MONOTONIC, ns, of the first and the last.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// Stack node of the last.
    pub stack: u32,
}

/// What a record was about, where only the books can tell: a free carries neither device nor size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Device ordinal.
    pub device: Option<u8>,
    /// Bytes that were given back.
    pub freed: u64,
}

impl Subject {
    fn of(object: &Object) -> Self {
        Self {
            device: object.device,
            freed: object.size,
        }
    }

    fn on(device: Option<u8>) -> Self {
        Self { device, freed: 0 }
    }
}

/// Records that do not fit what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surprises {
    /// Something was given back that was born before the record begins, or unseen.
    pub unknown_frees: u64,
    /// An address was handed out again without a free that was seen.
    pub reused: u64,
    /// Calls that only a later version knows.
    pub unknown_calls: u64,
    /// Calls that the driver refused since it had already shut down.
    pub after_shutdown: u64,
    /// Calls made inside other hooked calls, which count once.
    pub nested: u64,
}

/// Everything that is known after some records.
#[derive(Debug, Default)]
pub struct Ledger {
    objects: Objects,
    physical: HashMap<u64, Physical>,
    /// Keys of `physical` by handle; a released handle's number may mean another object while a mapping holds the first.
    handles: HashMap<u64, u64>,
    /// Mapped ranges by first address: length and key of `physical`.
    mappings: BTreeMap<u64, (u64, u64)>,
    next_physical: u64,
    lives: Vec<Life>,
    /// By life.
    belongings: Vec<Belongings>,
    current_life: HashMap<u64, usize>,
    /// Living contexts that are or may be a device's primary one.
    primaries: BTreeSet<(u8, usize)>,
    devices: BTreeMap<u8, DeviceBooks>,
    failures: BTreeMap<(u16, u16), Failures>,
    surprises: Surprises,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Ledger {
    /// Takes the next record; what it was about.
    pub fn take(&mut self, record: &Record, tables: &Tables) -> Subject {
        self.first_ns.get_or_insert(record.at_ns);
        self.last_ns = self.last_ns.max(record.at_ns);
        let said = Subject::on((record.device != DEVICE_UNKNOWN).then_some(record.device));
        if record.flags & NESTED != 0 {
            self.surprises.nested += 1;
            return said;
        }
        if record.failed() {
            self.fail(record);
            return said;
        }
        let known = match record.effect() {
            Effect::Nothing => Subject::default(),
            Effect::Unknown => {
                self.surprises.unknown_calls += 1;
                Subject::default()
            }
            Effect::Born(space) => self.born(record, space, tables),
            Effect::Ended(space) => self.ended(record, space),
            Effect::Mapped { handle, .. } => self.mapped(record, handle),
            Effect::Unmapped => self.unmapped(record),
            Effect::PrimaryRetained { device } => {
                self.began(record, record.address, Some(device), Origin::Primary);
                Subject::default()
            }
            Effect::ContextCreated { device } => {
                self.began(record, record.address, Some(device), Origin::Created);
                Subject::default()
            }
            Effect::ContextAttached => {
                self.with_context(record.address, |ledger, life| {
                    // Counts come from a file: no sum of them may overflow.
                    let references = &mut ledger.lives[life].references;
                    *references = references.saturating_add(1);
                    0
                })
            }
            Effect::ContextDetached => self.with_context(record.address, |ledger, life| {
                ledger.dropped_reference(record, life)
            }),
            Effect::ContextDestroyed => self.with_context(record.address, |ledger, life| {
                ledger.end_life(record.at_ns, life, End::Destroyed)
            }),
            Effect::PrimaryReleased { device } => match self.primary(device) {
                Some(life) => Subject {
                    device: Some(device),
                    freed: self.dropped_reference(record, life),
                },
                None => Subject::default(),
            },
            Effect::PrimaryReset { device } => match self.primary(device) {
                Some(life) => Subject {
                    device: Some(device),
                    freed: self.end_life(record.at_ns, life, End::Reset),
                },
                None => Subject::default(),
            },
        };
        Subject {
            device: said.device.or(known.device),
            ..known
        }
    }

    fn fail(&mut self, record: &Record) {
        if record.result == DEINITIALIZED {
            self.surprises.after_shutdown += 1;
            return;
        }
        let failures = self
            .failures
            .entry((record.call, record.result))
            .or_default();
        if failures.count == 0 {
            failures.first_ns = record.at_ns;
        }
        failures.count += 1;
        failures.largest = failures.largest.max(record.size);
        failures.last_ns = record.at_ns;
        failures.stack = record.stack;
    }

    fn born(&mut self, record: &Record, space: Space, tables: &Tables) -> Subject {
        let context = tables.context(record.context);
        let known = (record.device != DEVICE_UNKNOWN).then_some(record.device);
        let device = match space {
            Space::Host | Space::Registered | Space::Virtual => None,
            Space::Physical => location(record.b).unwrap_or(known),
            // Some device has it, even where nobody could say which.
            Space::Device | Space::Pool | Space::Managed => Some(
                known
                    .or_else(|| context.and_then(|c| c.device))
                    .unwrap_or(DEVICE_UNKNOWN),
            ),
        };
        let life = match context {
            Some(context) if owned_by_context(space) => {
                Some(self.life_of(record, context.handle, context.device) as u32)
            }
            _ => None,
        };
        let object = Object {
            space,
            address: record.address,
            size: record.size,
            device,
            life,
            born_ns: record.at_ns,
            sequence: record.sequence,
            call: record.call,
            stack: record.stack,
            thread: record.thread,
        };
        let replaced = if space == Space::Physical {
            let key = self.next_physical;
            self.next_physical += 1;
            self.physical.insert(
                key,
                Physical {
                    object,
                    references: 1,
                    mappings: 0,
                },
            );
            let before = self.handles.insert(record.address, key);
            before.and_then(|key| self.forget_physical(key))
        } else {
            let (place, replaced) = self.objects.insert(object);
            if let Some(life) = life {
                self.belong(life, place);
            }
            replaced
        };
        if let Some(old) = replaced {
            self.surprises.reused += 1;
            self.uncharge(record.at_ns, &old);
        }
        self.charge(record.at_ns, &object);
        Subject::on(device)
    }

    fn ended(&mut self, record: &Record, space: Space) -> Subject {
        if space == Space::Physical {
            return self.released(record);
        }
        match self.objects.remove(space, record.address) {
            Some(object) => {
                self.uncharge(record.at_ns, &object);
                Subject::of(&object)
            }
            None => {
                self.surprises.unknown_frees += 1;
                Subject::default()
            }
        }
    }

    /// One reference less to a handle.
    fn released(&mut self, record: &Record) -> Subject {
        let Some(&key) = self.handles.get(&record.address) else {
            self.surprises.unknown_frees += 1;
            return Subject::default();
        };
        if let Some(physical) = self.physical.get_mut(&key) {
            physical.references = physical.references.saturating_sub(1);
            if physical.references == 0 {
                self.handles.remove(&record.address);
            }
        }
        self.settle_physical(record.at_ns, key)
    }

    fn mapped(&mut self, record: &Record, handle: u64) -> Subject {
        let Some(&key) = self.handles.get(&handle) else {
            return Subject::default();
        };
        let Some(physical) = self.physical.get_mut(&key) else {
            return Subject::default();
        };
        physical.mappings += 1;
        let device = physical.object.device;
        let old = self.mappings.insert(record.address, (record.size, key));
        if let Some((_, key)) = old {
            self.unmap_one(record.at_ns, key);
        }
        Subject::on(device)
    }

    fn unmapped(&mut self, record: &Record) -> Subject {
        let mut subject = Subject::default();
        let end = record.address.saturating_add(record.size);
        let gone: Vec<u64> = self
            .mappings
            .range(record.address..end)
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            if let Some((_, key)) = self.mappings.remove(&address) {
                let one = self.unmap_one(record.at_ns, key);
                subject.device = subject.device.or(one.device);
                subject.freed = subject.freed.saturating_add(one.freed);
            }
        }
        subject
    }

    fn unmap_one(&mut self, at_ns: u64, key: u64) -> Subject {
        if let Some(physical) = self.physical.get_mut(&key) {
            physical.mappings = physical.mappings.saturating_sub(1);
        }
        self.settle_physical(at_ns, key)
    }

    /// Physical memory goes when neither a reference nor a mapping holds it.
    fn settle_physical(&mut self, at_ns: u64, key: u64) -> Subject {
        let Some(physical) = self.physical.get(&key) else {
            return Subject::default();
        };
        let object = physical.object;
        if physical.references > 0 || physical.mappings > 0 {
            return Subject::on(object.device);
        }
        self.physical.remove(&key);
        self.uncharge(at_ns, &object);
        Subject::of(&object)
    }

    /// A handle's number was given out again while it was thought to be held.
    fn forget_physical(&mut self, key: u64) -> Option<Object> {
        let physical = self.physical.get_mut(&key)?;
        physical.references = 0;
        if physical.mappings > 0 {
            return None;
        }
        self.physical.remove(&key).map(|physical| physical.object)
    }

    /// Everything that is alive, in the order of birth.
    pub fn alive(&self) -> Vec<&Object> {
        let physical = self.physical.values().map(|physical| &physical.object);
        let mut alive: Vec<&Object> = self.objects.iter().chain(physical).collect();
        alive.sort_unstable_by_key(|object| object.sequence);
        alive
    }

    /// Bytes of mapped ranges, by device of the memory behind them.
    pub fn mapped_bytes(&self, device: u8) -> u64 {
        self.mappings
            .values()
            .filter(|(_, key)| {
                self.physical
                    .get(key)
                    .is_some_and(|p| p.object.device == Some(device))
            })
            .fold(0, |sum: u64, (len, _)| sum.saturating_add(*len))
    }

    /// Lives of contexts, in the order of their beginning.
    pub fn lives(&self) -> &[Life] {
        &self.lives
    }

    /// Books by device ordinal.
    pub fn devices(&self) -> &BTreeMap<u8, DeviceBooks> {
        &self.devices
    }

    /// Refused calls by row id and result.
    pub fn failures(&self) -> &BTreeMap<(u16, u16), Failures> {
        &self.failures
    }

    /// Records that did not fit.
    pub fn surprises(&self) -> Surprises {
        self.surprises
    }

    /// CLOCK_MONOTONIC, ns, of the first and the last record.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        self.first_ns.map(|first| (first, self.last_ns))
    }
}
