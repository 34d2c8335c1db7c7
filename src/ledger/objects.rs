//! Where living objects are kept: in one place, found by space and address. A million of them take about 100 MiB.

use std::collections::HashMap;

use gpushim_abi::hooks::Space;

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
    pub life: Option<u32>,
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

/// Everything that is alive but physical memory, which is counted by reference.
#[derive(Debug, Default)]
pub(super) struct Objects {
    places: Vec<Option<Object>>,
    free: Vec<u32>,
    /// Linear, managed and pool memory share one address space.
    by_address: HashMap<u64, u32>,
    host: HashMap<u64, u32>,
    registered: HashMap<u64, u32>,
    reserved: HashMap<u64, u32>,
}

impl Objects {
    fn index(&mut self, space: Space) -> &mut HashMap<u64, u32> {
        match space {
            Space::Host => &mut self.host,
            Space::Registered => &mut self.registered,
            Space::Virtual => &mut self.reserved,
            _ => &mut self.by_address,
        }
    }

    /// Keeps an object; its place, and what was at its address until now.
    pub(super) fn insert(&mut self, object: Object) -> (u32, Option<Object>) {
        let replaced = self.remove(object.space, object.address);
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(object);
                place
            }
            None => {
                self.places.push(Some(object));
                // A ring has at most 2^30 slots, and each record one birth.
                (self.places.len() - 1) as u32
            }
        };
        self.index(object.space).insert(object.address, place);
        (place, replaced)
    }

    /// Lets an object go.
    pub(super) fn remove(&mut self, space: Space, address: u64) -> Option<Object> {
        let place = self.index(space).remove(&address)?;
        self.free.push(place);
        self.places[place as usize].take()
    }

    /// What is at a place.
    pub(super) fn at(&self, place: u32) -> Option<&Object> {
        self.places.get(place as usize)?.as_ref()
    }

    /// Every object.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.places.iter().flatten()
    }
}
