//! What this process made visible to others.

use std::collections::HashMap;

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::Class;

use super::{Ledger, Object, Subject};

/// Something that other processes can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// What it is, as it was when it was exported first.
    pub object: Object,
    /// Under which name: the digest of 64 bytes, or a descriptor's number.
    pub name: u64,
    /// Whether the name is a descriptor's number, which means nothing in another process.
    pub is_descriptor: bool,
    /// First time, CLOCK_MONOTONIC ns.
    pub first_ns: u64,
    /// How often.
    pub count: u64,
    /// Row id of the call.
    pub call: u16,
    /// Stack node of the caller.
    pub stack: u32,
    /// When the process gave it back itself, CLOCK_MONOTONIC ns.
    pub ended_ns: Option<u64>,
}

/// Everything that was exported, in order.
#[derive(Debug, Default)]
pub(super) struct Exports {
    all: Vec<Export>,
    /// Places by the object's birth and the name.
    index: HashMap<(u64, u64), usize>,
    /// Places by the object's birth.
    by_birth: HashMap<u64, Vec<usize>>,
}

impl Ledger {
    /// Something was exported: an address, a handle, a pool, a block.
    pub(super) fn exported(&mut self, record: &Record, class: Class) -> Subject {
        if class == Class::Physical {
            return self.physical_exported(record);
        }
        if class == Class::Pool {
            let known = self
                .pools()
                .iter()
                .rev()
                .find(|pool| pool.handle == record.address);
            let device = known.and_then(|pool| pool.device);
            let object = Object {
                device,
                ..self.object(record, class)
            };
            self.export(record, &object);
            return Subject::on(device);
        }
        let Some(object) = self.objects.find_mut(class, record.address) else {
            return Subject::default();
        };
        object.is_exported = true;
        let object = *object;
        self.export(record, &object);
        Subject::on(object.device)
    }

    /// Notes an export of an object.
    pub(super) fn export(&mut self, record: &Record, object: &Object) {
        const DESCRIPTOR: u64 = 1;
        let exports = &mut self.exports;
        let key = (object.sequence, record.a);
        if let Some(place) = exports.index.get(&key) {
            exports.all[*place].count += 1;
            return;
        }
        let place = exports.all.len();
        exports.index.insert(key, place);
        exports
            .by_birth
            .entry(object.sequence)
            .or_default()
            .push(place);
        exports.all.push(Export {
            object: *object,
            name: record.a,
            is_descriptor: record.b == DESCRIPTOR,
            first_ns: record.at_ns,
            count: 1,
            call: record.call,
            stack: record.stack,
            ended_ns: None,
        });
    }

    /// What was exported is not held here any more.
    pub(super) fn export_ended(&mut self, at_ns: u64, object: &Object) {
        let places = self.exports.by_birth.get(&object.sequence);
        for place in places.into_iter().flatten() {
            self.exports.all[*place].ended_ns.get_or_insert(at_ns);
        }
    }

    /// Everything that was exported, in order.
    pub fn exports(&self) -> &[Export] {
        &self.exports.all
    }
}
