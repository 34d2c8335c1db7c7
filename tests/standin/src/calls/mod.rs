//! The driver calls, by what they are about.

mod arrays;
mod contexts;
mod devices;
mod graphics;
mod graphs;
mod lookups;
mod managed;
mod memory;
mod modules;
mod pools;
mod sharing;
mod streams;
mod virtual_memory;

pub(crate) use arrays::*;
pub(crate) use contexts::*;
pub(crate) use devices::*;
pub(crate) use graphics::*;
pub(crate) use graphs::*;
pub(crate) use lookups::*;
pub(crate) use managed::*;
pub(crate) use memory::*;
pub(crate) use modules::*;
pub(crate) use pools::*;
pub(crate) use sharing::*;
pub(crate) use streams::*;
pub(crate) use virtual_memory::*;
