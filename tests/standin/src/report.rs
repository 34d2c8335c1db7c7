//! The ledger as JSON, for tests that ask an independent witness.

use std::ffi::{c_char, c_int};
use std::{env, fs};

use serde_json::{Value, json};

use crate::entry::{counts, ledger};

/// Everything that is alive, by device, with the calls that were made.
fn document() -> Value {
    let mut ledger = ledger();
    // Descriptors may have been closed, which no call says.
    ledger.settle_all();
    let hex = |handle: &u64| format!("{handle:#x}");
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
                    let references = if context.is_primary {
                        device.primary_references
                    } else {
                        context.references
                    };
                    json!({ "handle": hex(handle), "primary": context.is_primary, "references": references,
                        "stack": context.stack, "stack_bytes": context.stack_bytes })
                })
                .collect();
            let objects: Vec<Value> = ledger
                .objects
                .iter()
                .chain(&ledger.registered)
                .filter(|(_, object)| object.device == ordinal)
                .map(|(address, object)| {
                    json!({ "address": hex(address), "kind": object.kind.name(), "size": object.size,
                        "context": hex(&object.context), "owner": hex(&object.owner), "held": object.held })
                })
                .collect();
            let pools: Vec<Value> = ledger
                .pools
                .iter()
                .filter(|(_, pool)| pool.device == ordinal)
                .map(|(handle, pool)| {
                    json!({ "handle": hex(handle), "reserved": pool.reserved, "used": pool.used,
                        "destroyed": pool.is_destroyed, "imported": pool.is_imported,
                        "default": *handle == device.default_pool, "current": *handle == device.current_pool })
                })
                .collect();
            json!({ "ordinal": ordinal, "used": device.used, "contexts": contexts, "objects": objects, "pools": pools,
                "graphs_reserved": device.graphs_reserved, "primary_references": device.primary_references })
        })
        .collect();
    let physical: Vec<Value> = ledger
        .physical
        .iter()
        .map(|(handle, physical)| {
            json!({ "handle": hex(handle), "size": physical.size, "device": physical.device,
                "references": physical.references, "mappings": physical.mappings, "bindings": physical.bindings,
                "exports": physical.exports.len(), "alias_of": hex(&physical.alias_of), "imported": physical.is_imported, "multicast": physical.is_multicast })
        })
        .collect();
    let mappings: Vec<Value> = ledger
        .mappings
        .iter()
        .map(|(address, (size, handle))| json!({ "address": hex(address), "size": size, "handle": hex(handle) }))
        .collect();
    let reservations: Vec<Value> = ledger
        .reservations
        .iter()
        .map(|(address, size)| json!({ "address": hex(address), "size": size }))
        .collect();
    let handles = |keys: Vec<&u64>| keys.into_iter().map(hex).collect::<Vec<String>>();
    // A graph that a capture is still making is nobody's yet.
    let making: Vec<u64> = ledger
        .captures
        .values()
        .filter(|capture| capture.makes_graph)
        .map(|capture| capture.graph)
        .collect();
    let (graphs, execs) = (
        handles(
            ledger
                .graphs
                .keys()
                .filter(|graph| !making.contains(graph))
                .collect(),
        ),
        handles(ledger.execs.keys().collect()),
    );
    let reserved: u64 = ledger.reservations.values().sum();
    let captures = ledger.captures.len();
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
    json!({ "devices": devices, "physical": physical, "mappings": mappings, "reservations": reservations, "reserved": reserved,
        "graphs": graphs, "execs": execs, "captures": captures, "calls": calls })
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
    let mut ledger = ledger();
    ledger.settle_all();
    ledger
        .device(device)
        .map_or(-1, |device| ledger.devices[device].used as i64)
}
