//! Where living objects are kept: in one place, found by what they are and their address. A million of them take about 130 MiB.

use std::collections::HashMap;

use gpushim_abi::hooks::Class;

/// Something that was born and has not died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub class: Class,
    /// Address or handle.
    pub address: u64,
    /// Requested size, bytes; 0 where the call says none.
    pub size: u64,
    /// What an array takes of its device, an estimate, bytes; 0 for everything else.
    pub array_bytes: u64,
    /// Device; `None` for memory of the host, and where nobody can say.
    pub device: Option<u8>,
    /// Life of the context that owns it.
    pub life: Option<u32>,
    /// What it came out of: the pool's index, the executable graph, the external memory.
    pub owner: u64,
    /// The name under which it was shared, where it was imported: a digest, or a descriptor's number.
    pub name: u64,
    /// How often it is held: openings of another process's allocation.
    pub held: u32,
    /// Whether its memory is another process's or interface's, so that nothing is charged for it here.
    pub is_imported: bool,
    /// Whether other processes may hold it too.
    pub is_exported: bool,
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

/// Whether a class is memory or address space, and not just a handle.
pub fn is_memory(class: Class) -> bool {
    matches!(
        class,
        Class::Linear
            | Class::Physical
            | Class::PoolBlock
            | Class::Managed
            | Class::Pinned
            | Class::Registered
            | Class::Reserved
            | Class::Array
            | Class::MipmappedArray
            | Class::GraphBlock
            | Class::IpcMapping
            | Class::ExternalMemory
            | Class::ExternalBuffer
    )
}

/// Classes that share one address space: whatever `cuMemFree` can free.
fn namespace(class: Class) -> Class {
    match class {
        Class::PoolBlock | Class::Managed | Class::GraphBlock | Class::ExternalBuffer => {
            Class::Linear
        }
        other => other,
    }
}

/// Everything that is alive but physical memory, which is counted by reference.
#[derive(Debug, Default)]
pub(super) struct Objects {
    places: Vec<Option<Object>>,
    free: Vec<u32>,
    index: HashMap<(Class, u64), u32>,
}

impl Objects {
    /// Keeps an object; its place, and what was at its address until now.
    pub(super) fn insert(&mut self, object: Object) -> (u32, Option<Object>) {
        let replaced = self.remove(object.class, object.address);
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(object);
                place
            }
            None => {
                self.places.push(Some(object));
                // A ring has at most 2^30 slots, and the births of launches are bounded.
                (self.places.len() - 1) as u32
            }
        };
        self.index
            .insert((namespace(object.class), object.address), place);
        (place, replaced)
    }

    /// Lets an object go.
    pub(super) fn remove(&mut self, class: Class, address: u64) -> Option<Object> {
        let place = self.index.remove(&(namespace(class), address))?;
        self.free.push(place);
        self.places[place as usize].take()
    }

    /// What is at a place.
    pub(super) fn at(&self, place: u32) -> Option<&Object> {
        self.places.get(place as usize)?.as_ref()
    }

    /// What is at an address.
    pub(super) fn find(&self, class: Class, address: u64) -> Option<&Object> {
        self.at(*self.index.get(&(namespace(class), address))?)
    }

    /// The same, to change.
    pub(super) fn find_mut(&mut self, class: Class, address: u64) -> Option<&mut Object> {
        let place = *self.index.get(&(namespace(class), address))?;
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// Every object.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Object> {
        self.places.iter().flatten()
    }
}
