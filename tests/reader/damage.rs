//! Captures that are cut, corrupted, or none: a reason or a report, never a panic.

use std::panic::catch_unwind;
use std::path::Path;
use std::{fs, io};

use gpushim_reader::capture::Capture;
use gpushim_reader::error::{Damage, Error};
use gpushim_reader::report::{self, Options};

use super::support::Folder;
use super::support::capture::{Synthesis, alloc, free, program};
use super::{MIB, write};

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
    let process = report::read(&capture, &Options::default())
        .expect("it can be read")
        .process;
    assert!(!process.exact);
    assert_eq!(process.records.total, u64::MAX);
}

/// Reads a capture as far as it goes; a panic is the test's failure.
fn survive(path: &Path) -> bool {
    catch_unwind(|| {
        Capture::open(path)
            .and_then(|capture| report::read(&capture, &Options::default()))
            .and_then(|process| {
                report::text::write(&mut io::sink(), &[process.process], true, 80)?;
                Ok(())
            })
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
    fs::write(&path, &bytes).expect("writable");
    let file = fs::File::options()
        .write(true)
        .open(&path)
        .expect("writable");
    for len in (0..bytes.len()).rev() {
        file.set_len(len as u64).expect("writable");
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
