//! The reader over captures made by hand from FORMAT.md: what it says of good ones, and that nothing makes it panic.

use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use gpushim_reader::capture::Capture;
use gpushim_reader::error::{Damage, Error};
use gpushim_reader::report::{self, Options, Process};

#[allow(dead_code, reason = "each test uses its part")]
mod native;

use native::Folder;
use native::synthesis::{Slot, Synthesis, alloc, at, free, program};

fn write(folder: &Folder, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join("made.gpushim");
    fs::write(&path, bytes).expect("the folder is writable");
    path
}

fn read(made: &Synthesis) -> Process {
    read_at(made, None)
}

fn read_at(made: &Synthesis, at_seconds: Option<f64>) -> Process {
    let folder = Folder::new();
    let capture = Capture::open(&write(&folder, &made.bytes())).expect("it is a capture");
    let options = Options {
        at_seconds,
        ..Options::default()
    };
    report::process(&capture, &options).expect("it can be read")
}

const MIB: u64 = 1 << 20;

#[test]
fn what_is_alive_is_what_was_not_given_back() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, 20 * MIB))
        .record(alloc(300, 0x7f00_0200_0000, 4 * MIB))
        .record(free(400, 0x7f00_0000_0000))
        .record(alloc(500, 0x7f00_0400_0000, 4 * MIB));
    let process = read(&made);
    assert!(process.exact);
    assert_eq!(process.command, ["python3", "train.py"]);
    let device = &process.devices[0];
    assert_eq!((device.live_bytes, device.peak_bytes), (8 * MIB, 24 * MIB));
    assert!((device.peak_seconds - 0.3).abs() < 1e-9);
    assert_eq!((device.allocations, device.frees), (3, 1));
    assert_eq!(device.uuid, "GPU-1862889f-3233-3435-3637-383930616263");
    assert_eq!(process.alive.len(), 1);
    let group = &process.alive[0];
    assert_eq!(
        (group.count, group.size, group.bytes),
        (2, 4 * MIB, 8 * MIB)
    );
    assert_eq!(group.caller, "libcudart.so.13+0x1234");
    assert_eq!(device.contexts.len(), 1);
    assert_eq!(device.contexts[0].references, 1);
}

/// The peak and the state at an earlier moment are asked for when the end says nothing.
#[test]
fn the_state_at_an_earlier_moment() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, 20 * MIB))
        .record(free(400, 0x7f00_0000_0000));
    let process = read_at(&made, Some(0.3));
    assert!(process.earlier);
    assert_eq!(process.devices[0].live_bytes, 20 * MIB);
    assert_eq!(read(&made).devices[0].live_bytes, 0);
}

/// The driver refused the free: the memory is alive, and the refusal is listed.
#[test]
fn a_refused_free_frees_nothing() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, 20 * MIB))
        .record(free(300, 0x7f00_0000_0000))
        .record(Slot {
            result: 700,
            flags: 1,
            a: 3 + 1,
            ..free(301, 0x7f00_0000_0000)
        });
    let process = read(&made);
    assert_eq!(process.devices[0].live_bytes, 20 * MIB);
    assert_eq!(process.failures.len(), 1);
    assert_eq!(
        (
            process.failures[0].result,
            process.failures[0].name.as_str()
        ),
        (700, "ILLEGAL_ADDRESS")
    );
}

/// Every exit makes calls after the driver has shut down: they are not failures of the program.
#[test]
fn calls_after_the_shutdown_are_no_failures_and_free_nothing() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, MIB))
        .record(Slot {
            result: 0xffff,
            device: 0,
            ..at(29, 300)
        })
        .record(Slot {
            result: 4,
            flags: 1,
            a: 3 + 1,
            device: 0,
            ..at(29, 301)
        });
    let process = read(&made);
    assert!(process.failures.is_empty());
    assert_eq!(process.records.after_shutdown, 1);
    assert_eq!(process.devices[0].live_bytes, MIB);
    assert_eq!(process.devices[0].contexts[0].ended_by, None);
}

#[test]
fn memory_dies_with_its_context_but_physical_handles_and_pools_do_not() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, 4 * MIB))
        .record(Slot {
            address: 0xaaaa,
            size: 2 * MIB,
            b: 1,
            device: 0,
            ..at(24, 210)
        })
        .record(Slot {
            address: 0x7f00_1000_0000,
            size: MIB,
            device: 0,
            ..at(16, 220)
        })
        .record(Slot {
            address: 0x5000,
            size: 4096,
            device: 0,
            ..at(11, 230)
        })
        .record(Slot {
            result: 0xffff,
            device: 0,
            ..at(31, 300)
        });
    let process = read(&made);
    let device = &process.devices[0];
    assert_eq!(
        (
            device.linear_bytes,
            device.physical_bytes,
            device.pool_bytes
        ),
        (0, 2 * MIB, MIB)
    );
    assert_eq!(device.live_bytes, 2 * MIB);
    assert_eq!(process.host_memory.pinned_bytes, 0);
    assert_eq!(device.contexts[0].ended_by, Some("reset"));
}

#[test]
fn a_primary_context_ends_with_its_last_reference() {
    let retain = |ms| Slot {
        address: 0xc0de,
        device: 0,
        context: 0xffff,
        ..at(28, ms)
    };
    let release = |ms| Slot {
        result: 0xffff,
        device: 0,
        ..at(30, ms)
    };
    let mut made = program();
    made.record(retain(150))
        .record(alloc(200, 0x7f00_0000_0000, 4 * MIB))
        .record(release(300));
    let process = read(&made);
    assert_eq!(process.devices[0].live_bytes, 4 * MIB);
    assert_eq!(process.devices[0].contexts[0].references, 1);
    made.record(release(400))
        .record(retain(500))
        .record(alloc(600, 0x7f00_0000_0000, MIB));
    let process = read(&made);
    // The handle was handed out again: another life, with memory of its own.
    assert_eq!(process.devices[0].contexts.len(), 2);
    assert_eq!(process.devices[0].contexts[0].ended_by, Some("released"));
    assert_eq!(process.devices[0].live_bytes, MIB);
}

/// Release while mapped frees nothing; the unmapping does.
#[test]
fn physical_memory_is_held_by_its_mappings() {
    let mut made = program();
    made.record(Slot {
        address: 0x1_0000_0000,
        size: 64 * MIB,
        ..at(22, 200)
    })
    .record(Slot {
        address: 0xaaaa,
        size: 2 * MIB,
        b: 1,
        device: 0,
        ..at(24, 210)
    })
    .record(Slot {
        address: 0x1_0000_0000,
        size: 2 * MIB,
        a: 0xaaaa,
        ..at(26, 220)
    })
    .record(Slot {
        address: 0xaaaa,
        result: 0xffff,
        ..at(25, 230)
    });
    let process = read(&made);
    assert_eq!(process.devices[0].physical_bytes, 2 * MIB);
    assert_eq!(process.devices[0].mapped_bytes, 2 * MIB);
    assert_eq!(process.host_memory.reserved_bytes, 64 * MIB);
    made.record(Slot {
        address: 0x1_0000_0000,
        size: 64 * MIB,
        result: 0xffff,
        ..at(27, 240)
    });
    let process = read(&made);
    assert_eq!(process.devices[0].physical_bytes, 0);
}

/// Unlike things are never added up.
#[test]
fn spaces_have_columns_of_their_own() {
    let mut made = program();
    made.record(alloc(200, 0x7f00_0000_0000, MIB))
        .record(Slot {
            address: 0x7f10_0000_0000,
            size: 3 * MIB,
            device: 0,
            ..at(8, 210)
        })
        .record(Slot {
            address: 0x7f20_0000_0000,
            size: 5 * MIB,
            device: 0,
            ..at(18, 220)
        })
        .record(Slot {
            address: 0x5000,
            size: 7 * MIB,
            device: 0,
            ..at(11, 230)
        })
        .record(Slot {
            address: 0x9000,
            size: 9 * MIB,
            device: 0,
            ..at(14, 240)
        })
        // Physical memory on the host.
        .record(Slot {
            address: 0xbbbb,
            size: 2 * MIB,
            b: 2,
            ..at(24, 250)
        });
    let process = read(&made);
    let device = &process.devices[0];
    assert_eq!(device.live_bytes, MIB);
    assert_eq!(
        (device.managed_bytes, device.pool_bytes),
        (3 * MIB, 5 * MIB)
    );
    let host = &process.host_memory;
    assert_eq!(
        (
            host.pinned_bytes,
            host.registered_bytes,
            host.physical_bytes
        ),
        (7 * MIB, 9 * MIB, 2 * MIB)
    );
}

#[test]
fn nested_calls_count_once() {
    let mut made = program();
    made.record(Slot {
        flags: 2,
        ..alloc(200, 0x7f00_0000_0000, MIB)
    })
    .record(alloc(201, 0x7f00_0000_0000, MIB));
    let process = read(&made);
    assert_eq!(process.devices[0].live_bytes, MIB);
    assert_eq!(
        (process.records.nested, process.records.reused_addresses),
        (1, 0)
    );
}

/// Three laps of a small ring: the newest records are read, the loss is exact, and the report does not claim to be.
#[test]
fn overwritten_records_are_counted_exactly() {
    let mut made = program();
    made.slots = 64;
    for n in 0..150 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let process = read(&made);
    assert_eq!(
        (
            process.records.total,
            process.records.overwritten,
            process.records.read
        ),
        (152, 88, 64)
    );
    assert!(!process.exact);
    assert_eq!(process.devices[0].live_bytes, 64 * MIB);
    // A context that was made before the oldest record is not invented a creator.
    assert_eq!(process.devices[0].contexts[0].origin, "unseen");
}

#[test]
fn a_frozen_ring_wraps_at_its_own_length() {
    let mut made = program();
    (made.slots, made.frozen) = (64, 16);
    for n in 0..30 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let process = read(&made);
    assert_eq!((process.records.total, process.records.read), (32, 16));
    assert!(process.records.frozen);
}

#[test]
fn holes_and_dropped_records_are_told_apart() {
    let mut made = program();
    made.hole(alloc(200, 1, MIB))
        .dropped()
        .record(alloc(300, 0x7f00_0000_0000, MIB));
    made.counters[0] = 1;
    let process = read(&made);
    assert_eq!(
        (
            process.records.holes,
            process.records.dropped,
            process.records.read
        ),
        (1, 1, 3)
    );
    assert!(!process.exact);
    assert_eq!(process.devices[0].live_bytes, MIB);
}

#[test]
fn a_later_shims_calls_are_counted_and_not_guessed_at() {
    let mut made = program();
    made.record(Slot {
        address: 1,
        size: MIB,
        device: 0,
        ..at(60_000, 200)
    });
    let process = read(&made);
    assert_eq!(process.records.unknown_calls, 1);
    assert!(!process.exact);
}

#[test]
fn the_call_in_flight_of_a_dead_process_is_named() {
    let mut made = program();
    made.clean_exit = 0;
    let process = read(&made);
    let call = &process.in_flight[0];
    assert_eq!(
        (call.call.as_str(), call.size, call.thread),
        ("cuMemAlloc_v2", 1 << 30, 501)
    );
}

fn refusal(bytes: &[u8]) -> Damage {
    let folder = Folder::new();
    match Capture::open(&write(&folder, bytes)) {
        Err(Error::Capture { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_files_are_refused_with_their_reason() {
    assert_eq!(refusal(b""), Damage::Empty);
    assert!(matches!(refusal(b"\x7fELF and so on"), Damage::Foreign(why) if why.contains("ELF")));
    assert!(matches!(refusal(b"{\"a\": 1}"), Damage::Foreign(why) if why.contains("JSON")));
    assert!(matches!(refusal(&[0; 5000]), Damage::Foreign(why) if why.contains("zeros")));
    assert!(matches!(refusal(b"gpu"), Damage::Truncated { .. }));
    let newer = Synthesis {
        version: 2,
        ..program()
    };
    assert_eq!(refusal(&newer.bytes()), Damage::Newer(2));
    let unfinished = Synthesis {
        complete: false,
        ..program()
    };
    assert_eq!(refusal(&unfinished.bytes()), Damage::Incomplete);
    let mut odd = program().bytes();
    odd[2112] = 3;
    assert!(matches!(refusal(&odd), Damage::Field { .. }));
}

/// Numbers that promise more than the file has must not be walked one by one.
#[test]
fn a_ring_that_claims_to_be_endless_is_read_at_once() {
    let mut bytes = program().bytes();
    let reserved = 512 + 7 * 64 + 16;
    bytes[reserved..reserved + 8].copy_from_slice(&(1_u64 << 62).to_le_bytes());
    bytes[2048..2056].copy_from_slice(&u64::MAX.to_le_bytes());
    let folder = Folder::new();
    let capture = Capture::open(&write(&folder, &bytes)).expect("it is a capture");
    let process = report::process(&capture, &Options::default()).expect("it can be read");
    assert!(!process.exact);
    assert_eq!(process.records.total, u64::MAX);
}

/// Reads a capture as far as it goes; a panic is the test's failure.
fn survive(path: &PathBuf) -> bool {
    catch_unwind(|| {
        Capture::open(path)
            .and_then(|capture| report::process(&capture, &Options::default()))
            .is_ok()
    })
    .unwrap_or_else(|_| panic!("the reader panicked over {}", path.display()))
}

#[test]
fn no_truncation_makes_it_panic() {
    let folder = Folder::new();
    let mut made = program();
    for n in 0..100 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let bytes = made.bytes();
    let path = folder.path().join("cut.gpushim");
    for len in (0..bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..len]).expect("writable");
        survive(&path);
    }
}

/// Ten thousand captures with random damage, half of it in the header and the tables, where it hurts.
#[test]
fn no_corruption_makes_it_panic_or_swell() {
    let folder = Folder::new();
    let mut made = program();
    for n in 0..100 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB))
            .record(free(200 + n, 0x7f00_0000_0000 + n * 2 * MIB));
    }
    let good = made.bytes();
    let path = folder.path().join("damaged.gpushim");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut read = 0;
    for _ in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..=next() % 8 {
            let within = if next() % 2 == 0 {
                2200
            } else {
                bytes.len() as u64
            };
            let at = (next() % within) as usize;
            match next() % 3 {
                0 => bytes[at] ^= 1 << (next() % 8),
                1 => bytes[at] = 0xff,
                _ => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].fill(next() as u8);
                }
            }
        }
        fs::write(&path, &bytes).expect("writable");
        read += usize::from(survive(&path));
    }
    // Most damage costs an entry and not the report.
    assert!(read > 3_000, "{read}");
}
