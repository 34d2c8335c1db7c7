//! The contract between the recorder (`shim/`) and the reader (`src/`).
//!
//! Three things live here, and both sides use them instead of describing them again:
//!
//! - [`for_each_hook!`] (`table.rs`): one row per driver call, in the words of [`hooks`]. Exports, look-ups, decoding, the
//!   stand-in driver's self-check and `docs/CALLS.md` are expansions of that table.
//! - [`layout`]: where each byte of a capture lies. `FORMAT.md` is the prose beside it.
//! - [`effect`]: what a record does to memory and to contexts. The reader applies effects to its
//!   tables today; a fold inside the recorder can apply the same ones later, so the two cannot disagree.
//!
//! - [`events`]: records that are no driver calls.
//!
//! The crate is `no_std`, has no dependency and no unsafe code.
#![no_std]
#![forbid(unsafe_code)]

pub mod effect;
pub mod events;
pub mod hooks;
pub mod layout;
mod table;
