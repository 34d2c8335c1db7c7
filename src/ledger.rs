//! Records to what is alive. Pure: takes records, keeps tables, answers questions.
//!
//! What a record does is said in `gpushim_abi::effect`; what follows from it is decided here: which object dies with
//! which context, what keeps physical memory alive, what is charged to which device. Spaces are never added up with each other.

use std::collections::{BTreeMap, HashMap};

use gpushim_abi::effect::{Effect, Record, owned_by_context};
use gpushim_abi::hooks::Space;
use gpushim_abi::layout::slot::{DEVICE_UNKNOWN, NESTED};

use crate::capture::Tables;
use crate::timeline::Timeline;

/// `CUDA_ERROR_DEINITIALIZED`: the driver's exit handler had run.
const DEINITIALIZED: u16 = 4;
/// The driver takes device memory in blocks of this many bytes.
const BLOCK: u64 = 2 << 20;
/// Allocations up to this size share blocks (measured on driver 580).
const PACKED_MAX: u64 = 1 << 20;

/// Something that was born and has not died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Where its bytes live.
    pub space: Space,
    /// Address or handle.
    pub address: u64,
    /// Requested size, bytes.
    pub size: u64,
    /// Device that is charged; `None` for memory of the host.
    pub device: Option<u8>,
    /// Life of the context that owns it.
    pub life: Option<usize>,
    /// CLOCK_MONOTONIC, ns, of its birth.
    pub born_ns: u64,
    /// Sequence number of the record.
    pub sequence: u64,
    /// Row id of the call.
    pub call: u16,
    /// Stack node of the caller.
    pub stack: u32,
    /// Thread.
    pub thread: u32,
}

/// Physical memory behind a handle, with what keeps it.
#[derive(Clone, Debug)]
struct Physical {
    object: Object,
    references: u32,
    mappings: u32,
}

/// How a context began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `cuDevicePrimaryCtxRetain`.
    Primary,
    /// `cuCtxCreate`.
    Created,
    /// By no call that was recorded.
    Unseen,
}

/// How a context ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its last reference was given back.
    Released,
    /// `cuDevicePrimaryCtxReset`.
    Reset,
    /// `cuCtxDestroy`.
    Destroyed,
}

/// One life of a context: handles are handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Handle.
    pub handle: u64,
    /// Device ordinal.
    pub device: Option<u8>,
    /// How it began.
    pub origin: Origin,
    /// References; for an unseen one only those that were recorded.
    pub references: u32,
    /// CLOCK_MONOTONIC, ns, of the first record about it.
    pub began_ns: u64,
    /// Stack node of whoever made it.
    pub stack: u32,
    /// Row id of the call that made it.
    pub call: u16,
    /// Thread that made it.
    pub thread: u32,
    /// When and how it ended.
    pub ended: Option<(u64, End)>,
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

/// Everything that is known after some records.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By address: linear, managed and pool memory.
    by_address: HashMap<u64, Object>,
    host: HashMap<u64, Object>,
    registered: HashMap<u64, Object>,
    reserved: HashMap<u64, Object>,
    physical: HashMap<u64, Physical>,
    /// Keys of `physical` by handle; a released handle's number may mean another object while a mapping holds the first.
    handles: HashMap<u64, u64>,
    /// Mapped ranges by first address: length and key of `physical`.
    mappings: BTreeMap<u64, (u64, u64)>,
    next_physical: u64,
    lives: Vec<Life>,
    current_life: HashMap<u64, usize>,
    devices: BTreeMap<u8, DeviceBooks>,
    failures: BTreeMap<(u16, u16), Failures>,
    surprises: Surprises,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Ledger {
    /// Takes the next record.
    pub fn take(&mut self, record: &Record, tables: &Tables) {
        self.first_ns.get_or_insert(record.at_ns);
        self.last_ns = self.last_ns.max(record.at_ns);
        if record.flags & NESTED != 0 {
            self.surprises.nested += 1;
            return;
        }
        if record.failed() {
            self.fail(record);
            return;
        }
        match record.effect() {
            Effect::Nothing => {}
            Effect::Unknown => self.surprises.unknown_calls += 1,
            Effect::Born(space) => self.born(record, space, tables),
            Effect::Ended(space) => self.ended(record, space),
            Effect::Mapped { handle, .. } => self.mapped(record, handle),
            Effect::Unmapped => self.unmapped(record),
            Effect::PrimaryRetained { device } => {
                self.began(record, record.address, Some(device), Origin::Primary);
            }
            Effect::ContextCreated { device } => {
                self.began(record, record.address, Some(device), Origin::Created);
            }
            Effect::ContextAttached => {
                if let Some(&life) = self.current_life.get(&record.address) {
                    self.lives[life].references += 1;
                }
            }
            Effect::PrimaryReleased { device } => {
                if let Some(life) = self.primary(device) {
                    self.dropped_reference(record, life);
                }
            }
            Effect::ContextDetached => {
                if let Some(&life) = self.current_life.get(&record.address) {
                    self.dropped_reference(record, life);
                }
            }
            Effect::PrimaryReset { device } => {
                if let Some(life) = self.primary(device) {
                    self.end_life(record.at_ns, life, End::Reset);
                }
            }
            Effect::ContextDestroyed => {
                if let Some(&life) = self.current_life.get(&record.address) {
                    self.end_life(record.at_ns, life, End::Destroyed);
                }
            }
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

    fn born(&mut self, record: &Record, space: Space, tables: &Tables) {
        let context = tables.context(record.context);
        let known = (record.device != DEVICE_UNKNOWN).then_some(record.device);
        let device = match space {
            Space::Host | Space::Registered | Space::Virtual => None,
            // Memory that was asked for on the host has no device, by the location that the shim read.
            Space::Physical => known,
            // Some device has it, even where nobody could say which.
            Space::Device | Space::Pool | Space::Managed => Some(
                known
                    .or_else(|| context.and_then(|c| c.device))
                    .unwrap_or(DEVICE_UNKNOWN),
            ),
        };
        let life = match context {
            Some(context) if owned_by_context(space) => {
                Some(self.life_of(record, context.handle, context.device))
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
        let replaced = match space {
            Space::Device | Space::Managed | Space::Pool => {
                self.by_address.insert(record.address, object)
            }
            Space::Host => self.host.insert(record.address, object),
            Space::Registered => self.registered.insert(record.address, object),
            Space::Virtual => self.reserved.insert(record.address, object),
            Space::Physical => {
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
            }
        };
        if let Some(old) = replaced {
            self.surprises.reused += 1;
            self.uncharge(record.at_ns, &old);
        }
        self.charge(record.at_ns, &object);
    }

    fn ended(&mut self, record: &Record, space: Space) {
        let address = record.address;
        let gone = match space {
            Space::Device | Space::Managed | Space::Pool => self.by_address.remove(&address),
            Space::Host => self.host.remove(&address),
            Space::Registered => self.registered.remove(&address),
            Space::Virtual => self.reserved.remove(&address),
            Space::Physical => {
                let Some(&key) = self.handles.get(&address) else {
                    self.surprises.unknown_frees += 1;
                    return;
                };
                if let Some(physical) = self.physical.get_mut(&key) {
                    physical.references = physical.references.saturating_sub(1);
                    if physical.references == 0 {
                        self.handles.remove(&address);
                    }
                }
                self.settle_physical(record.at_ns, key);
                return;
            }
        };
        match gone {
            Some(object) => self.uncharge(record.at_ns, &object),
            None => self.surprises.unknown_frees += 1,
        }
    }

    fn mapped(&mut self, record: &Record, handle: u64) {
        let Some(&key) = self.handles.get(&handle) else {
            return;
        };
        if let Some(physical) = self.physical.get_mut(&key) {
            physical.mappings += 1;
            let old = self.mappings.insert(record.address, (record.size, key));
            if let Some((_, key)) = old {
                self.unmap_one(record.at_ns, key);
            }
        }
    }

    fn unmapped(&mut self, record: &Record) {
        let end = record.address.saturating_add(record.size);
        let gone: Vec<u64> = self
            .mappings
            .range(record.address..end)
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            if let Some((_, key)) = self.mappings.remove(&address) {
                self.unmap_one(record.at_ns, key);
            }
        }
    }

    fn unmap_one(&mut self, at_ns: u64, key: u64) {
        if let Some(physical) = self.physical.get_mut(&key) {
            physical.mappings = physical.mappings.saturating_sub(1);
        }
        self.settle_physical(at_ns, key);
    }

    /// Physical memory goes when neither a reference nor a mapping holds it.
    fn settle_physical(&mut self, at_ns: u64, key: u64) {
        let held = self
            .physical
            .get(&key)
            .is_some_and(|p| p.references > 0 || p.mappings > 0);
        if !held && let Some(physical) = self.physical.remove(&key) {
            self.uncharge(at_ns, &physical.object);
        }
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

    fn charge(&mut self, at_ns: u64, object: &Object) {
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

    fn uncharge(&mut self, at_ns: u64, object: &Object) {
        if let (Some(device), Space::Device | Space::Physical) = (object.device, object.space) {
            let books = self.devices.entry(device).or_default();
            books.live = books.live.saturating_sub(object.size);
            books.frees += 1;
            books.timeline.put(at_ns, books.live);
        }
    }

    fn life_of(&mut self, record: &Record, handle: u64, device: Option<u8>) -> usize {
        if let Some(&life) = self.current_life.get(&handle) {
            return life;
        }
        self.add_life(record, handle, device, Origin::Unseen)
    }

    fn add_life(
        &mut self,
        record: &Record,
        handle: u64,
        device: Option<u8>,
        origin: Origin,
    ) -> usize {
        if let Some(device) = device {
            self.devices.entry(device).or_default();
        }
        self.lives.push(Life {
            handle,
            device,
            origin,
            references: u32::from(origin != Origin::Unseen),
            began_ns: record.at_ns,
            stack: record.stack,
            call: record.call,
            thread: record.thread,
            ended: None,
        });
        let life = self.lives.len() - 1;
        self.current_life.insert(handle, life);
        life
    }

    fn began(&mut self, record: &Record, handle: u64, device: Option<u8>, origin: Origin) {
        let device = device.filter(|device| *device != DEVICE_UNKNOWN);
        match self.current_life.get(&handle).copied() {
            Some(life) if origin == Origin::Primary => {
                let life = &mut self.lives[life];
                life.references += 1;
                if life.origin == Origin::Unseen {
                    life.origin = Origin::Primary;
                }
            }
            // A created context at a handle that was thought to live: its end was not seen.
            Some(life) => {
                self.surprises.reused += 1;
                self.end_life(record.at_ns, life, End::Destroyed);
                self.add_life(record, handle, device, origin);
            }
            None => {
                self.add_life(record, handle, device, origin);
            }
        }
    }

    /// The living primary context of a device.
    fn primary(&self, device: u8) -> Option<usize> {
        self.lives.iter().rposition(|life| {
            life.ended.is_none() && life.device == Some(device) && life.origin != Origin::Created
        })
    }

    fn dropped_reference(&mut self, record: &Record, life: usize) {
        // References that were taken before the record began are not known: such a context ends by its reset only.
        let unseen = self.lives[life].origin == Origin::Unseen;
        let references = &mut self.lives[life].references;
        *references = references.saturating_sub(1);
        if *references == 0 && !unseen {
            self.end_life(record.at_ns, life, End::Released);
        }
    }

    fn end_life(&mut self, at_ns: u64, life: usize, how: End) {
        self.lives[life].ended = Some((at_ns, how));
        self.lives[life].references = 0;
        let handle = self.lives[life].handle;
        if self.current_life.get(&handle) == Some(&life) {
            self.current_life.remove(&handle);
        }
        let mut gone = Vec::new();
        for map in [&mut self.by_address, &mut self.host, &mut self.registered] {
            map.retain(|_, object| {
                let dies = object.life == Some(life);
                if dies {
                    gone.push(*object);
                }
                !dies
            });
        }
        gone.sort_by_key(|object| object.sequence);
        for object in gone {
            self.uncharge(at_ns, &object);
        }
    }

    /// Everything that is alive, in the order of birth.
    pub fn alive(&self) -> Vec<Object> {
        let mut alive: Vec<Object> = [
            &self.by_address,
            &self.host,
            &self.registered,
            &self.reserved,
        ]
        .into_iter()
        .flat_map(HashMap::values)
        .copied()
        .chain(self.physical.values().map(|physical| physical.object))
        .collect();
        alive.sort_by_key(|object| object.sequence);
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

/// What the driver takes for these allocations, by the rule measured on driver 580: up to 1 MiB they are packed into
/// shared 2 MiB blocks of their context, above it each is rounded up to 2 MiB. An estimate: holes that frees leave in a shared block
/// are not seen.
pub fn footprint(objects: &[Object]) -> u64 {
    let blocks = |bytes: u64| bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
    let mut packed: HashMap<Option<usize>, u64> = HashMap::new();
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
