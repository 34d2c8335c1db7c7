//! A CUDA driver for machines without a card.
//!
//! It computes nothing and keeps an exact ledger: what was allocated where, by rules and costs that were measured on a real card
//! (README.md). It shares the hook table with the recorder in one place only, a compile-time check that
//! every hooked call is implemented with the table's signature; everything that it *does* is its own.
#![allow(non_snake_case, reason = "functions carry the driver's own names")]
#![allow(non_camel_case_types, reason = "types carry the driver's own names")]
#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "unit tests export nothing, so most calls have no caller in them"
    )
)]

mod calls;
mod entry;
mod faults;
mod ledger;
mod proc_address;
mod report;

#[cfg(not(test))]
core::arch::global_asm!(include_str!(concat!(env!("OUT_DIR"), "/stubs.s")));

/// Every row of the hook table must be implemented with the row's own signature.
macro_rules! implemented {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) { $($rest:tt)* } )*) => { $(
        const _: unsafe extern "C" fn($($ty),*) -> gpushim_abi::hooks::CUresult = calls::$sym;
    )* };
}
#[allow(unused_imports, reason = "the table's types are named by its rows")]
mod check {
    use core::ffi::{c_int, c_uint, c_void};

    use gpushim_abi::hooks::*;

    use crate::calls;

    gpushim_abi::for_each_hook!(implemented);
}
