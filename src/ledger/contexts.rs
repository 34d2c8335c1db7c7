//! Contexts: lives, references, and what dies with them.

use gpushim_abi::effect::Record;
use gpushim_abi::layout::slot::DEVICE_UNKNOWN;

use super::{Ledger, Object, Subject};

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
    /// When and how it ended.
    pub ended: Option<(u64, End)>,
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

    pub(super) fn life_of(&mut self, record: &Record, handle: u64, device: Option<u8>) -> usize {
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
            older: origin == Origin::Unseen,
            began_ns: record.at_ns,
            stack: record.stack,
            call: record.call,
            thread: record.thread,
            ended: None,
        });
        self.belongings.push(Belongings::default());
        let life = self.lives.len() - 1;
        self.current_life.insert(handle, life);
        if let Some(device) = device
            && origin != Origin::Created
        {
            self.primaries.insert((device, life));
        }
        life
    }

    pub(super) fn began(
        &mut self,
        record: &Record,
        handle: u64,
        device: Option<u8>,
        origin: Origin,
    ) {
        let device = device.filter(|device| *device != DEVICE_UNKNOWN);
        match self.current_life.get(&handle).copied() {
            Some(life)
                if origin == Origin::Primary && self.lives[life].origin != Origin::Created =>
            {
                let life = &mut self.lives[life];
                life.references = life.references.saturating_add(1);
                if life.origin == Origin::Unseen {
                    life.origin = Origin::Primary;
                }
            }
            // Another context at a handle that was thought to live: the end of that one was not seen.
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
    pub(super) fn primary(&self, device: u8) -> Option<usize> {
        let (_, life) = self
            .primaries
            .range((device, 0)..=(device, usize::MAX))
            .next_back()?;
        Some(*life)
    }

    /// Bytes that went with it.
    pub(super) fn dropped_reference(&mut self, record: &Record, life: usize) -> u64 {
        // References that were taken before the record began are not known: such a context ends by its reset only.
        let older = self.lives[life].older;
        let references = &mut self.lives[life].references;
        *references = references.saturating_sub(1);
        if *references == 0 && !older {
            self.end_life(record.at_ns, life, End::Released)
        } else {
            0
        }
    }

    /// Bytes that went with it.
    pub(super) fn end_life(&mut self, at_ns: u64, life: usize, how: End) -> u64 {
        self.lives[life].ended = Some((at_ns, how));
        self.lives[life].references = 0;
        let handle = self.lives[life].handle;
        if self.current_life.get(&handle) == Some(&life) {
            self.current_life.remove(&handle);
        }
        if let Some(device) = self.lives[life].device {
            self.primaries.remove(&(device, life));
        }
        let mut gone: Vec<Object> = Vec::new();
        for place in std::mem::take(&mut self.belongings[life].places) {
            // Its place may be somebody else's by now, and it may have been listed twice.
            if let Some(&object) = self.objects.at(place)
                && object.life == Some(life as u32)
            {
                gone.extend(self.objects.remove(object.space, object.address));
            }
        }
        gone.sort_by_key(|object| object.sequence);
        let mut freed = 0_u64;
        for object in gone {
            self.uncharge(at_ns, &object);
            // Host memory is another column.
            if object.device.is_some() {
                freed = freed.saturating_add(object.size);
            }
        }
        freed
    }
}
