//! Where the library's atomics come from, in one place, so that a model checker's can stand in for them.

pub(crate) use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
