//! Records to what is alive. Pure: takes records, keeps tables, answers questions.
//!
//! What a record does is said in `gpushim_abi::effect`; what follows from it is decided here: which object dies with
//! which context, what keeps physical memory alive, what a launch leaves behind, what is charged to which device. Unlike things are
//! never added up with each other.

mod arrays;
mod blocks;
mod charge;
mod contexts;
mod graphs;
mod objects;
mod phases;
mod physical;
mod pools;
mod sharing;
mod sites;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use gpushim_abi::effect::{ArrayFacts, Effect, Place, Record, owned_by_context};
use gpushim_abi::events::Event;
use gpushim_abi::hooks::{Class, HOOKS, Hook, HookId, Kind};
use gpushim_abi::layout::slot::{DEVICE_UNKNOWN, NESTED};

use crate::capture::Tables;
use blocks::Blocks;
pub use blocks::{Block, BlockBooks, Refusal, Segment};
pub use charge::{DeviceBooks, footprint};
use contexts::{Belongings, Primary};
pub use contexts::{End, Life, Origin};
pub use graphs::GraphFacts;
use graphs::Graphs;
use objects::Objects;
pub use objects::{Object, is_memory};
pub use phases::Phase;
use phases::Phases;
use physical::Memory;
pub use physical::Physical;
pub use pools::Pool;
pub use sharing::Export;
use sites::Sites;
pub use sites::{Level, SiteBook, SiteKey};

/// `CUDA_ERROR_DEINITIALIZED`: the driver's exit handler had run.
const DEINITIALIZED: u16 = 4;
/// `CU_LIMIT_STACK_SIZE`.
const STACK_SIZE: u32 = 0;

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
    fn on(device: Option<u8>) -> Self {
        Self { device, freed: 0 }
    }

    /// Of several things, the device of the first that has one, and all their bytes.
    fn add(&mut self, other: Self) {
        self.device = self.device.or(other.device);
        self.freed = self.freed.saturating_add(other.freed);
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
    /// Calls through the 32-bit interface from before CUDA 3.2.
    pub narrow: u64,
    /// Arrays of a format that only a later version knows, so that their size is not known.
    pub unknown_formats: u64,
}

/// How many things of a class there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Made, or imported.
    pub created: u64,
    /// Ended, by whatever.
    pub ended: u64,
    /// Of these ended with their context.
    pub reclaimed: u64,
}

/// Whether a call was made through the 32-bit interface: CUDA 3.2 gave it a successor with wider words.
fn is_narrow(record: &Record) -> bool {
    const WIDE: i32 = 3020;
    static NARROW: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let successor = |hook: &Hook| {
            HOOKS
                .iter()
                .any(|other| other.asked == hook.asked && other.since == WIDE)
        };
        HOOKS
            .iter()
            .map(|hook| hook.since < WIDE && successor(hook))
            .collect()
    });
    record
        .hook()
        .is_some_and(|hook| NARROW.get(hook.index()) == Some(&true))
}

/// What is known of a module or library beside its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// Look-ups of kernels.
    pub kernels: u64,
    /// Greatest local memory of a thread, bytes, over the kernels that were loaded.
    pub local_bytes: u64,
    /// Bytes of variables that were looked up, each once.
    pub global_bytes: u64,
    /// Their number.
    pub globals: u64,
}

/// Where managed memory was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// When, CLOCK_MONOTONIC ns.
    pub at_ns: u64,
    /// Where to.
    pub place: Place,
    /// Bytes of that call.
    pub bytes: u64,
}

/// Everything that is known after some records.
#[derive(Debug, Default)]
pub struct Ledger {
    objects: Objects,
    memory: Memory,
    pools: Vec<Pool>,
    /// By handle; the one that nobody named by device.
    pool_index: HashMap<(u64, Option<u8>), usize>,
    graphs: Graphs,
    exports: sharing::Exports,
    lives: Vec<Life>,
    /// By life.
    belongings: Vec<Belongings>,
    current_life: HashMap<u64, usize>,
    primaries: BTreeMap<u8, Primary>,
    /// Handles of green contexts, as contexts or as such, to their device.
    greens: HashMap<u64, u8>,
    modules: HashMap<u64, ModuleFacts>,
    /// Variables that were seen, by module and address.
    globals: HashMap<(u64, u64), ()>,
    residency: HashMap<u64, Residency>,
    checkpoints: BTreeMap<(u16, u32), u64>,
    totals: BTreeMap<Class, Totals>,
    /// Successful calls by row id.
    calls: BTreeMap<u16, u64>,
    devices: BTreeMap<u8, DeviceBooks>,
    failures: BTreeMap<(u16, u16), Failures>,
    blocks: Blocks,
    phases: Phases,
    sites: Sites,
    surprises: Surprises,
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Ledger {
    /// Takes the next record; what it was about.
    pub fn take(&mut self, record: &Record, tables: &Tables) -> Subject {
        self.first_ns.get_or_insert(record.at_ns);
        self.last_ns = self.last_ns.max(record.at_ns);
        let said = Subject::on(record.device());
        self.sites.cause = record.stack;
        if let Some(event) = Event::from_raw(record.call) {
            let freed = if event.is_block() {
                self.blocks.take(record, event, &mut self.sites)
            } else {
                self.phases.take(record, event, tables);
                0
            };
            return Subject { freed, ..said };
        }
        if record.flags & NESTED != 0 && !record.is_observation() {
            self.surprises.nested += 1;
            return said;
        }
        if record.failed() {
            self.fail(record);
        } else if !record.is_observation() {
            self.surprises.narrow += u64::from(is_narrow(record));
            *self.calls.entry(record.call).or_default() += 1;
        }
        let known = self.apply(record, tables);
        Subject {
            device: said.device.or(known.device),
            ..known
        }
    }

    fn apply(&mut self, record: &Record, tables: &Tables) -> Subject {
        match record.effect() {
            Effect::Nothing => Subject::default(),
            Effect::Unknown => {
                self.surprises.unknown_calls += 1;
                Subject::default()
            }
            Effect::Born(class) => self.born(record, class, tables, false),
            Effect::Imported(class) => self.born(record, class, tables, true),
            Effect::Ended(class) => self.ended(record, class),
            Effect::Retained => self.physical_retained(record),
            Effect::Exported(class) => self.exported(record, class),
            Effect::Mapped { handle, .. } => self.mapped(record, handle),
            Effect::Unmapped => self.unmapped(record),
            Effect::Tile { handle, part } => self.tile(record, handle, part),
            Effect::Granted { .. } => Subject::default(),
            Effect::Bound { handle } => {
                self.bound(record, Some(handle), 0);
                Subject::default()
            }
            Effect::BoundAt { address } => {
                self.bound(record, None, address);
                Subject::default()
            }
            Effect::Unbound { offset } => {
                self.unbound(record.at_ns, record.address, offset, record.size)
            }
            Effect::PrimaryRetained { device } => {
                self.retained(record, record.address, device);
                Subject::default()
            }
            Effect::PrimaryReleased { device } => self.released_primary(record, device),
            Effect::PrimaryReset { device } => self.reset(record, device),
            Effect::ContextCreated { device } => {
                self.created(record, Some(device));
                Subject::default()
            }
            Effect::ContextAttached => self.with_context(record.address, |ledger, life| {
                // Counts come from a file: no sum of them may overflow.
                let references = &mut ledger.lives[life].references;
                *references = references.saturating_add(1);
                0
            }),
            Effect::ContextDetached => {
                self.with_context(record.address, |ledger, life| ledger.detached(record, life))
            }
            Effect::ContextDestroyed => self.with_context(record.address, |ledger, life| {
                ledger.end_life(record.at_ns, life, End::Destroyed)
            }),
            Effect::GreenCreated { device } => {
                self.green_created(record, device);
                Subject::default()
            }
            Effect::GreenDestroyed => self.green_destroyed(record),
            Effect::GreenViewed { green } => {
                if let Some(&device) = self.greens.get(&green) {
                    self.greens.insert(record.address, device);
                }
                Subject::default()
            }
            Effect::LimitSet { limit, value } => {
                if limit == STACK_SIZE
                    && let Some(context) = tables.context(record.context)
                {
                    let life = self.life_of(record, context.handle, context.device);
                    self.lives[life].stack_limit = Some(value);
                }
                Subject::default()
            }
            Effect::PoolKnown { device, is_default } => {
                self.pool_named(record, device, is_default);
                Subject::on(device)
            }
            Effect::PoolChosen { device } => {
                self.pool_named(record, device, false);
                Subject::on(device)
            }
            Effect::PoolSet { attribute, value } => self.pool_set(record, attribute, value),
            Effect::PoolAnswered { attribute, value } => self.pool_said(record, attribute, value),
            Effect::PoolTrimmed => Subject::default(),
            Effect::NodeFrees => {
                self.node_frees(record);
                Subject::default()
            }
            Effect::NodeHolds => {
                self.node_holds(record);
                Subject::default()
            }
            Effect::GraphUpdated { .. } | Effect::GraphUploaded => Subject::default(),
            Effect::GraphLaunched => self.launched(record),
            Effect::GraphTrimmed { device } => Subject::on(Some(device)),
            Effect::GraphAnswered {
                device,
                attribute,
                value,
            } => {
                const RESERVED: u32 = 2;
                if attribute == RESERVED && device != DEVICE_UNKNOWN {
                    self.graphs_hold(record.at_ns, device, value);
                }
                Subject::default()
            }
            Effect::CaptureBegan { id, graph } => {
                self.capture_began(record.address, id, graph);
                Subject::default()
            }
            Effect::CaptureEnded { id } => {
                self.capture_ended(record, id);
                Subject::default()
            }
            Effect::DeviceAnswered { free, total } => {
                if let Some(device) = record.device() {
                    let books = self.devices.entry(device).or_default();
                    books.said = Some((record.at_ns, free, total));
                }
                Subject::default()
            }
            Effect::FunctionSeen => {
                let facts = self.modules.entry(record.a).or_default();
                facts.kernels += 1;
                facts.local_bytes = facts.local_bytes.max(record.size);
                Subject::default()
            }
            Effect::GlobalSeen => {
                if self
                    .globals
                    .insert((record.a, record.address), ())
                    .is_none()
                {
                    let facts = self.modules.entry(record.a).or_default();
                    facts.globals += 1;
                    facts.global_bytes = facts.global_bytes.saturating_add(record.size);
                }
                Subject::default()
            }
            Effect::Moved { location } => self.moved(record, location),
            Effect::Checkpoint { process } => {
                *self.checkpoints.entry((record.call, process)).or_default() += 1;
                Subject::default()
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
        // The end of a capture has no size: the word says whether the stream is free again.
        if record.hook().map(HookId::kind) != Some(Kind::CaptureEnd) {
            failures.largest = failures.largest.max(record.size);
        }
        failures.last_ns = record.at_ns;
        failures.stack = record.stack;
    }

    /// What a record makes, of which nothing is known yet but what every record says.
    fn object(&self, record: &Record, class: Class) -> Object {
        Object {
            class,
            address: record.address,
            size: record.size,
            array_bytes: 0,
            device: None,
            life: None,
            owner: 0,
            name: 0,
            held: 1,
            is_imported: false,
            is_exported: false,
            born_ns: record.at_ns,
            sequence: record.sequence,
            call: record.call,
            stack: record.stack,
            thread: record.thread,
        }
    }

    fn born(&mut self, record: &Record, class: Class, tables: &Tables, imported: bool) -> Subject {
        let context = tables.context(record.context);
        let context_device = context.and_then(|c| c.device);
        // Some device has it, even where nobody could say which.
        let here = record.device().or(context_device).unwrap_or(DEVICE_UNKNOWN);
        let mut object = self.object(record, class);
        object.is_imported = imported;
        match class {
            Class::Physical | Class::Multicast => {
                self.physical_born(record, class, imported);
                return Subject::on(record.device());
            }
            Class::Pool => return self.pool_born(record, imported),
            Class::GraphBlock => return self.node_allocates(record),
            Class::Graph => {
                object.size = 0;
                self.graph_born(record);
            }
            Class::GraphExec => {
                object.owner = record.a;
                self.exec_born(record);
            }
            Class::PoolBlock => {
                object = self.block_born(record, imported);
                object.device = object.device.or(Some(here));
            }
            Class::Array | Class::MipmappedArray => {
                let facts = ArrayFacts::from_words(record.a, record.b);
                let levels = if class == Class::Array {
                    1
                } else {
                    record.size
                };
                let requested = arrays::requested(&facts, levels);
                self.surprises.unknown_formats += u64::from(requested.is_none());
                object.size = requested.unwrap_or(0);
                object.array_bytes = if imported {
                    0
                } else {
                    arrays::taken(&facts, levels)
                };
                object.device = Some(here);
            }
            Class::IpcMapping => {
                object.device = Some(here);
                object.name = record.a;
                if let Some(open) = self.objects.find_mut(class, record.address) {
                    // Opened once more: the same address.
                    open.held = open.held.saturating_add(1);
                    return Subject::on(open.device);
                }
            }
            Class::ExternalBuffer => {
                object.device = Some(here);
                object.owner = record.a;
            }
            Class::Pinned | Class::Registered | Class::Reserved | Class::Endpoint => {}
            Class::Library | Class::GreenContext => {}
            _ => object.device = Some(here),
        }
        if let Some(context) = context
            && owned_by_context(class)
        {
            object.life = Some(self.life_of(record, context.handle, context.device) as u32);
        }
        if matches!(class, Class::Module | Class::Library) {
            self.modules.insert(record.address, ModuleFacts::default());
        }
        self.keep(record, object);
        Subject::on(object.device)
    }

    /// Keeps an object, with what it costs; what was at its address until now ended unseen.
    fn keep(&mut self, record: &Record, object: Object) {
        let (place, replaced) = self.objects.insert(object);
        if let Some(life) = object.life {
            self.belong(life, place);
        }
        if let Some(old) = replaced {
            self.surprises.reused += 1;
            self.let_go(record.at_ns, &old);
        }
        self.totals.entry(object.class).or_default().created += 1;
        if object.class == Class::Linear {
            self.blocks.range_born(object.address, object.size);
        }
        self.charge(record.at_ns, &object);
    }

    /// What follows from the end of an object that is out of the tables: bytes of a device that are free now.
    fn let_go(&mut self, at_ns: u64, object: &Object) -> u64 {
        self.totals.entry(object.class).or_default().ended += 1;
        self.uncharge(at_ns, object);
        if object.class == Class::Linear {
            self.blocks.range_ended(object.address);
        }
        if object.is_exported {
            self.export_ended(at_ns, object);
        }
        let parts = match object.class {
            Class::PoolBlock => {
                self.block_ended(at_ns, object);
                0
            }
            Class::Array | Class::MipmappedArray => self.untiled(at_ns, object.address),
            Class::Managed => {
                self.residency.remove(&object.address);
                0
            }
            Class::Endpoint => self.unbound(at_ns, object.address, 0, u64::MAX).freed,
            _ => 0,
        };
        // Host memory is another column, and what is another process's is not free.
        if object.device.is_some() && is_memory(object.class) && !object.is_imported {
            parts.saturating_add(object.size)
        } else {
            parts
        }
    }

    /// Ends an object, if it is there.
    fn end_object(&mut self, at_ns: u64, class: Class, address: u64) -> Option<Subject> {
        let object = self.objects.remove(class, address)?;
        Some(Subject {
            device: object.device,
            freed: self.let_go(at_ns, &object),
        })
    }

    fn ended(&mut self, record: &Record, class: Class) -> Subject {
        match class {
            Class::Physical => return self.physical_released(record),
            Class::Pool => return self.pool_destroyed(record),
            Class::Graph => self.graph_ended(record.address),
            Class::GraphExec => self.exec_ended(record.address),
            Class::Module | Class::Library => {
                self.modules.remove(&record.address);
            }
            Class::IpcMapping => {
                if let Some(open) = self.objects.find_mut(class, record.address)
                    && open.held > 1
                {
                    open.held -= 1;
                    return Subject::on(open.device);
                }
            }
            _ => {}
        }
        self.end_object(record.at_ns, class, record.address)
            .unwrap_or_else(|| {
                self.surprises.unknown_frees += 1;
                Subject::default()
            })
    }

    /// Managed pages were sent somewhere.
    fn moved(&mut self, record: &Record, location: u64) -> Subject {
        let prefetch = matches!(
            record.hook(),
            Some(
                HookId::cuMemPrefetchAsync
                    | HookId::cuMemPrefetchAsync_ptsz
                    | HookId::cuMemPrefetchAsync_v2
                    | HookId::cuMemPrefetchAsync_v2_ptsz
            )
        );
        if prefetch && let Some(object) = self.objects.find(Class::Managed, record.address) {
            self.residency.insert(
                object.address,
                Residency {
                    at_ns: record.at_ns,
                    place: Place::of(location),
                    bytes: record.size,
                },
            );
        }
        match Place::of(location) {
            Place::Device(device) => Subject::on(Some(device)),
            _ => Subject::default(),
        }
    }

    /// Everything that is alive, in the order of birth. Multicast objects and what is adrift are not among it.
    pub fn alive(&self) -> Vec<&Object> {
        let physical = self
            .memory
            .all
            .values()
            .map(|physical| &physical.object)
            .filter(|object| object.class == Class::Physical);
        let mut alive: Vec<&Object> = self.objects.iter().chain(physical).collect();
        // The nodes of one graph are born at one launch: then the address decides.
        alive.sort_unstable_by_key(|object| (object.sequence, object.address));
        alive
    }

    /// Where managed memory was sent last, by its address.
    pub fn residency(&self, address: u64) -> Option<Residency> {
        self.residency.get(&address).copied()
    }

    /// What is known of a module or library.
    pub fn module_facts(&self, handle: u64) -> ModuleFacts {
        self.modules.get(&handle).copied().unwrap_or_default()
    }

    /// Checkpoint calls, by row id and the process that they are about.
    pub fn checkpoints(&self) -> &BTreeMap<(u16, u32), u64> {
        &self.checkpoints
    }

    /// How many things of each class there were.
    pub fn totals(&self) -> &BTreeMap<Class, Totals> {
        &self.totals
    }

    /// Successful calls that were recorded, by row id.
    pub fn calls(&self) -> &BTreeMap<u16, u64> {
        &self.calls
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
