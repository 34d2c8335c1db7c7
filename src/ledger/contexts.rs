//! Contexts: lives, references, and what dies with them.

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::Class;
use gpushim_abi::layout::slot::DEVICE_UNKNOWN;

use super::{Ledger, Object, Subject};

/// How a context began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `cuDevicePrimaryCtxRetain`, or a green context.
    Primary,
    /// `cuCtxCreate` and its like.
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
    /// Handle; 0 where only a green context is known.
    pub handle: u64,
    /// Device ordinal.
    pub device: Option<u8>,
    /// How it began.
    pub origin: Origin,
    /// References; those that were recorded, where its beginning was not.
    pub references: u32,
    /// Whether its beginning was not recorded, so that it may have references that nobody knows.
    pub older: bool,
    /// CLOCK_MONOTONIC, ns, of the first record about it.
    pub began_ns: u64,
    /// Stack node of whoever made it.
    pub stack: u32,
    /// Row id of the call that made it.
    pub call: u16,
    /// Thread that made it.
    pub thread: u32,
    /// The stack of each of its threads, bytes, where the program has set it.
    pub stack_limit: Option<u64>,
    /// When and how it ended.
    pub ended: Option<(u64, End)>,
    /// What went with it: objects, and the bytes of a device that they held.
    pub reclaimed: (u64, u64),
}

/// A device's primary context. Its references outlast a reset: the next one that is taken brings it back (measured on
/// driver 580).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Primary {
    pub(super) references: u32,
    /// Whether it was there before the first record about it.
    older: bool,
    pub(super) life: Option<usize>,
}

/// What a life of a context owns. What died by itself stays listed until they are most of the list: so the
/// end of a context costs what was born in it, and not a walk over everything that is alive.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    places: Vec<u32>,
    pub(super) alive: usize,
}

impl Ledger {
    /// Does something to the living context with this handle that gives some bytes back.
    pub(super) fn with_context(
        &mut self,
        handle: u64,
        act: impl FnOnce(&mut Self, usize) -> u64,
    ) -> Subject {
        let Some(&life) = self.current_life.get(&handle) else {
            return Subject::default();
        };
        let device = self.lives[life].device;
        Subject {
            device,
            freed: act(self, life),
        }
    }

    /// Notes that the object at a place belongs to a life.
    pub(super) fn belong(&mut self, life: u32, place: u32) {
        let belongings = &mut self.belongings[life as usize];
        belongings.alive += 1;
        belongings.places.push(place);
        if belongings.places.len() > 64 && belongings.places.len() > 4 * belongings.alive {
            belongings.places.sort_unstable();
            belongings.places.dedup();
            let objects = &self.objects;
            belongings
                .places
                .retain(|place| objects.at(*place).is_some_and(|o| o.life == Some(life)));
        }
    }

    /// The life that a record's context is in.
    pub(super) fn life_of(&mut self, record: &Record, handle: u64, device: Option<u8>) -> usize {
        if let Some(&life) = self.current_life.get(&handle) {
            return life;
        }
        // What is allocated in a green context is the primary one's.
        if let Some(life) = self
            .greens
            .get(&handle)
            .and_then(|device| self.primaries.get(device)?.life)
        {
            return life;
        }
        // A primary context that a green one has made shows its handle at its first use.
        if let Some(life) = device.and_then(|device| self.primaries.get(&device)?.life)
            && self.lives[life].handle == 0
        {
            self.lives[life].handle = handle;
            self.current_life.insert(handle, life);
            return life;
        }
        let life = self.add_life(record, handle, device, Origin::Unseen);
        if let Some(device) = device {
            let primary = self.primaries.entry(device).or_default();
            if primary.life.is_none() {
                primary.life = Some(life);
                primary.older = true;
            }
        }
        life
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
            references: u32::from(origin == Origin::Created),
            older: origin == Origin::Unseen,
            began_ns: record.at_ns,
            stack: record.stack,
            call: record.call,
            thread: record.thread,
            stack_limit: None,
            ended: None,
            reclaimed: (0, 0),
        });
        self.belongings.push(Belongings::default());
        let life = self.lives.len() - 1;
        if handle != 0 {
            self.current_life.insert(handle, life);
        }
        life
    }

    /// A context was created.
    pub(super) fn created(&mut self, record: &Record, device: Option<u8>) {
        let device = device.filter(|device| *device != DEVICE_UNKNOWN);
        // At a handle that was thought to live: the end of that one was not seen.
        if let Some(&life) = self.current_life.get(&record.address) {
            self.surprises.reused += 1;
            self.end_life(record.at_ns, life, End::Destroyed);
        }
        self.add_life(record, record.address, device, Origin::Created);
    }

    /// A reference to a primary context was taken; its handle is 0 where only a green context is known.
    pub(super) fn retained(&mut self, record: &Record, handle: u64, device: u8) {
        if device == DEVICE_UNKNOWN {
            return;
        }
        let known = self.current_life.get(&handle).copied();
        let known = known.filter(|_| handle != 0);
        if let Some(life) = known.filter(|life| self.lives[*life].origin == Origin::Created) {
            self.surprises.reused += 1;
            self.end_life(record.at_ns, life, End::Destroyed);
        }
        let held = self.primaries.entry(device).or_default().life;
        let life = match known
            .filter(|life| self.lives[*life].ended.is_none())
            .or(held)
        {
            Some(life) if handle == 0 || self.lives[life].handle == handle => life,
            Some(life) if self.lives[life].handle == 0 => {
                self.lives[life].handle = handle;
                self.current_life.insert(handle, life);
                life
            }
            _ => self.add_life(record, handle, Some(device), Origin::Primary),
        };
        if self.lives[life].origin == Origin::Unseen {
            self.lives[life].origin = Origin::Primary;
        }
        let older = self.lives[life].older;
        let primary = self.primaries.entry(device).or_default();
        primary.life = Some(life);
        primary.older |= older;
        // Counts come from a file: no sum of them may overflow.
        primary.references = primary.references.saturating_add(1);
        self.lives[life].references = primary.references;
    }

    /// A reference to a primary context was given back. The last one ends it, unless there may be others that nobody has seen.
    pub(super) fn released_primary(&mut self, record: &Record, device: u8) -> Subject {
        let Some(primary) = self.primaries.get_mut(&device) else {
            return Subject::default();
        };
        primary.references = primary.references.saturating_sub(1);
        let Primary {
            references,
            older,
            life,
        } = *primary;
        let mut freed = 0;
        if let Some(life) = life {
            self.lives[life].references = references;
            if references == 0 && !older {
                freed = self.end_life(record.at_ns, life, End::Released);
            }
        }
        Subject {
            device: Some(device),
            freed,
        }
    }

    /// A primary context was reset.
    pub(super) fn reset(&mut self, record: &Record, device: u8) -> Subject {
        let life = self.primaries.get(&device).and_then(|p| p.life);
        match life {
            Some(life) => Subject {
                device: Some(device),
                freed: self.end_life(record.at_ns, life, End::Reset),
            },
            None => Subject::default(),
        }
    }

    /// Bytes that went with the last reference of a created context.
    pub(super) fn detached(&mut self, record: &Record, life: usize) -> u64 {
        let older = self.lives[life].older;
        let references = &mut self.lives[life].references;
        *references = references.saturating_sub(1);
        if *references == 0 && !older {
            self.end_life(record.at_ns, life, End::Released)
        } else {
            0
        }
    }

    /// A green context was created: an object, and a reference to the primary one.
    pub(super) fn green_created(&mut self, record: &Record, device: u8) {
        let object = Object {
            device: Some(device),
            ..self.object(record, Class::GreenContext)
        };
        self.keep(record, object);
        self.greens.insert(record.address, device);
        self.retained(record, 0, device);
    }

    /// A green context was destroyed: its memory stays, since it is the primary one's.
    pub(super) fn green_destroyed(&mut self, record: &Record) -> Subject {
        let Some(object) = self.objects.remove(Class::GreenContext, record.address) else {
            self.surprises.unknown_frees += 1;
            return Subject::default();
        };
        self.greens.remove(&record.address);
        self.let_go(record.at_ns, &object);
        match object.device {
            Some(device) => self.released_primary(record, device),
            None => Subject::default(),
        }
    }

    /// Bytes that went with it.
    pub(super) fn end_life(&mut self, at_ns: u64, life: usize, how: End) -> u64 {
        if self.lives[life].ended.is_some() {
            return 0;
        }
        self.lives[life].ended = Some((at_ns, how));
        let handle = self.lives[life].handle;
        if self.current_life.get(&handle) == Some(&life) {
            self.current_life.remove(&handle);
        }
        if let Some(device) = self.lives[life].device
            && let Some(primary) = self.primaries.get_mut(&device)
            && primary.life == Some(life)
        {
            primary.life = None;
            if how == End::Released {
                *primary = Primary::default();
            }
        }
        let mut gone: Vec<Object> = Vec::new();
        for place in std::mem::take(&mut self.belongings[life].places) {
            // Its place may be somebody else's by now, and it may have been listed twice.
            if let Some(&object) = self.objects.at(place)
                && object.life == Some(life as u32)
            {
                gone.extend(self.objects.remove(object.class, object.address));
            }
        }
        gone.sort_by_key(|object| object.sequence);
        let mut freed = 0_u64;
        for object in &gone {
            freed = freed.saturating_add(self.let_go(at_ns, object));
            self.totals.entry(object.class).or_default().reclaimed += 1;
        }
        self.lives[life].reclaimed = (gone.len() as u64, freed);
        freed
    }
}
