//! The shim in real processes, over drivers without a card. Programs print what they saw; with and without the preload
//! they must have seen the same, and the capture must hold what they did.

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::{HOOKS, HookId, When};
use gpushim_abi::layout::Counter;
use gpushim_reader::capture::Capture;
use gpushim_reader::report;

#[allow(dead_code, reason = "each test uses its part")]
mod native;

use native::records::Raw;
use native::{Driver, Folder, command, outcome};

fn odd() -> &'static PathBuf {
    static ODD: OnceLock<PathBuf> = OnceLock::new();
    ODD.get_or_init(|| native::program("odd", "odd.c", &[]))
}

/// Runs a habit of `odd` with and without the recorder; the outcomes must agree. What was recorded.
fn habit(arguments: &[&str], environment: &[(&str, &str)]) -> (Folder, String) {
    habit_over(Driver::Standin, arguments, environment)
}

fn habit_over(
    driver: Driver,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (Folder, String) {
    let folder = Folder::new();
    let run = |captures: Option<&Folder>| {
        let output = command(odd(), driver, captures)
            .args(arguments)
            .envs(environment.iter().copied())
            .output()
            .expect("odd runs");
        let signal = output.status.signal();
        (outcome(&output), signal)
    };
    let without = run(None);
    let with = run(Some(&folder));
    assert_eq!(without, with, "{arguments:?}");
    (folder, with.0.1)
}

fn calls(records: &[Record], call: HookId) -> Vec<&Record> {
    records
        .iter()
        .filter(|record| record.call == call as u16)
        .collect()
}

/// The program of the differential test: every hooked call, good and bad arguments, through each door.
fn differential(driver: Driver) {
    for door in ["plt", "dlsym", "gpa"] {
        let name = format!("every_call_{door}_{driver:?}");
        let library = driver.folder().join("libcuda.so.1");
        let library = library.to_str().expect("a plain path");
        let flags: &[&str] = if door == "plt" {
            &["-DPLT", "-Wl,--no-as-needed", library]
        } else {
            &[]
        };
        let program = native::program(&name, "every_call.c", flags);
        let folder = Folder::new();
        let run = |captures: Option<&Folder>| {
            let mut command = command(&program, driver, captures);
            command.arg(door);
            if driver == Driver::Other {
                command.arg("gentle");
            }
            outcome(&command.output().expect("every_call runs"))
        };
        let without = run(None);
        let with = run(Some(&folder));
        assert_eq!(without.0, Some(0), "{door} {driver:?}: {}", without.2);
        for (line, (without, with)) in without.1.lines().zip(with.1.lines()).enumerate() {
            assert_eq!(without, with, "{door} {driver:?} line {}", line + 1);
        }
        assert_eq!(without, with, "{door} {driver:?}");
        let (records, holes) = Raw::read(&folder.capture()).records();
        assert_eq!(holes, 0);
        if driver == Driver::Standin {
            // What the program says it called must be what was recorded.
            for hook in HOOKS.iter().filter(|hook| {
                hook.id as u16 <= HookId::cuGetExportTable as u16 && hook.when != When::Door
            }) {
                assert!(
                    !calls(&records, hook.id).is_empty(),
                    "{door}: {} was not recorded",
                    hook.symbol
                );
            }
        }
    }
}

/// Every row of the table through each door, with nulls, with places to write to, and with pointers into nowhere that the driver refuses
/// unread: then the recorder must not follow them either.
#[test]
fn every_row_takes_any_argument() {
    let refuse: String = HOOKS
        .iter()
        .filter(|hook| hook.when != When::Door && hook.when != When::Init)
        .map(|hook| format!("{}@*=999;", hook.symbol))
        .collect();
    for door in ["plt", "dlsym", "gpa"] {
        let library = Driver::Standin.folder().join("libcuda.so.1");
        let library = library.to_str().expect("a plain path");
        let flags: &[&str] = if door == "plt" {
            &["-DPLT", "-Wl,--no-as-needed", library]
        } else {
            &[]
        };
        let program = native::program(&format!("rows_{door}"), "rows.c", flags);
        for manner in ["tame", "wild"] {
            let folder = Folder::new();
            let run = |captures: Option<&Folder>| {
                let mut command = command(&program, Driver::Standin, captures);
                command.args([door, manner]);
                if manner == "wild" {
                    command.env("STANDIN_FAIL", &refuse);
                }
                outcome(&command.output().expect("rows runs"))
            };
            let (without, with) = (run(None), run(Some(&folder)));
            assert_eq!(without.0, Some(0), "{door} {manner}: {}", without.2);
            for (without, with) in without.1.lines().zip(with.1.lines()) {
                assert_eq!(without, with, "{door} {manner}");
            }
            assert_eq!(without, with, "{door} {manner}");
            let (records, holes) = Raw::read(&folder.capture()).records();
            assert_eq!(holes, 0);
            for hook in HOOKS {
                // The others are recorded when they succeed, or change something.
                if matches!(hook.when, When::After | When::Before) {
                    let seen = !calls(&records, hook.id).is_empty();
                    assert!(seen, "{door} {manner}: {} was not recorded", hook.symbol);
                }
            }
        }
    }
}

#[test]
fn every_call_answers_the_same_over_the_standin() {
    differential(Driver::Standin);
}

#[test]
fn every_call_answers_the_same_over_the_other_driver() {
    differential(Driver::Other);
}

/// Every name through every door: what is handed out may differ in one way only, the library that a hooked symbol is in.
#[test]
fn doors_hand_out_hooks_and_nothing_else() {
    let doors = native::program("doors", "doors.c", &[]);
    let folder = Folder::new();
    let names = folder.path().join("names");
    let list = fs::read_to_string(native::root().join("tests/standin/data/exports_580.159.04.txt"))
        .expect("the list of a real driver's exports");
    let newer: String = HOOKS
        .iter()
        .filter(|hook| !list.lines().any(|name| name == hook.symbol))
        .map(|hook| format!("{}\n{}\n", hook.symbol, hook.asked))
        .collect();
    let others = "dlsym\ndlvsym\nmalloc\ncuMem\ncuNothing\nc\ncu\nd\n";
    fs::write(&names, format!("{}\n{newer}{others}", list.trim())).expect("writable");
    let ours: HashSet<&str> = HOOKS
        .iter()
        .map(|hook| hook.symbol)
        .chain(["dlsym", "dlvsym"])
        .collect();
    for global in [false, true] {
        let run = |captures: Option<&Folder>| {
            let mut command = command(&doors, Driver::Standin, captures);
            command.arg("libcuda.so.1").arg(&names);
            if global {
                command.env("DOORS_GLOBAL", "1");
            }
            outcome(&command.output().expect("doors runs"))
        };
        let without = run(None);
        let with = run(Some(&folder));
        assert_eq!((without.0, with.0), (Some(0), Some(0)));
        let mut hooked = 0;
        for (without, with) in without.1.lines().zip(with.1.lines()) {
            if without == with {
                continue;
            }
            let back = with
                .replace("libgpushim.so:cu", "libcuda.so.1:cu")
                .replace("libgpushim.so:dl", "libc.so.6:dl");
            assert_eq!(without, back);
            let symbol = with.rsplit(':').next().expect("a symbol");
            assert!(ours.contains(symbol), "{with}");
            hooked += 1;
        }
        assert_eq!(without.1.lines().count(), with.1.lines().count());
        // Each hooked symbol by its handle at the least.
        assert!(hooked > HOOKS.len(), "{hooked}");
        let lines: HashSet<&str> = with.1.lines().collect();
        for hook in HOOKS {
            let line = format!("handle {} libgpushim.so:{}", hook.symbol, hook.symbol);
            assert!(lines.contains(line.as_str()), "{line}");
        }
    }
}

/// Two hundred processes killed at a random moment: what a thread had finished is in the record, in order, whole.
#[test]
fn killed_at_any_moment_every_committed_record_is_read_back() {
    const PROGRESS: usize = 64;
    let storm = native::program("storm", "storm.c", &[]);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let (mut killed_inside, mut all_dropped) = (0, 0);
    for round in 0..200 {
        let folder = Folder::new();
        let page = folder.path().join("page");
        fs::write(&page, vec![0; 64 * PROGRESS]).expect("writable");
        let mut child = command(&storm, Driver::Standin, Some(&folder))
            .args(["3".as_ref(), page.as_os_str()])
            // The smallest ring, so that laps are killed too.
            .env("GPUSHIM_SIZE", if round % 2 == 0 { "1M" } else { "64M" })
            .stdout(Stdio::null())
            .spawn()
            .expect("storm runs");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(std::time::Duration::from_micros(3_000 + random % 40_000));
        child.kill().expect("the child is there");
        child.wait().expect("the child is there");
        let captures = folder.captures();
        if captures.is_empty() {
            continue;
        }
        let raw = Raw::read(&captures[0]);
        let (records, holes) = raw.records();
        assert!(holes <= 3, "{holes} holes by three threads");
        killed_inside += usize::from(!raw.in_flight().is_empty());
        let progress = fs::read(&page).expect("readable");
        let word = |at: usize| u64::from_le_bytes(progress[at..at + 8].try_into().expect("eight"));
        let oldest = raw.head().saturating_sub(raw.slots());
        let dropped = raw.counter(Counter::SlotBusy);
        assert_eq!(raw.counter(Counter::RingNotReady), 0);
        let mut gaps = 0;
        for thread in 0..3 {
            let [tid, begun, done] = [0, 8, 16].map(|field| word(thread * PROGRESS + field));
            // A slot whose next owner had its number and not yet the slot still holds a record of the lap before: whole, but older
            // than what the ring has room for.
            let mine: Vec<&Record> = calls(&records, HookId::cuMemAlloc_v2)
                .into_iter()
                .filter(|record| u64::from(record.thread) == tid && record.sequence >= oldest)
                .collect();
            for record in &mine {
                assert_eq!(record.result, 0);
                assert!(
                    record.address != 0 && record.size % 512 == 0,
                    "torn: {record:?}"
                );
                assert!(record.size / 512 <= begun, "{record:?}");
            }
            // In order and without a gap, up to the last call that had returned; but for records that the shim says it
            // dropped, since a thread was stopped for a whole lap of the small ring while it held a slot.
            for pair in mine.windows(2) {
                assert!(pair[0].size < pair[1].size, "round {round}");
                gaps += (pair[1].size - pair[0].size) / 512 - 1;
                assert!(pair[0].at_ns <= pair[1].at_ns);
            }
            if done > 0 && oldest == 0 {
                assert_eq!(mine.first().map(|r| r.size), Some(512), "round {round}");
            }
            if let Some(last) = mine.last() {
                assert!(
                    last.size / 512 + dropped >= done,
                    "round {round}: {} of {done}",
                    last.size / 512
                );
            } else {
                assert!(done == 0 || oldest > 0, "round {round}: nothing of {done}");
            }
        }
        // Between the oldest and the head every number is a record or one of the holes.
        let present = records.iter().filter(|r| r.sequence >= oldest).count() as u64;
        let missing = raw.head() - oldest - present;
        assert!(
            missing <= 3 + dropped,
            "round {round}: {missing} records are missing, {dropped} dropped"
        );
        assert!(
            gaps <= dropped,
            "round {round}: {gaps} calls are missing, {dropped} records dropped"
        );
        all_dropped += dropped;
    }
    assert!(
        killed_inside > 20,
        "only {killed_inside} were killed inside a call"
    );
    assert!(all_dropped < 200, "{all_dropped} records were dropped");
}

#[test]
fn a_process_without_cuda_leaves_no_file() {
    let folder = Folder::new();
    for program in [
        vec!["/bin/true"],
        vec!["/bin/sh", "-c", "ls / | sort | head -3; exec env true"],
    ] {
        let output = command(program[0], Driver::Standin, Some(&folder))
            .args(&program[1..])
            .output()
            .expect("a system program");
        assert!(output.status.success());
        assert_eq!(outcome(&output).2, "");
    }
    let (looked, _) = habit(&["lookups"], &[]);
    assert_eq!(looked.captures().len(), 0);
    assert_eq!(folder.captures().len(), 0);
}

#[test]
fn a_failed_cuinit_leaves_no_file() {
    let (folder, said) = habit(&["many", "1"], &[("CUDA_VISIBLE_DEVICES", "-1")]);
    assert!(said.contains("init 100"), "{said}");
    assert_eq!(folder.captures().len(), 0);
}

#[test]
fn a_child_that_touches_cuda_has_a_capture_of_its_own() {
    let (folder, _) = habit(&["fork-before"], &[]);
    let captures: Vec<Raw> = folder
        .captures()
        .iter()
        .map(|path| Raw::read(path))
        .collect();
    assert_eq!(captures.len(), 2);
    let mut sizes: Vec<u64> = captures
        .iter()
        .map(|raw| {
            let (records, _) = raw.records();
            let allocs = calls(&records, HookId::cuMemAlloc_v2);
            assert_eq!(allocs.len(), 1);
            allocs[0].size
        })
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4096, 8192]);
    assert_ne!(captures[0].pid(), captures[1].pid());
}

/// The child of a process that has used CUDA gets an error from everything: nothing of it may land in the parent's capture.
#[test]
fn a_child_after_cuda_writes_nothing_into_its_parents_capture() {
    let (folder, said) = habit(&["fork-after"], &[]);
    assert!(said.contains("child init 3"), "{said}");
    let raw = Raw::read(&folder.capture());
    let (records, _) = raw.records();
    assert!(records.iter().all(|record| record.thread == raw.pid()));
    assert_eq!(calls(&records, HookId::cuMemAlloc_v2).len(), 1);
}

#[test]
fn exec_leaves_the_capture_of_what_came_before() {
    let (folder, said) = habit(&["exec"], &[]);
    assert!(said.ends_with("echoed\n"), "{said}");
    let (records, _) = Raw::read(&folder.capture()).records();
    assert_eq!(calls(&records, HookId::cuMemAlloc_v2).len(), 1);
}

/// After the driver was unloaded and loaded again its functions are elsewhere; the old addresses would be a crash.
#[test]
fn a_driver_that_is_loaded_again_is_found_again() {
    // The other driver can really be unloaded; Rust's library keeps the stand-in where it is.
    for driver in [Driver::Standin, Driver::Other] {
        let (folder, _) = habit_over(driver, &["reload"], &[]);
        let (records, _) = Raw::read(&folder.capture()).records();
        let sizes: Vec<u64> = calls(&records, HookId::cuMemAlloc_v2)
            .iter()
            .map(|record| record.size)
            .collect();
        assert_eq!(sizes, [4096, 8192, 12288, 16384], "{driver:?}");
    }
}

#[test]
fn a_driver_found_through_rtld_default_is_recorded() {
    let (folder, _) = habit(&["default"], &[]);
    let (records, _) = Raw::read(&folder.capture()).records();
    assert_eq!(calls(&records, HookId::cuMemAlloc_v2).len(), 1);
    assert_eq!(calls(&records, HookId::cuMemFree_v2).len(), 1);
}

/// More threads than there are entries: those of dead threads are taken over.
#[test]
fn threads_that_have_died_make_room() {
    let (folder, _) = habit(&["threads"], &[]);
    let raw = Raw::read(&folder.capture());
    let (records, _) = raw.records();
    assert_eq!(calls(&records, HookId::cuMemAlloc_v2).len(), 600);
    assert_eq!(raw.counter(Counter::ThreadsFull), 0);
    assert_eq!(raw.in_flight(), []);
}

#[test]
fn the_capture_grows_after_chdir_and_with_all_descriptors_closed() {
    for name in ["chdir", "close-all"] {
        let (folder, _) = habit(&[name], &[]);
        let raw = Raw::read(&folder.capture());
        let (records, holes) = raw.records();
        assert_eq!(
            calls(&records, HookId::cuMemFree_v2).len(),
            10_000,
            "{name}"
        );
        assert_eq!((holes, raw.frozen()), (0, false));
        let head = raw.head();
        assert_eq!(head, records.len() as u64);
    }
}

/// Once round, and then some: what is left is the newest, and the loss can be counted exactly.
#[test]
fn a_full_ring_keeps_the_newest_records() {
    let (folder, _) = habit(&["many", "20000"], &[("GPUSHIM_SIZE", "1M")]);
    let raw = Raw::read(&folder.capture());
    let (records, holes) = raw.records();
    let slots = raw.slots();
    assert!(raw.head() > 2 * slots, "{} {slots}", raw.head());
    assert_eq!((holes, records.len() as u64), (0, slots));
    let expected: Vec<u64> = (raw.head() - slots..raw.head()).collect();
    let found: Vec<u64> = records.iter().map(|record| record.sequence).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_crash_inside_the_driver_names_the_call() {
    let (folder, _) = habit(&["die-inside"], &[("STANDIN_SLOW", "cuMemAlloc_v2=5s")]);
    let raw = Raw::read(&folder.capture());
    assert_eq!(
        raw.in_flight(),
        [(raw.pid(), HookId::cuMemAlloc_v2 as u16, 123_456)]
    );
}

#[test]
fn leaving_by_exit_loses_nothing() {
    let (folder, _) = habit(&["leave"], &[]);
    let (records, _) = Raw::read(&folder.capture()).records();
    assert_eq!(calls(&records, HookId::cuMemAlloc_v2).len(), 1);
}

/// A refused free must be taken back by a second record that names the first.
#[test]
fn a_refused_free_is_taken_back() {
    let (folder, _) = habit(&["many", "2"], &[("STANDIN_FAIL", "cuMemFree_v2@1=700")]);
    let (records, _) = Raw::read(&folder.capture()).records();
    let frees = calls(&records, HookId::cuMemFree_v2);
    assert_eq!(frees.len(), 3);
    assert!(frees[0].is_pending());
    assert_eq!(frees[1].takes_back(), Some(frees[0].sequence));
    assert_eq!(frees[1].result, 700);
    assert!(frees[2].is_pending());
}

#[test]
fn a_failed_allocation_is_a_failure() {
    let (folder, _) = habit(&["many", "3"], &[("STANDIN_FAIL", "cuMemAlloc_v2@2=2")]);
    let (records, _) = Raw::read(&folder.capture()).records();
    let allocs = calls(&records, HookId::cuMemAlloc_v2);
    assert_eq!(
        allocs.iter().map(|r| r.result).collect::<Vec<_>>(),
        [0, 2, 0]
    );
    assert_eq!(allocs[1].address, 0);
    assert!(allocs[1].failed());
}

/// Where the capture cannot be made the program runs on; one line for those who asked.
#[test]
fn a_directory_that_cannot_be_written_leaves_the_program_alone() {
    let folder = Folder::new();
    let file = folder.path().join("a file");
    fs::write(&file, "").expect("writable");
    let below = file.join("captures");
    for log in [None, Some("1")] {
        let mut run = command(odd(), Driver::Standin, Some(&folder));
        run.args(["many", "100"]).env("GPUSHIM_DIR", &below);
        if let Some(log) = log {
            run.env("GPUSHIM_LOG", log);
        }
        let (code, said, complained) = outcome(&run.output().expect("odd runs"));
        assert_eq!((code, said.as_str()), (Some(0), "init 0\nmany 0\n"));
        assert_eq!(
            complained.lines().count(),
            usize::from(log.is_some()),
            "{complained}"
        );
        assert!(
            log.is_none() || complained.contains("cannot be opened (errno 20)"),
            "{complained}"
        );
    }
}

/// Without a home, without any variable: the captures are in /tmp, in a directory for this user alone.
#[test]
fn without_variables_the_capture_is_in_a_private_directory() {
    let output = Command::new(odd())
        .args(["many", "1"])
        .env_clear()
        .env("LD_LIBRARY_PATH", Driver::Standin.folder())
        .env("LD_PRELOAD", native::shim())
        .env("GPUSHIM_LOG", "1")
        .output()
        .expect("odd runs");
    assert_eq!(
        outcome(&output),
        (Some(0), "init 0\nmany 0\n".into(), String::new())
    );
    // SAFETY-free way to learn the user's id: the owner of what we just made.
    let made = fs::read_dir("/tmp")
        .expect("/tmp")
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("gpushim-"))
        .find(|entry| {
            fs::read_dir(entry.path()).is_ok_and(|mut inside| {
                inside.any(|capture| {
                    capture.is_ok_and(|c| c.file_name().to_string_lossy().starts_with("odd-"))
                })
            })
        })
        .expect("a directory with the capture");
    let mode = made.metadata().expect("its metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for capture in fs::read_dir(made.path())
        .expect("readable")
        .filter_map(Result::ok)
    {
        if capture.file_name().to_string_lossy().starts_with("odd-") {
            fs::remove_file(capture.path()).expect("ours");
        }
    }
}

#[test]
fn switched_off_there_is_no_file() {
    let (folder, _) = habit(&["many", "10"], &[("GPUSHIM_DISABLE", "1")]);
    assert_eq!(folder.captures().len(), 0);
}

/// Passing the limit on file sizes would be a SIGXFSZ in the program.
#[test]
fn a_limit_on_file_sizes_makes_the_capture_smaller() {
    for (limit, expected) in [("512", 0), ("4096", 1)] {
        let folder = Folder::new();
        let output = command("/bin/sh", Driver::Standin, Some(&folder))
            .arg("-c")
            // In blocks of 1,024 bytes in bash and of 512 in dash.
            .arg(format!("ulimit -f {limit}; exec \"$0\" many 20000"))
            .arg(odd())
            .output()
            .expect("odd runs");
        assert_eq!(
            outcome(&output),
            (Some(0), "init 0\nmany 0\n".into(), String::new())
        );
        assert_eq!(folder.captures().len(), expected, "{limit}");
        for capture in folder.captures() {
            let length = fs::metadata(&capture).expect("there").len();
            assert!(length <= 4 << 20, "{length}");
            let (records, _) = Raw::read(&capture).records();
            assert!(records.len() > 4096);
        }
    }
}

/// Whether this user may mount a small file system in a namespace of its own; some systems allow it to root alone.
fn may_mount() -> bool {
    let allowed = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("not run: this user may not mount a tmpfs, even in a namespace of its own");
    }
    allowed
}

/// The disk fills up while the program runs: the ring stays as long as it is, and wraps.
#[test]
fn a_disk_that_fills_up_freezes_the_ring() {
    if !may_mount() {
        return;
    }
    let folder = Folder::new();
    let script = "mount -t tmpfs -o size=900k none \"$GPUSHIM_DIR\" && \"$0\" many 20000 && cp \"$GPUSHIM_DIR\"/*.gpushim \"$OUT\"";
    let out = Folder::new();
    let mut run = command("unshare", Driver::Standin, Some(&folder));
    run.args(["-rm", "/bin/sh", "-c", script])
        .arg(odd())
        .env("OUT", out.path());
    let output = run.output().expect("unshare, of util-linux");
    assert_eq!(
        outcome(&output),
        (Some(0), "init 0\nmany 0\n".into(), String::new())
    );
    let raw = Raw::read(&out.capture());
    assert!(raw.frozen());
    let (records, holes) = raw.records();
    assert_eq!(holes, 0);
    assert_eq!(records.len() as u64, raw.slots());
    let dropped = raw.counter(Counter::RingNotReady);
    assert!(dropped <= 1, "{dropped}");
    assert_eq!(records.last().map(|r| r.sequence + 1), Some(raw.head()));
}

#[test]
fn a_full_disk_at_the_start_leaves_the_program_alone() {
    if !may_mount() {
        return;
    }
    let folder = Folder::new();
    let script =
        "mount -t tmpfs -o size=300k none \"$GPUSHIM_DIR\" && \"$0\" many 100; ls \"$GPUSHIM_DIR\"";
    let mut run = command("unshare", Driver::Standin, Some(&folder));
    run.args(["-rm", "/bin/sh", "-c", script])
        .arg(odd())
        .env("GPUSHIM_LOG", "1");
    let (code, said, complained) = outcome(&run.output().expect("unshare, of util-linux"));
    // Nothing half-made is left behind either.
    assert_eq!((code, said.as_str()), (Some(0), "init 0\nmany 0\n"));
    assert!(
        complained.contains("no space for the capture (errno 28)"),
        "{complained}"
    );
}

/// A function that we export and the driver lacks: the driver's own word for that, and no crash.
#[test]
fn a_function_that_the_driver_lacks_is_not_supported() {
    for (driver, expected) in [(Driver::Other, 801), (Driver::Standin, 0)] {
        let folder = Folder::new();
        let output = command(odd(), driver, Some(&folder))
            .arg("lacks")
            .output()
            .expect("odd runs");
        let said = outcome(&output).1;
        assert!(
            said.contains(&format!("pitch {expected}")),
            "{driver:?}: {said}"
        );
    }
}

/// Four threads hand addresses round; in the end the reader's books are those of the driver.
#[test]
fn what_the_reader_says_is_alive_is_what_the_driver_says() {
    let storm = native::program("storm_books", "storm.c", &[]);
    let folder = Folder::new();
    let (page, ledger) = (folder.path().join("page"), folder.path().join("ledger"));
    fs::write(&page, vec![0; 4096]).expect("writable");
    let output = command(&storm, Driver::Standin, Some(&folder))
        .args(["4".as_ref(), page.as_os_str(), "2000".as_ref()])
        .env("STANDIN_LEDGER", &ledger)
        .output()
        .expect("storm runs");
    assert_eq!(outcome(&output).1, "done\n");
    let books: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&ledger).expect("written at exit")).expect("JSON");
    let device = &books["devices"][0];
    let objects = device["objects"].as_array().expect("a list");
    let bytes: u64 = objects.iter().filter_map(|o| o["size"].as_u64()).sum();
    assert!(!objects.is_empty());
    let capture = Capture::open(&folder.capture()).expect("it is a capture");
    let process = report::read(&capture, &report::Options::default())
        .expect("it can be read")
        .process;
    assert!(process.exact);
    let shown = &process.devices[0];
    assert_eq!(
        (shown.linear_count, shown.linear_bytes),
        (objects.len() as u64, bytes)
    );
    let calls = |name: &str| books["calls"][name]["calls"].as_u64().expect("counted");
    assert_eq!(shown.allocations, calls("cuMemAlloc_v2"));
    assert_eq!(shown.frees, calls("cuMemFree_v2"));
}

/// The whole of what a newcomer runs, on the stand-in: the program prints the same with and without.
#[test]
fn two_models_prints_the_same_with_and_without() {
    let program = native::rust_program("two_models");
    let folder = Folder::new();
    let run = |captures: Option<&Folder>| {
        let mut command = command(&program, Driver::Standin, captures);
        command.env("STANDIN_DEVICES", "2");
        outcome(&command.output().expect("two_models runs"))
    };
    let without = run(None);
    let with = run(Some(&folder));
    assert_eq!(without, with);
    assert_eq!(with.0, Some(0));
    let (records, _) = Raw::read(&folder.capture()).records();
    assert!(records.iter().all(|r| r.device == 1 || r.device == u8::MAX));
}

/// The child of a preloaded process inherits no descriptor of ours.
#[test]
fn no_descriptor_stays_open() {
    let folder = Folder::new();
    let mut child = command(odd(), Driver::Standin, Some(&folder))
        .args(["die-inside"])
        .env("STANDIN_SLOW", "cuMemAlloc_v2=5s")
        .stdout(Stdio::piped())
        .spawn()
        .expect("odd runs");
    let mut first = [0; 7];
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut first).expect("its first line");
    let open: Vec<PathBuf> = fs::read_dir(format!("/proc/{}/fd", child.id()))
        .expect("it is alive")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .collect();
    child.kill().expect("it is there");
    child.wait().expect("it is there");
    assert!(
        open.iter()
            .all(|path| path.extension() != Some("gpushim".as_ref())),
        "{open:?}"
    );
}
