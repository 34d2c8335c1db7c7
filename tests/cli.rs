//! The command as a person or a script meets it: what it prints, where it looks, how it fails, what it runs.

use std::fs;
use std::path::Path;

use serde_json::Value;

#[allow(dead_code, reason = "each test uses its part")]
mod support;

#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/input.rs"]
mod input;
#[path = "cli/run.rs"]
mod run;

use support::capture::{Device, H200, Slot, Synthesis, Thread, alloc, at, free, program};
use support::{Answer, Folder, golden};

const MIB: u64 = 1 << 20;
const X: u64 = 0x7f00_0000_0000;

/// A training job that the OOM killer took: two devices, every space, a refused allocation, a call in flight.
fn training() -> Synthesis {
    let mut made = Synthesis {
        slots: 256,
        clean_exit: 0,
        texts: vec![
            (0, "/usr/bin/python3.12"),
            (1, "/usr/bin/python3.12\0train.py\0--epochs\x003"),
            (3, "node7"),
            (4, "0.1.0"),
            (5, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"),
            (6, "run-1"),
            (7, "LOCAL_RANK=0\0CUDA_VISIBLE_DEVICES=0,1"),
        ],
        devices: vec![
            H200,
            Device {
                uuid: *b"\xaa\xbb\xcc\xdd1234567890ab",
                pci: "0000:07:00.0",
                ..H200
            },
        ],
        contexts: vec![(0, 0xc0de), (1, 0xbeef), (0, 0xcafe)],
        threads: vec![
            Thread {
                id: 500,
                name: "python3",
                call: (0, 0, 0),
            },
            Thread {
                id: 501,
                name: "pt_autograd_0",
                call: (3, 0, 1 << 30),
            },
        ],
        modules: vec![
            ("/opt/lib/libcudart.so.13", 0x7000_0000),
            ("/opt/lib/libc10_cuda.so", 0x7100_0000),
            ("/opt/lib/libnccl.so.2", 0x7200_0000),
        ],
        stacks: vec![
            (0x7000_1234, 0),
            (0x7100_0abc, 0),
            (0x7200_0042, 0),
            (0x9999, 0),
        ],
        notes: vec![
            (1, 12_000, "cuMemPoolTrimTo"),
            (1, 12_000, "cuArrayCreate_v2"),
            (2, 0, "c693336e-1121-df11-a8c3-68f355d89593"),
            (3, 0, "the disk is full: the ring stays as long as it is"),
        ],
        ..program()
    };
    let second = |slot: Slot| Slot {
        device: 1,
        context: 1,
        ..slot
    };
    made.record(Slot {
        address: 0xbeef,
        device: 1,
        context: 0xffff,
        stack: 3,
        ..at(28, 150)
    })
    .record(Slot {
        address: 0xcafe,
        device: 0,
        context: 0xffff,
        stack: 3,
        ..at(34, 160)
    })
    .record(Slot {
        address: 0xcafe,
        result: 0xffff,
        stack: 3,
        ..at(38, 170)
    });
    for step in 0..6 {
        made.record(alloc(200 + step * 300, X + step * 64 * MIB, 20 * MIB));
        made.record(alloc(
            300 + step * 300,
            X + 0x1_0000_0000 + step * 64 * MIB,
            40 * MIB,
        ));
        if step != 2 {
            made.record(free(400 + step * 300, X + 0x1_0000_0000 + step * 64 * MIB));
        }
    }
    made.record(second(alloc(2100, X + 0x2_0000_0000, 527 * MIB)))
        // Managed, from a pool, pinned, registered, reserved.
        .record(second(Slot {
            address: X + 0x3_0000_0000,
            size: 256 * MIB,
            ..at(8, 2200)
        }))
        .record(Slot {
            address: X + 0x4_0000_0000,
            size: 100 * MIB,
            device: 0,
            ..at(16, 2210)
        })
        .record(Slot {
            address: 0x5000_0000,
            size: 64 * MIB,
            device: 0,
            ..at(11, 2220)
        })
        .record(Slot {
            address: 0x6000_0000,
            size: 8 * MIB,
            device: 0,
            ..at(14, 2230)
        })
        .record(Slot {
            address: X + 0x10_0000_0000,
            size: 64 << 30,
            context: 0xffff,
            stack: 2,
            ..at(22, 2240)
        })
        // An expandable segment: two handles, one of them mapped.
        .record(Slot {
            address: 0xaaaa,
            size: 2 * MIB,
            a: 1,
            b: 1,
            device: 0,
            stack: 2,
            ..at(24, 2250)
        })
        .record(Slot {
            address: 0xbbbb,
            size: 2 * MIB,
            a: 1,
            b: 1,
            device: 0,
            stack: 2,
            ..at(24, 2260)
        })
        .record(Slot {
            address: X + 0x10_0000_0000,
            size: 2 * MIB,
            a: 0xaaaa,
            stack: 2,
            ..at(26, 2270)
        })
        // Small ones share blocks.
        .record(alloc(2280, X + 0x5_0000_0000, 512))
        .record(alloc(2281, X + 0x5_0000_0200, 512))
        // Refused: out of memory, twice.
        .record(Slot {
            result: 2,
            size: 140 << 30,
            address: 0,
            ..alloc(2300, 0, 0)
        })
        .record(Slot {
            result: 2,
            size: 141 << 30,
            address: 0,
            ..alloc(2900, 0, 0)
        });
    // A free that the driver refused: the second record names the first, by its number plus one.
    made.record(free(3000, X));
    let number_plus_one = made.records.len() as u64;
    made.record(Slot {
        result: 700,
        flags: 1,
        a: number_plus_one,
        ..free(3001, X)
    })
    .hole(alloc(3100, 0, 0));
    made
}

/// What `gpushim run` keeps beside the captures of a session.
const KILLED: &str = r#"{
  "session": "run-1",
  "pid": 4242424,
  "command": ["python3", "train.py"],
  "started_realtime_ns": 1699999999000000000,
  "ended_realtime_ns": 1700000003500000000,
  "ending": { "signal": 9 }
}"#;

fn killed() -> Folder {
    let folder = Folder::new();
    folder.capture("python3-4242424-1.gpushim", &training());
    folder.put("run-1.run.json", KILLED.as_bytes());
    folder
}

/// Three laps of a small ring, dropped records, a call of a later shim.
fn lapped() -> Synthesis {
    let mut made = program();
    for n in 0..150 {
        made.record(alloc(200 + n, X + n * 2 * MIB, MIB));
    }
    made.dropped().record(Slot {
        size: MIB,
        device: 0,
        ..at(60_000, 400)
    });
    made.counters[0] = 1;
    made.counters[2] = 2;
    made
}

fn with_width(folder: &Folder, width: &str, arguments: &[&str]) -> String {
    let answer = Answer::of(folder.gpushim(arguments).env("COLUMNS", width));
    assert_eq!(answer.status, Some(0), "{answer:?}");
    answer.stdout
}

#[test]
fn the_report_of_a_killed_job() {
    let folder = killed();
    for width in ["80", "120"] {
        let text = with_width(&folder, width, &["report"]);
        golden(&format!("killed.report.{width}.txt"), &text);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= width.parse().ok(), "{widest:?} at {width}");
    }
    golden("killed.report.all.txt", &folder.say(["report", "--all"]));
    golden(
        "killed.report.json",
        &folder.say(["report", "--format", "json"]),
    );
    golden(
        "killed.report.csv",
        &folder.say(["report", "--format", "csv"]),
    );
    golden(
        "killed.report.device.txt",
        &folder.say(["report", "--device", "GPU-aabb", "--at", "2.15s"]),
    );
}

#[test]
fn the_timeline_of_a_killed_job() {
    let folder = killed();
    for width in ["80", "120"] {
        let text = with_width(&folder, width, &["timeline", "--events", "12"]);
        golden(&format!("killed.timeline.{width}.txt"), &text);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= width.parse().ok(), "{widest:?} at {width}");
    }
    golden(
        "killed.timeline.json",
        &folder.say(["timeline", "--format", "json"]),
    );
    golden(
        "killed.timeline.csv",
        &folder.say(["timeline", "--format", "csv"]),
    );
    golden(
        "killed.timeline.device.txt",
        &folder.say(["timeline", "--device", "1", "--all"]),
    );
}

/// A figure from half a record is worse than none: every view says what is missing.
#[test]
fn what_is_missing_is_said_in_every_view() {
    let folder = Folder::new();
    folder.capture("made.gpushim", &lapped());
    golden("lapped.report.txt", &folder.say(["report"]));
    golden(
        "lapped.timeline.txt",
        &folder.say(["timeline", "--events", "2"]),
    );
    const SAID: &str = "the first 90 records were overwritten";
    for view in ["report", "timeline"] {
        let json: Value =
            serde_json::from_str(&folder.say([view, "--format", "json"])).expect("it is JSON");
        let process = &json["processes"][0];
        assert_eq!(process["exact"], false);
        assert!(process["losses"].to_string().contains(SAID), "{json}");
        let csv = Answer::of(&mut folder.gpushim([view, "--format", "csv"]));
        assert!(csv.stderr.contains(SAID), "{csv:?}");
    }
    let json: Value =
        serde_json::from_str(&folder.say(["ls", "--format", "json"])).expect("it is JSON");
    assert_eq!(
        (
            &json["captures"][0]["overwritten"],
            &json["captures"][0]["dropped"]
        ),
        (&90.into(), &3.into())
    );
}

#[test]
fn several_processes_are_added_up_by_device_and_like_columns() {
    let folder = Folder::new();
    let rank = |pid: u32, order: [usize; 2], mib: u64| {
        let devices = [
            H200,
            Device {
                uuid: [7; 16],
                ..H200
            },
        ];
        let mut made = program();
        made.texts.push((6, "job"));
        made.owner.pid = pid;
        made.owner.opened_realtime += u64::from(pid);
        // CUDA_VISIBLE_DEVICES: the same device has another ordinal in each.
        made.devices = order.map(|index| devices[index]).to_vec();
        made.record(alloc(200, X, mib * MIB)).record(Slot {
            address: X + (1 << 32),
            size: 5 * MIB,
            device: 0,
            ..at(16, 210)
        });
        made
    };
    folder.capture("a.gpushim", &rank(4_242_001, [0, 1], 100));
    folder.capture("b.gpushim", &rank(4_242_002, [1, 0], 30));
    folder.capture("c.gpushim", &rank(4_242_003, [0, 1], 20));
    golden("several.report.txt", &folder.say(["report"]));
    let json: Value =
        serde_json::from_str(&folder.say(["report", "--format", "json"])).expect("it is JSON");
    let sums: Vec<(u64, u64, u64)> = json["together"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|sum| {
            let number = |name: &str| sum[name].as_u64().expect("a number");
            (
                number("live_bytes"),
                number("pool_bytes"),
                number("contexts"),
            )
        })
        .collect();
    // What a device holds is with its pools, which hold at least what is out.
    assert_eq!(sums, [(35 * MIB, 5 * MIB, 1), (130 * MIB, 10 * MIB, 2)]);
}

/// A capture that the recorder itself wrote, of the first version: it must stay readable for ever.
#[test]
fn captures_of_every_released_version_are_read() {
    let folder = Folder::new();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/v1.gpushim");
    fs::copy(capture, folder.path().join("v1.gpushim")).expect("it is in the checkout");
    golden("v1.report.txt", &folder.say(["report"]));
    golden(
        "v1.timeline.txt",
        &folder.say(["timeline", "--events", "5"]),
    );
}

/// The disk that a file takes is the file system's business.
fn without_sizes(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if matches!(word, "B" | "KiB" | "MiB") {
            words.pop();
            words.push("SIZE");
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

#[test]
fn captures_are_listed() {
    let folder = killed();
    folder.capture("python3-4242424-2.gpushim", &{
        let mut made = lapped();
        made.owner.opened_realtime += 60_000_000_000;
        made
    });
    let answer = Answer::of(&mut folder.gpushim(["ls", "."]));
    golden("ls.txt", &without_sizes(&answer.stdout));
    let json: Value =
        serde_json::from_str(&folder.say(["ls", "--format", "json"])).expect("it is JSON");
    assert_eq!(json["schema"], "gpushim.ls/1");
    assert_eq!(json["captures"][0]["fate"], "ended by SIGKILL");
    let csv = folder.say(["ls", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 3);
}

/// The owner of a capture that this very process could be writing.
fn this_process(made: &mut Synthesis) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("/proc is there");
    let digits: Vec<u8> = boot
        .bytes()
        .filter_map(|b| char::from(b).to_digit(16).map(|d| d as u8))
        .collect();
    for (byte, pair) in made.owner.boot_id.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] * 16 + pair[1];
    }
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc is there");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..]
        .split(' ')
        .collect();
    made.owner.start_ticks = fields[19].parse().expect("a number");
    made.owner.pid = std::process::id();
    let link = fs::read_link("/proc/self/ns/pid").expect("/proc is there");
    let link = link.to_string_lossy();
    made.owner.pid_namespace = link
        .trim_start_matches("pid:[")
        .trim_end_matches(']')
        .parse()
        .expect("a number");
    made.clean_exit = 0;
}

#[test]
fn a_process_is_alive_dead_or_out_of_reach() {
    let folder = Folder::new();
    let fate = |made: &Synthesis| -> (String, bool, String) {
        folder.capture("made.gpushim", made);
        let json: Value =
            serde_json::from_str(&folder.say(["report", "--format", "json"])).expect("it is JSON");
        let process = &json["processes"][0];
        let text = folder.say(["report"]);
        let label = ["now", "at the end", "at the last record"]
            .into_iter()
            .find(|label| text.contains(&format!("Alive {label},")));
        (
            process["fate"].as_str().expect("text").to_owned(),
            process["over"].as_bool().expect("a truth value"),
            label.unwrap_or_default().to_owned(),
        )
    };
    let mut made = program();
    made.record(alloc(200, X, MIB));
    this_process(&mut made);
    let running = (
        "running, being written now".to_owned(),
        false,
        "now".to_owned(),
    );
    assert_eq!(fate(&made), running);
    // Another process has its number now.
    made.owner.start_ticks += 1;
    let gone = "ended without an exit (killed, crashed, _exit or exec)".to_owned();
    assert_eq!(fate(&made), (gone, true, "at the end".to_owned()));
    made.clean_exit = 2_000_000_000;
    assert_eq!(
        fate(&made),
        ("exited".to_owned(), true, "at the end".to_owned())
    );
    made.clean_exit = 0;
    made.owner.pid_namespace += 1;
    let (text, over, label) = fate(&made);
    assert!(text.contains("another pid namespace") && !over, "{text}");
    assert_eq!(label, "at the last record");
    made.owner.boot_id[3] ^= 1;
    let (text, over, _) = fate(&made);
    assert!(text.contains("earlier boot") && !over, "{text}");
}

#[test]
fn the_newest_session_is_what_belongs_together() {
    let folder = Folder::new();
    let made = |pid: u32, session: &'static str, group: u32, opened: u64| {
        let mut made = program();
        made.texts.push((6, session));
        (made.owner.pid, made.owner.group) = (pid, group);
        made.owner.opened_realtime += opened;
        made.record(alloc(200, X, MIB));
        made
    };
    let pids = || -> Vec<u64> {
        let json: Value =
            serde_json::from_str(&folder.say(["report", "--format", "json"])).expect("it is JSON");
        let processes = json["processes"].as_array().expect("a list").clone();
        processes
            .iter()
            .map(|process| process["pid"].as_u64().expect("a number"))
            .collect()
    };
    folder.capture("a.gpushim", &made(4_242_001, "one", 1, 0));
    folder.capture("b.gpushim", &made(4_242_002, "two", 1, 10));
    folder.capture("c.gpushim", &made(4_242_003, "two", 2, 5));
    assert_eq!(pids(), [4_242_003, 4_242_002]);
    // Without a session it is the process group.
    folder.capture("d.gpushim", &made(4_242_004, "", 9, 20));
    folder.capture("e.gpushim", &made(4_242_005, "", 9, 1));
    assert_eq!(pids(), [4_242_005, 4_242_004]);
    // One that is damaged does not keep the others from being read, and is not passed over in silence.
    folder.put("f.gpushim", b"gpushim\0");
    let answer = Answer::of(&mut folder.gpushim(["report"]));
    assert_eq!(answer.status, Some(0));
    assert!(answer.stderr.contains("left out: ") && answer.stderr.contains("f.gpushim"));
    // The same capture twice holds its memory once.
    let json = folder.say(["report", "--format", "json", "a.gpushim", "./a.gpushim"]);
    let json: Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(1));
}

/// Colours are for terminals.
#[test]
fn a_pipe_gets_no_escape_sequences() {
    let folder = killed();
    for view in ["report", "timeline", "ls", "doctor"] {
        let answer = Answer::of(&mut folder.gpushim([view]));
        assert!(!answer.stdout.contains('\u{1b}'), "{view}");
    }
}

/// What a capture says of itself must not reach the terminal as it is. Colours are forced, since without them every sequence is
/// taken out on the way.
#[test]
fn control_characters_in_a_capture_are_not_printed() {
    const CONCEAL: &str = "\u{1b}[8m";
    let folder = Folder::new();
    let mut made = program();
    made.texts = vec![(1, "python3\0\x1b[8m\x07"), (3, "\x1b[8m")];
    made.modules = vec![("/opt/\x1b[8mlib.so", 0x7000_0000)];
    made.notes = vec![(3, 0, "\x1b[8m"), (1, 0, "\x1b[8m"), (2, 0, "\x1b[8m")];
    made.devices[0].name = "\x1b[8m";
    made.devices[0].pci = "\x1b[8m";
    made.threads[0].name = "\x1b[8m";
    made.clean_exit = 0;
    made.record(alloc(200, X, MIB)).record(Slot {
        result: 2,
        ..alloc(300, 0, 0)
    });
    folder.capture("made.gpushim", &made);
    for arguments in [&["report", "--all"][..], &["timeline", "--all"], &["ls"]] {
        let answer = Answer::of(folder.gpushim(arguments).env("CLICOLOR_FORCE", "1"));
        assert!(answer.stdout.contains("\u{1b}["), "colours are forced");
        assert!(!answer.stdout.contains(CONCEAL), "{}", answer.stdout);
        assert!(!answer.stdout.contains('\u{7}'), "{}", answer.stdout);
    }
}

/// A library that every program can have preloaded without noticing.
fn harmless() -> &'static Path {
    [
        "/lib/x86_64-linux-gnu/libm.so.6",
        "/lib64/libm.so.6",
        "/usr/lib/libm.so.6",
    ]
    .into_iter()
    .map(Path::new)
    .find(|path| path.exists())
    .expect("glibc has a libm")
}
