//! The driver calls, by what they are about.

mod contexts;
mod devices;
mod lookups;
mod memory;
mod pools;
mod streams;
mod virtual_memory;

pub(crate) use contexts::*;
pub(crate) use devices::*;
pub(crate) use lookups::*;
pub(crate) use memory::*;
pub(crate) use pools::*;
pub(crate) use virtual_memory::*;
