//! Input that is bad, missing or damaged, and output that nobody wants any more.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::support::capture::{Synthesis, alloc, program};
use super::support::{Answer, Folder};
use super::{MIB, X, killed, training};

/// Bad input: what, where and why on standard error, nothing on standard output, status 2.
#[test]
fn bad_input_is_an_error_that_says_what_and_where() {
    let folder = Folder::new();
    let good = program().bytes();
    let newer = Synthesis {
        version: 7,
        ..program()
    };
    let unfinished = Synthesis {
        complete: false,
        ..program()
    };
    let mut no_ring = good.clone();
    no_ring[512 + 7 * 64] = 0;
    let mut odd_ring = good.clone();
    odd_ring[512 + 7 * 64 + 16] = 3;
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty.gpushim", b"", "the file is empty"),
        (
            "elf.gpushim",
            b"\x7fELF\x02\x01",
            "not a capture: it is an ELF",
        ),
        (
            "snapshot.pickle",
            b"\x80\x05\x95",
            "PyTorch memory snapshot",
        ),
        ("notes.txt", b"hello", "does not begin with"),
        ("zeros.gpushim", &[0; 8192], "only zeros"),
        (
            "head.gpushim",
            &good[..2000],
            "the header needs 4096 bytes and the file has 2000",
        ),
        ("tables.gpushim", &good[..9000], "cut off: a table needs"),
        (
            "newer.gpushim",
            &newer.bytes(),
            "format version 7, this gpushim reads up to 1",
        ),
        ("unfinished.gpushim", &unfinished.bytes(), "never completed"),
        ("no-ring.gpushim", &no_ring, "no ring"),
        ("odd-ring.gpushim", &odd_ring, "at offset 976 is 64"),
    ];
    for view in ["report", "timeline", "ls"] {
        let refuse = |argument: &str, why: &str| {
            let answer = Answer::of(&mut folder.gpushim([view, argument]));
            assert_eq!(answer.status, Some(2), "{view} {argument}: {answer:?}");
            assert_eq!(answer.stdout, "", "{view} {argument}");
            assert!(answer.stderr.starts_with("gpushim: "), "{answer:?}");
            assert!(answer.stderr.contains(argument), "{view}: {answer:?}");
            assert!(answer.stderr.contains(why), "{view} {argument}: {answer:?}");
        };
        for (name, bytes, why) in cases {
            folder.put(name, bytes);
            if *name == "odd-ring.gpushim" {
                continue;
            }
            refuse(name, why);
            fs::remove_file(folder.path().join(name)).expect("it is there");
        }
        refuse("nowhere.gpushim", "No such file");
        fs::create_dir_all(folder.path().join("others")).expect("writable");
        folder.put("others/readme.txt", b"hello");
        refuse("others", "one other file, none that ends in .gpushim");
        fs::create_dir_all(folder.path().join("none")).expect("writable");
        refuse("none", "it is empty");
    }
}

#[test]
fn nothing_recorded_yet_says_where_was_looked() {
    let folder = Folder::new();
    for view in ["report", "timeline", "ls"] {
        let nowhere = Answer::of(folder.gpushim([view]).env("GPUSHIM_DIR", "/nowhere/at/all"));
        assert_eq!(nowhere.status, Some(2));
        assert!(nowhere.stderr.contains("no capture in /nowhere/at/all"));
        assert!(nowhere.stderr.contains("gpushim run -- COMMAND"));
        let state = Answer::of(
            folder
                .gpushim([view])
                .env("GPUSHIM_DIR", "")
                .env("XDG_STATE_HOME", "/nowhere/state"),
        );
        assert!(state.stderr.contains("/nowhere/state/gpushim"), "{state:?}");
        let usual = Answer::of(folder.gpushim([view]).env_remove("GPUSHIM_DIR"));
        if usual.status == Some(2) {
            assert!(usual.stderr.contains("/tmp/gpushim-"), "{usual:?}");
        }
    }
}

/// A pipe has no end to wait for, a directory of that name no bytes, and what may not be read may not be read.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let folder = Folder::new();
    let pipe = folder.path().join("pipe.gpushim");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let answer = Answer::of(&mut folder.gpushim(["report", "pipe.gpushim"]));
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("is not a file"));
    fs::create_dir(folder.path().join("folder.gpushim")).expect("writable");
    let answer = Answer::of(&mut folder.gpushim(["report"]));
    assert_eq!(answer.status, Some(2), "{answer:?}");
    let secret = folder.capture("secret.gpushim", &program());
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).expect("it is ours");
    let answer = Answer::of(&mut folder.gpushim(["report", "secret.gpushim"]));
    // The superuser reads everything.
    if fs::read(&secret).is_err() {
        assert_eq!(answer.status, Some(2));
        assert!(answer.stderr.contains("Permission denied"));
    }
}

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    let folder = killed();
    for bad in [
        &["report", "--format", "xml"][..],
        &["report", "--at", "soon"],
        &["report", "--device", "9"],
        &["timeline", "--device", "9"],
        &["timeline", "--events", "-1"],
        &["run", "--size", "64MB", "--", "true"],
        &["run"],
        &["doctor", "--format", "csv"],
        &["frobnicate"],
        &[],
    ] {
        let answer = Answer::of(&mut folder.gpushim(bad));
        assert_eq!(answer.status, Some(2), "{bad:?}: {answer:?}");
        assert_eq!(answer.stdout, "", "{bad:?}");
        assert!(!answer.stderr.is_empty(), "{bad:?}");
    }
    for verb in ["run", "report", "timeline", "ls", "doctor", "demo"] {
        let help = folder.say([verb, "--help"]);
        assert!(help.contains("Usage: gpushim"), "{help}");
    }
    assert!(folder.say(["--help"]).contains("Exit status: 0 fine"));
}

/// `gpushim timeline --all | head -1` is no failure.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let mut made = program();
    made.slots = 1 << 15;
    for n in 0..30_000 {
        made.record(alloc(200 + n, X + n * 2 * MIB, MIB));
    }
    folder.capture("made.gpushim", &made);
    for arguments in [
        &["timeline", "--all"][..],
        &["timeline", "--format", "csv"],
        &["timeline", "--format", "json"],
        &["report", "--all", "--format", "json"],
    ] {
        let mut child = folder
            .gpushim(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut first = [0; 16];
        let mut out = child.stdout.take().expect("piped");
        out.read_exact(&mut first).expect("it prints");
        drop(out);
        let answer = Answer::from(child.wait_with_output().expect("it ends"));
        assert_eq!(
            (answer.status, answer.stderr.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

/// The whole command, not only the library: damage ends with 0 or 2 and a sentence, never with a panic or a signal.
#[test]
fn damage_never_ends_in_a_panic() {
    let folder = Folder::new();
    let good = training().bytes();
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..300 {
        let mut bytes = good.clone();
        if round % 3 == 0 {
            bytes.truncate(next(good.len()));
        } else {
            for _ in 0..=next(12) {
                let at = next(if round % 3 == 1 { 2200 } else { good.len() });
                bytes[at] = next(256) as u8;
            }
        }
        folder.put("damaged.gpushim", &bytes);
        let view = [
            &["report", "--all", "damaged.gpushim"][..],
            &["timeline", "--all", "damaged.gpushim"],
            &["ls", "damaged.gpushim"],
        ][next(3)];
        let answer = Answer::of(&mut folder.gpushim(view));
        assert!(
            matches!(answer.status, Some(0 | 2)) && !answer.stderr.contains("panicked"),
            "{answer:?}"
        );
        assert_eq!(
            answer.status == Some(2),
            answer.stdout.is_empty(),
            "{answer:?}"
        );
    }
}
