//! Records that are no driver calls: PyTorch's blocks, and what a program says of its own phases.
//!
//! They share the ring, the order and the stacks with the calls; their ids begin where no row's id can be.

/// What a record says that is no driver call. The words of a slot mean what the variant's comment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
pub enum Event {
    /// PyTorch's caching allocator handed a block out: `address`, `size` of the block; `a` bytes allocated and `b` bytes reserved on the
    /// device afterwards, as the allocator counts them.
    BlockAllocated = 0x8001,
    /// It took a block back: likewise.
    BlockFreed = 0x8002,
    /// It had no memory: `size` asked for; `a` and `b` likewise.
    BlockRefused = 0x8003,
    /// A moment: `a` refers to its text, `b` to its domain's.
    Mark = 0x8010,
    /// A range of this thread begins, inside the one before: likewise.
    RangePushed = 0x8011,
    /// This thread's last range ends: `b` likewise.
    RangePopped = 0x8012,
    /// A range of the process begins: `address` is its id; `a` and `b` likewise.
    RangeStarted = 0x8013,
    /// It ends: `address` likewise.
    RangeEnded = 0x8014,
}

impl Event {
    /// Every event.
    pub const ALL: [Self; 8] = [
        Self::BlockAllocated,
        Self::BlockFreed,
        Self::BlockRefused,
        Self::Mark,
        Self::RangePushed,
        Self::RangePopped,
        Self::RangeStarted,
        Self::RangeEnded,
    ];

    /// The event with this id.
    pub fn from_raw(call: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|event| *event as u16 == call)
    }

    /// What a person calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockAllocated => "torch block",
            Self::BlockFreed => "torch block freed",
            Self::BlockRefused => "torch out of memory",
            Self::Mark => "mark",
            Self::RangePushed => "range push",
            Self::RangePopped => "range pop",
            Self::RangeStarted => "range start",
            Self::RangeEnded => "range end",
        }
    }

    /// Whether it is about a block of PyTorch's.
    pub const fn is_block(self) -> bool {
        matches!(
            self,
            Self::BlockAllocated | Self::BlockFreed | Self::BlockRefused
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::HOOKS;

    /// An id that two things share would make one of them out of the other.
    #[test]
    fn no_event_has_a_calls_id() {
        for event in Event::ALL {
            assert_eq!(Event::from_raw(event as u16), Some(event));
            assert!(HOOKS.iter().all(|hook| hook.id as u16 != event as u16));
        }
    }
}
