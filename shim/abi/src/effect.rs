//! What a record does to memory and to contexts.
//!
//! [`Record`] is a slot's bytes with names; [`Record::effect`] says what it means. Everything that follows from
//! an effect (which object dies with which context, what the driver charges) is the business of whoever
//! keeps the tables.

use crate::hooks::{CUDA_SUCCESS, HookId, Kind, Space};
use crate::layout::slot;

/// A committed slot, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Place in the process-wide order.
    pub sequence: u64,
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: u64,
    /// Row id of the call; unknown ids come from a later shim.
    pub call: u16,
    /// Driver's result, or [`slot::RESULT_PENDING`].
    pub result: u16,
    /// Address or handle.
    pub address: u64,
    /// Size, bytes.
    pub size: u64,
    /// First word of the call's own kind.
    pub a: u64,
    /// Second word of the call's own kind.
    pub b: u64,
    /// Thread id.
    pub thread: u32,
    /// Stack node.
    pub stack: u32,
    /// Context index, or [`slot::CONTEXT_NONE`].
    pub context: u16,
    /// Phase, 0 none.
    pub phase: u16,
    /// Device ordinal, or [`slot::DEVICE_UNKNOWN`].
    pub device: u8,
    /// [`slot::REFUSED`], [`slot::NESTED`].
    pub flags: u8,
}

macro_rules! read {
    ($bytes:ident, $range:expr, $ty:ty) => {{
        const AT: usize = $range.start;
        let mut word = [0; size_of::<$ty>()];
        word.copy_from_slice(&$bytes[AT..AT + size_of::<$ty>()]);
        <$ty>::from_le_bytes(word)
    }};
}

/// The state word of a slot.
pub fn state(bytes: &[u8; slot::LEN]) -> u32 {
    read!(bytes, slot::STATE, u32)
}

impl Record {
    /// Decodes the payload of a slot; the caller has checked its state and knows its sequence number.
    pub fn decode(sequence: u64, bytes: &[u8; slot::LEN]) -> Self {
        Self {
            sequence,
            at_ns: read!(bytes, slot::TIME, u64),
            call: read!(bytes, slot::CALL, u16),
            result: read!(bytes, slot::RESULT, u16),
            address: read!(bytes, slot::ADDRESS, u64),
            size: read!(bytes, slot::SIZE, u64),
            a: read!(bytes, slot::A, u64),
            b: read!(bytes, slot::B, u64),
            thread: read!(bytes, slot::THREAD, u32),
            stack: read!(bytes, slot::STACK, u32),
            context: read!(bytes, slot::CONTEXT, u16),
            phase: read!(bytes, slot::PHASE, u16),
            device: bytes[slot::DEVICE.start],
            flags: bytes[slot::FLAGS.start],
        }
    }

    /// The bytes of the slot, as the shim stores them, with this state word.
    pub fn encode(&self, state: u32) -> [u8; slot::LEN] {
        let mut bytes = [0; slot::LEN];
        bytes[slot::STATE].copy_from_slice(&state.to_le_bytes());
        bytes[slot::CALL].copy_from_slice(&self.call.to_le_bytes());
        bytes[slot::RESULT].copy_from_slice(&self.result.to_le_bytes());
        bytes[slot::TIME].copy_from_slice(&self.at_ns.to_le_bytes());
        bytes[slot::ADDRESS].copy_from_slice(&self.address.to_le_bytes());
        bytes[slot::SIZE].copy_from_slice(&self.size.to_le_bytes());
        bytes[slot::A].copy_from_slice(&self.a.to_le_bytes());
        bytes[slot::B].copy_from_slice(&self.b.to_le_bytes());
        bytes[slot::THREAD].copy_from_slice(&self.thread.to_le_bytes());
        bytes[slot::STACK].copy_from_slice(&self.stack.to_le_bytes());
        bytes[slot::CONTEXT].copy_from_slice(&self.context.to_le_bytes());
        bytes[slot::PHASE].copy_from_slice(&self.phase.to_le_bytes());
        bytes[slot::DEVICE.start] = self.device;
        bytes[slot::FLAGS.start] = self.flags;
        bytes
    }

    /// The call, if this version knows it.
    pub fn hook(&self) -> Option<HookId> {
        HookId::from_raw(self.call)
    }

    /// Whether the record was made before the call, so that its result is not in it.
    pub fn is_pending(&self) -> bool {
        self.result == slot::RESULT_PENDING
    }

    /// Whether the driver refused what the record says.
    pub fn failed(&self) -> bool {
        !self.is_pending() && i32::from(self.result) != CUDA_SUCCESS
    }

    /// For a record that takes a pending one back: the sequence number of that one.
    pub fn takes_back(&self) -> Option<u64> {
        if self.flags & slot::REFUSED != 0 {
            self.a.checked_sub(1)
        } else {
            None
        }
    }

    /// What the record does. A pending record is taken at its word; the caller leaves out those that a later
    /// record takes back. Records made inside another hooked call do nothing: the outer call is the one
    /// that the program made.
    pub fn effect(&self) -> Effect {
        let Some(hook) = self.hook() else {
            return Effect::Unknown;
        };
        if self.failed() || self.flags & (slot::NESTED | slot::REFUSED) != 0 {
            return Effect::Nothing;
        }
        let address = self.address;
        let device = self.device;
        match hook.hook().kind {
            Kind::Alloc(space) => Effect::Born(space),
            // The driver frees nothing at address 0, and says success.
            Kind::Free(_) if address == 0 => Effect::Nothing,
            Kind::Free(space) => Effect::Ended(space),
            Kind::Map => Effect::Mapped {
                handle: self.a,
                offset: self.b,
            },
            Kind::Unmap => Effect::Unmapped,
            Kind::PrimaryRetain => Effect::PrimaryRetained { device },
            Kind::PrimaryRelease => Effect::PrimaryReleased { device },
            Kind::PrimaryReset => Effect::PrimaryReset { device },
            Kind::ContextCreate => Effect::ContextCreated { device },
            Kind::ContextDestroy => Effect::ContextDestroyed,
            Kind::ContextAttach => Effect::ContextAttached,
            Kind::ContextDetach => Effect::ContextDetached,
            Kind::Init | Kind::ContextSwitch | Kind::Door => Effect::Nothing,
        }
    }
}

/// What a record does; addresses, sizes and handles are the record's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that is kept.
    Nothing,
    /// A call that only a later version knows.
    Unknown,
    /// Something of this space comes into being at the record's address.
    Born(Space),
    /// Something at the record's address goes away; [`Space::Device`] stands for any space with device addresses.
    Ended(Space),
    /// A handle is mapped at the record's address.
    Mapped {
        /// The handle.
        handle: u64,
        /// Offset into it, bytes.
        offset: u64,
    },
    /// Mappings go away between the record's address and address plus size.
    Unmapped,
    /// A reference to a device's primary context, whose handle is the record's address.
    PrimaryRetained {
        /// Ordinal.
        device: u8,
    },
    /// One reference less.
    PrimaryReleased {
        /// Ordinal.
        device: u8,
    },
    /// The primary context and what it owns are gone.
    PrimaryReset {
        /// Ordinal.
        device: u8,
    },
    /// A context, whose handle is the record's address.
    ContextCreated {
        /// Ordinal.
        device: u8,
    },
    /// The context at the record's address and what it owns are gone.
    ContextDestroyed,
    /// One usage reference more.
    ContextAttached,
    /// One usage reference less.
    ContextDetached,
}

/// Whether memory of this space belongs to a context and dies with it. Physical handles, pools and reserved
/// addresses outlive a context (measured on driver 580; the first two are also what the manual says).
pub const fn owned_by_context(space: Space) -> bool {
    match space {
        Space::Device | Space::Managed | Space::Host | Space::Registered => true,
        Space::Physical | Space::Pool | Space::Virtual => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(call: HookId) -> Record {
        Record {
            sequence: 7,
            at_ns: 8,
            call: call as u16,
            result: 0,
            address: 0x7f00_0000_1000,
            size: 4096,
            a: 1,
            b: 2,
            thread: 3,
            stack: 4,
            context: 5,
            phase: 6,
            device: 1,
            flags: 0,
        }
    }

    /// The two directions are written by hand; a field left out of one of them would be silently zero.
    #[test]
    fn what_is_encoded_is_decoded() {
        let record = record(HookId::cuMemAlloc_v2);
        let bytes = record.encode(slot::committed(9));
        assert_eq!(state(&bytes), slot::committed(9));
        assert_eq!(Record::decode(7, &bytes), record);
    }

    #[test]
    fn a_refused_allocation_is_no_memory() {
        let refused = Record {
            result: 2,
            ..record(HookId::cuMemAlloc_v2)
        };
        assert_eq!(refused.effect(), Effect::Nothing);
        assert!(refused.failed());
    }

    #[test]
    fn a_nested_allocation_is_not_counted_twice() {
        let nested = Record {
            flags: slot::NESTED,
            ..record(HookId::cuMemAlloc_v2)
        };
        assert_eq!(nested.effect(), Effect::Nothing);
    }

    #[test]
    fn freeing_nothing_ends_nothing() {
        let free = Record {
            address: 0,
            result: slot::RESULT_PENDING,
            ..record(HookId::cuMemFree_v2)
        };
        assert_eq!(free.effect(), Effect::Nothing);
    }

    #[test]
    fn a_call_of_a_later_version_is_unknown() {
        let later = Record {
            call: 60_000,
            ..record(HookId::cuInit)
        };
        assert_eq!(later.effect(), Effect::Unknown);
    }
}
