//! The ledger as JSON, for tests that ask an independent witness.

use std::ffi::{c_char, c_int};
use std::{env, fs};

use serde_json::{Value, json};

use crate::entry::{counts, ledger};

/// Everything that is alive, by device, with the calls that were made.
fn document() -> Value {
    let ledger = ledger();
    let devices: Vec<Value> = ledger
        .devices
        .iter()
        .enumerate()
        .map(|(ordinal, device)| {
            let contexts: Vec<Value> = ledger
                .contexts
                .iter()
                .filter(|(_, context)| context.device == ordinal)
                .map(|(handle, context)| {
                    let references = if context.is_primary { device.primary_references } else { context.references };
                    json!({ "handle": format!("{handle:#x}"), "primary": context.is_primary, "references": references })
                })
                .collect();
            let objects: Vec<Value> = ledger
                .objects
                .iter()
                .chain(&ledger.registered)
                .filter(|(_, object)| object.device == ordinal)
                .map(|(address, object)| {
                    json!({ "address": format!("{address:#x}"), "kind": object.kind.name(), "size": object.size,
                        "context": format!("{:#x}", object.context) })
                })
                .collect();
            let physical: Vec<Value> = ledger
                .physical
                .iter()
                .filter(|(_, physical)| physical.device == Some(ordinal))
                .map(|(handle, physical)| json!({ "handle": format!("{handle:#x}"), "size": physical.size, "mappings": physical.mappings }))
                .collect();
            json!({ "ordinal": ordinal, "used": device.used, "contexts": contexts, "objects": objects, "physical": physical })
        })
        .collect();
    let reserved: u64 = ledger.reservations.values().sum();
    drop(ledger);
    let calls: Value = counts()
        .iter()
        .map(|(name, count)| {
            (
                (*name).to_owned(),
                json!({ "calls": count.calls, "failed": count.failed }),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({ "devices": devices, "reserved": reserved, "calls": calls })
}

/// `STANDIN_LEDGER=PATH`: the books at exit.
pub(crate) fn at_exit() {
    if let Some(path) = env::var_os("STANDIN_LEDGER") {
        // A test that asked for it sees that it is missing.
        let _ = fs::write(path, document().to_string());
    }
}

/// Copies the books as JSON into a buffer; the length that they need, with the NUL.
///
/// # Safety
/// `buffer` is null or has `len` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn standin_ledger_json(buffer: *mut c_char, len: usize) -> c_int {
    let text = document().to_string();
    if !buffer.is_null() && len > 0 {
        let fits = text.len().min(len - 1);
        // SAFETY: the caller's promise; `fits` is less than `len`.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), fits) };
        // SAFETY: as above.
        unsafe { *buffer.wrapping_add(fits) = 0 };
    }
    c_int::try_from(text.len() + 1).unwrap_or(c_int::MAX)
}

/// Bytes in use on a device, -1 for one that is not there.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) extern "C" fn standin_used_bytes(device: c_int) -> i64 {
    let ledger = ledger();
    ledger
        .device(device)
        .map_or(-1, |device| ledger.devices[device].used as i64)
}
