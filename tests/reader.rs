//! The reader over captures made by hand from FORMAT.md: what it says of good ones, and that nothing makes it panic.

use std::fs;
use std::path::PathBuf;

use gpushim_reader::capture::Capture;
use gpushim_reader::report::moment::Moment;
use gpushim_reader::report::{self, Options, Process};

#[allow(dead_code, reason = "each test uses its part")]
mod support;

#[path = "reader/damage.rs"]
mod damage;

use support::Folder;
use support::capture::{Slot, Synthesis, alloc, at, free, program};

fn write(folder: &Folder, bytes: &[u8]) -> PathBuf {
    folder.put("made.gpushim", bytes)
}

fn read(made: &Synthesis) -> Process {
    read_at(made, None)
}

fn read_at(made: &Synthesis, at_seconds: Option<f64>) -> Process {
    let folder = Folder::new();
    let capture = Capture::open(&write(&folder, &made.bytes())).expect("it is a capture");
    let options = Options {
        at: at_seconds.map(Moment::Seconds),
        ..Options::default()
    };
    report::read(&capture, &options)
        .expect("it can be read")
        .process
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

/// Two threads can leave two nodes of the same stack, and one site can be reached by several: it stays one site.
#[test]
fn the_same_site_by_several_stacks_is_one_group() {
    let mut made = program();
    made.stacks.push((0x7000_1234, 2));
    for n in 0..5 {
        made.record(Slot {
            stack: if n % 2 == 0 { 1 } else { 3 },
            ..alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB)
        });
    }
    let process = read(&made);
    assert_eq!(process.alive.len(), 1);
    let group = &process.alive[0];
    assert_eq!((group.count, group.bytes), (5, 5 * MIB));
    assert!((group.first_seconds - 0.2).abs() < 1e-9 && (group.last_seconds - 0.204).abs() < 1e-9);
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
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
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
    // A pool holds at least what is out.
    assert_eq!(device.live_bytes, 3 * MIB);
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
    // What the device is charged for: the pool, not the block, and no managed memory.
    assert_eq!(device.live_bytes, MIB + 5 * MIB);
    assert_eq!(
        (
            device.managed_bytes,
            device.pool_bytes,
            device.pool_reserved_bytes
        ),
        (3 * MIB, 5 * MIB, 5 * MIB)
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

/// Every number that was given out is in one class, whatever happened to it.
#[test]
fn the_classes_of_records_add_up() {
    for (slots, dropped) in [(64, 0), (64, 3), (16, 0), (16, 3)] {
        let mut made = program();
        made.slots = slots;
        for n in 0..10 {
            made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
        }
        made.hole(alloc(300, 1, MIB));
        for n in 0..10 {
            // Two were given up; the third was given out and its thread died before it could claim a slot.
            if n % 4 == 0 {
                made.dropped();
            }
            made.record(alloc(300 + n, 0x7f10_0000_0000 + n * 2 * MIB, MIB));
        }
        made.counters[0] = dropped.min(2);
        let process = read(&made);
        let records = &process.records;
        assert_eq!(
            records.read + records.overwritten + records.holes + records.dropped,
            records.total
        );
        assert_eq!(records.total, made.records.len() as u64);
        if slots == 64 {
            assert_eq!(records.dropped, dropped.min(2));
            assert_eq!(records.holes, 4 - dropped.min(2));
            // A record that was never finished is no reason to doubt those that were.
            assert_eq!(process.exact, dropped == 0);
        }
    }
}

/// The shim's counters also count what was overwritten since: they must not make what is missing more than it is.
#[test]
fn counters_never_count_records_that_are_there() {
    let mut made = program();
    made.dropped().record(alloc(300, 0x7f00_0000_0000, MIB));
    made.counters[1] = 1_000;
    let process = read(&made);
    assert_eq!((process.records.dropped, process.records.read), (1, 3));
    assert!(process.losses[0].contains("no more space"));
}

#[test]
fn a_ring_that_is_cut_off_is_read_as_far_as_it_goes() {
    let mut made = program();
    for n in 0..50 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let bytes = made.bytes();
    let folder = Folder::new();
    let capture =
        Capture::open(&write(&folder, &bytes[..bytes.len() - 30 * 64])).expect("it is a capture");
    let process = report::read(&capture, &Options::default())
        .expect("it can be read")
        .process;
    assert_eq!((process.records.read, process.records.cut_off), (34, 18));
    assert!(!process.exact);
}

/// A ring that is written while it is read: numbers below the second head less the ring's length may be torn.
#[test]
fn what_was_overwritten_while_it_was_read_is_not_believed() {
    const SLOTS: u64 = 1 << 17;
    const MORE: u64 = 40_000;
    let mut made = program();
    made.slots = SLOTS as usize;
    for n in 2..SLOTS {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let folder = Folder::new();
    let path = write(&folder, &made.bytes());
    for n in 0..MORE {
        made.record(alloc(300 + n, 0x7f10_0000_0000 + n * 2 * MIB, MIB));
    }
    let later = made.bytes();
    let capture = Capture::open(&path).expect("it is a capture");
    let mut read = Vec::new();
    let tally = capture
        .records(|record| {
            // The program runs on as soon as the first record was looked at: the ring comes round.
            if read.is_empty() {
                fs::write(&path, &later).expect("writable");
            }
            read.push(record.sequence);
        })
        .expect("it can be read");
    assert_eq!(tally.total, SLOTS);
    assert_eq!(tally.read + tally.overwritten, SLOTS);
    // What had been read by then is believed, and nothing of what was overwritten since.
    let kept = read.iter().take_while(|n| **n < MORE).count() as u64;
    assert_eq!(tally.overwritten, MORE - kept);
    assert!(
        kept < MORE
            && read[kept as usize..]
                .iter()
                .eq(&(MORE..SLOTS).collect::<Vec<u64>>())
    );
}

/// A short ring can come round more often than it is read: it is copied, and read as it was at that moment.
#[test]
fn a_short_ring_is_read_as_it_was_at_one_moment() {
    let mut made = program();
    made.slots = 16;
    for n in 0..14 {
        made.record(alloc(200 + n, 0x7f00_0000_0000 + n * 2 * MIB, MIB));
    }
    let folder = Folder::new();
    let path = write(&folder, &made.bytes());
    let capture = Capture::open(&path).expect("it is a capture");
    for n in 0..5 {
        made.record(alloc(300 + n, 0x7f10_0000_0000 + n * 2 * MIB, MIB));
    }
    let later = made.bytes();
    fs::write(&path, &later).expect("writable");
    let mut read = Vec::new();
    let tally = capture
        .records(|record| {
            fs::write(&path, vec![0; later.len()]).expect("writable");
            read.push(record.sequence);
        })
        .expect("it can be read");
    assert_eq!(read, (5..21).collect::<Vec<u64>>());
    assert_eq!((tally.overwritten, tally.read, tally.total), (5, 16, 21));
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

/// Contexts, frees and addresses that are used again, by chance, against a model that has nothing but a list.
#[test]
fn the_books_agree_with_a_list() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut made = Synthesis {
        slots: 1 << 15,
        contexts: (0..8).map(|n| (n % 2, 0xc000 + u64::from(n))).collect(),
        devices: vec![support::capture::H200; 2],
        ..program()
    };
    // Address, size, context.
    let mut alive: Vec<(u64, u64, u16)> = Vec::new();
    let mut peak = [0, 0];
    for step in 0..30_000 {
        let context = next(8) as u16;
        match next(100) {
            0..=54 => {
                let address = 0x7f00_0000_0000 + next(4_000) * 2 * MIB;
                if alive.iter().any(|(held, ..)| *held == address) {
                    continue;
                }
                let size = 1 + next(3 * MIB);
                alive.push((address, size, context));
                made.record(Slot {
                    context,
                    device: (context % 2) as u8,
                    ..alloc(200 + step, address, size)
                });
            }
            55..=98 if !alive.is_empty() => {
                let at = next(alive.len() as u64) as usize;
                let (address, ..) = alive.swap_remove(at);
                made.record(free(200 + step, address));
            }
            _ => {
                alive.retain(|(.., owner)| *owner != context);
                made.record(Slot {
                    address: 0xc000 + u64::from(context),
                    result: 0xffff,
                    ..at(38, 200 + step)
                });
            }
        }
        for (device, peak) in peak.iter_mut().enumerate() {
            let here = alive.iter().filter(|a| usize::from(a.2 % 2) == device);
            *peak = here.map(|a| a.1).sum::<u64>().max(*peak);
        }
    }
    let process = read(&made);
    assert!(process.exact);
    assert_eq!(process.records.unknown_frees, 0);
    for (device, peak) in process.devices.iter().zip(peak) {
        let here: Vec<_> = alive
            .iter()
            .filter(|a| a.2 % 2 == u16::from(device.ordinal))
            .collect();
        assert_eq!(device.linear_count, here.len() as u64);
        assert_eq!(device.live_bytes, here.iter().map(|a| a.1).sum::<u64>());
        assert_eq!(device.peak_bytes, peak);
    }
    assert!(!alive.is_empty());
}
