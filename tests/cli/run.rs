//! `gpushim run`: the command is what it would be without us.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::support::capture::{alloc, program};
use super::support::{Answer, Folder};
use super::{MIB, X, harmless};

fn run(folder: &Folder, command: &[&str]) -> Command {
    let mut run = folder.gpushim(["run", "--"]);
    run.args(command).env("GPUSHIM_LIB", harmless());
    run
}

#[test]
fn a_command_is_run_as_it_would_be_without_us() {
    let folder = Folder::new();
    let script = "echo out; echo err >&2; exit 3";
    let answer = Answer::of(&mut run(&folder, &["sh", "-c", script]));
    assert_eq!(
        (
            answer.status,
            answer.stdout.as_str(),
            answer.stderr.as_str()
        ),
        (Some(3), "out\n", "err\n")
    );
    for (command, status) in [
        (&["true"][..], 0),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["no-such-command-here"], 127),
        (&["/etc/hostname"], 126),
        (&["/"], 126),
    ] {
        let answer = Answer::of(&mut run(&folder, command));
        assert_eq!(answer.status, Some(status), "{command:?}: {answer:?}");
        assert_eq!(answer.stdout, "", "{command:?}");
    }
}

#[test]
fn what_is_preloaded_already_stays_and_comes_after_us() {
    let folder = Folder::new();
    let print = [
        "sh",
        "-c",
        "echo $LD_PRELOAD; echo $GPUSHIM_SESSION; echo $GPUSHIM_SIZE; echo $GPUSHIM_DIR",
    ];
    let library = harmless().canonicalize().expect("it is there");
    let shown = library.to_string_lossy();
    let mut command = folder.gpushim(["run", "--size", "8M", "--dir", "captures", "--"]);
    command
        .args(print)
        .env("GPUSHIM_LIB", harmless())
        // The same library again, and one of the program's own.
        .env("LD_PRELOAD", format!("{shown} libdl.so.2"));
    let answer = Answer::of(&mut command);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(lines[0], format!("{shown}:libdl.so.2"));
    assert!(lines[1].starts_with("run-"), "{lines:?}");
    assert_eq!(lines[2], "8M");
    assert_eq!(Path::new(lines[3]), folder.path().join("captures"));
}

/// LD_PRELOAD is split at blanks and colons.
#[test]
fn a_library_in_a_folder_with_blanks_and_colons_is_preloaded_through_a_link() {
    let folder = Folder::new();
    let odd = folder.path().join("with blank:and colon");
    fs::create_dir(&odd).expect("writable");
    let library = odd.join("libgpushim.so");
    fs::copy(harmless(), &library).expect("writable");
    let print = ["sh", "-c", "echo $LD_PRELOAD"];
    let mut command = run(&folder, &print);
    command
        .env("GPUSHIM_LIB", &library)
        .env("XDG_RUNTIME_DIR", folder.path());
    let answer = Answer::of(&mut command);
    let link = Path::new(answer.stdout.trim_end());
    assert!(
        answer.status == Some(0) && answer.stderr.is_empty(),
        "{answer:?}"
    );
    assert!(link.starts_with(folder.path()), "{link:?}");
    assert_eq!(
        fs::canonicalize(link).expect("it leads somewhere"),
        library.canonicalize().expect("it is there")
    );
    // Somebody else's folder of that name is not used.
    let place = link.parent().expect("it has one");
    fs::set_permissions(place, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let answer = Answer::of(&mut command);
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("blank or a colon"), "{answer:?}");
}

#[test]
fn a_missing_library_is_said_with_where_was_looked() {
    let folder = Folder::new();
    let answer = Answer::of(run(&folder, &["true"]).env("GPUSHIM_LIB", "/nowhere/lib.so"));
    assert_eq!(answer.status, Some(2));
    assert!(answer.stderr.contains("GPUSHIM_LIB is /nowhere/lib.so"));
}

/// A job scheduler signals the process that it started, and that is us.
#[test]
fn signals_are_handed_on() {
    let folder = Folder::new();
    // What is ignored here, as SIGHUP under nohup, is ignored by what we start too, and would be waited for in vain.
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("it is there").trim(), 16).expect("a mask");
    for (signal, number, status) in [("TERM", 15, 40), ("USR1", 10, 41), ("HUP", 1, 42)] {
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let script = "trap 'exit 40' TERM; trap 'exit 41' USR1; trap 'exit 42' HUP; echo ready; \
            while :; do sleep 0.05; done";
        let mut child = run(&folder, &["sh", "-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("it prints");
        assert_eq!(line, "ready\n");
        let sent = Command::new("kill")
            .args(["-s", signal, &child.id().to_string()])
            .status();
        assert!(sent.expect("kill is there").success());
        let ended = child.wait().expect("it ends");
        assert_eq!(ended.code(), Some(status), "{signal}");
    }
}

/// Under `nohup` the command ignores SIGHUP; a handler of ours would take that from it.
#[test]
fn what_is_ignored_stays_ignored() {
    let folder = Folder::new();
    let ignored = |command: &mut Command| -> u64 {
        let answer = Answer::of(command);
        let mask = answer
            .stdout
            .split_whitespace()
            .nth(1)
            .expect("a mask")
            .to_owned();
        u64::from_str_radix(&mask, 16).expect("a mask")
    };
    let gpushim = env!("CARGO_BIN_EXE_gpushim");
    let script = format!("trap '' HUP; exec {gpushim} run -- grep SigIgn /proc/self/status");
    let mut with = Command::new("sh");
    with.args(["-c", &script])
        .env("GPUSHIM_LIB", harmless())
        .env("GPUSHIM_DIR", folder.path());
    assert_eq!(ignored(&mut with) & 1, 1);
    assert_eq!(
        ignored(&mut run(&folder, &["grep", "SigIgn", "/proc/self/status"])) & 1,
        0
    );
}

/// A session's captures and how its command ended are kept together, so that the report can say "ended by SIGKILL".
#[test]
fn how_a_command_ended_is_kept_beside_its_captures() {
    let folder = Folder::new();
    let template = folder.capture("template", &{
        let mut made = program();
        made.clean_exit = 0;
        made.texts.push((6, "run-0000000-0000000000000000"));
        made.record(alloc(200, X, MIB));
        made
    });
    // Stands in for the recorder: writes this process's number and session into a capture.
    let script = r#"
        import os, re, signal, struct, sys
        bytes_ = bytearray(open(sys.argv[1], "rb").read())
        struct.pack_into("<I", bytes_, 32, os.getpid())
        session = os.environ["GPUSHIM_SESSION"].encode()
        at, length = struct.unpack_from("<II", bytes_, 112 + 6 * 8)
        strings = struct.unpack_from("<Q", bytes_, 512 + 5 * 64 + 8)[0]
        bytes_[strings + at : strings + at + len(session)] = session
        struct.pack_into("<I", bytes_, 112 + 6 * 8 + 4, len(session))
        open("live.gpushim", "wb").write(bytes_)
        os.kill(os.getpid(), signal.SIGKILL)
    "#;
    let script: String = script
        .lines()
        .map(|line| format!("{}\n", line.trim_start()))
        .collect();
    let template = template.to_string_lossy();
    let mut command = folder.gpushim([
        "run",
        "--verbose",
        "--",
        "python3",
        "-c",
        &script,
        &template,
    ]);
    let answer = Answer::of(command.env("GPUSHIM_LIB", harmless()));
    if answer.status == Some(127) {
        return; // no python3 here
    }
    assert_eq!(answer.status, Some(128 + 9), "{answer:?}");
    assert!(answer.stderr.contains("1 capture in "), "{answer:?}");
    let report = folder.say(["report"]);
    assert!(report.contains("ended by SIGKILL"), "{report}");
    assert!(report.contains("Thread 501 (pt_main) died inside cuMemAlloc_v2(size 1.0 GiB)."));
}
