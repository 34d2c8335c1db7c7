//! `gpushim doctor`: what keeps a program from being recorded is found and said.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::harmless;
use super::support::{Answer, Folder};

/// An executable's bytes as the kernel and the loader see them: ELF class, machine, interpreter.
fn elf(class: u8, machine: u16, interpreter: Option<&str>) -> Vec<u8> {
    let mut file = vec![0; 64 + 56];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    file[16..20].copy_from_slice(&[2, 0, machine as u8, (machine >> 8) as u8]);
    file[20] = 1;
    file[32] = 64;
    file[52] = 64;
    file[54] = 56;
    file[56] = 1;
    file[58] = 64;
    if let Some(path) = interpreter {
        file[64] = 3;
        file[72] = 120;
        let len = path.len() as u8 + 1;
        (file[96], file[104]) = (len, len);
        file.extend_from_slice(path.as_bytes());
        file.push(0);
    }
    file
}

#[test]
fn the_doctor_says_why_a_program_cannot_be_recorded() {
    let folder = Folder::new();
    let captures = folder.path().join("captures");
    fs::create_dir(&captures).expect("writable");
    fs::create_dir(folder.path().join("driver")).expect("writable");
    fs::copy(harmless(), folder.path().join("driver/libcuda.so.1")).expect("writable");
    let ask = |program: &str| -> (Option<i32>, String) {
        let mut command = folder.gpushim(["doctor", "--format", "json", program]);
        command
            .env("GPUSHIM_LIB", harmless())
            .env("GPUSHIM_DIR", &captures)
            .env("LD_LIBRARY_PATH", folder.path().join("driver"));
        let answer = Answer::of(&mut command);
        let json: Value = serde_json::from_str(&answer.stdout).expect("it is JSON");
        assert_eq!(json["schema"], "gpushim.doctor/1");
        assert_eq!(json["recordable"], answer.status == Some(0));
        let bad: Vec<String> = json["checks"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|check| check["verdict"] == "bad")
            .map(|check| check["finding"].to_string())
            .collect();
        (answer.status, bad.join("\n"))
    };
    let put = |name: &str, bytes: &[u8], mode: u32| -> String {
        let path = folder.put(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        path.to_string_lossy().into_owned()
    };
    const GLIBC: Option<&str> = Some("/lib64/ld-linux-x86-64.so.2");
    let good = put("good", &elf(2, 62, GLIBC), 0o755);
    assert_eq!(ask(&good), (Some(0), String::new()));
    let script = put(
        "script",
        format!("#!/usr/bin/env -S {good} -u\n").as_bytes(),
        0o755,
    );
    assert_eq!(ask(&script), (Some(0), String::new()));
    for (program, why) in [
        (put("static", &elf(2, 62, None), 0o755), "statically linked"),
        (
            put("musl", &elf(2, 62, Some("/lib/ld-musl-x86_64.so.1")), 0o755),
            "musl",
        ),
        (put("old", &elf(1, 3, None), 0o755), "not an x86-64 program"),
        (
            put("arm", &elf(2, 183, GLIBC), 0o755),
            "not an x86-64 program",
        ),
        (
            put("setuid", &elf(2, 62, GLIBC), 0o4755),
            "setuid or setgid",
        ),
        (
            put("text", b"hello", 0o755),
            "neither a program nor a script",
        ),
        ("no-such-program-here".to_owned(), "does not exist"),
    ] {
        let (status, bad) = ask(&program);
        assert_eq!(status, Some(1), "{program}");
        assert!(bad.contains(why), "{program}: {bad}");
    }
    // The interpreter of a script decides.
    let through = put(
        "through",
        format!("#!{}/static\n", folder.path().display()).as_bytes(),
        0o755,
    );
    assert_eq!(ask(&through).0, Some(1));
}

#[test]
fn the_doctor_looks_at_what_lies_around() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("driver")).expect("writable");
    fs::copy(harmless(), folder.path().join("driver/libcuda.so.1")).expect("writable");
    let ask = |name: &str, value: &str| -> Answer {
        let mut command = folder.gpushim(["doctor"]);
        command
            .env("GPUSHIM_LIB", harmless())
            .env("LD_LIBRARY_PATH", folder.path().join("driver"))
            .env(name, value);
        Answer::of(&mut command)
    };
    let fine = ask("GPUSHIM_LOG", "1");
    assert_eq!(fine.status, Some(0), "{fine:?}");
    assert!(fine.stdout.contains("Yes, this can be recorded."));
    for (name, value, status, said) in [
        ("GPUSHIM_SIZE", "64MB", 0, "is not a size such as 64M"),
        (
            "GPUSHIM_SZIE",
            "64M",
            0,
            "GPUSHIM_SZIE means nothing to gpushim",
        ),
        ("GPUSHIM_DISABLE", "1", 1, "switches the recorder off"),
        ("GPUSHIM_DIR", "/proc/nowhere", 1, "cannot be made"),
        ("LD_LIBRARY_PATH", "/nowhere", 1, "libcuda.so.1 is neither"),
        ("GPUSHIM_LIB", "/etc/hostname", 1, "is no x86-64 library"),
        ("LD_PRELOAD", "libdl.so.2", 0, "libdl.so.2 is preloaded too"),
    ] {
        let answer = ask(name, value);
        let words = answer
            .stdout
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(words.contains(said), "{name}: {answer:?}");
        // A machine with a driver of its own finds that one.
        if name != "LD_LIBRARY_PATH" || !words.contains("driver /") {
            assert_eq!(answer.status, Some(status), "{name}: {answer:?}");
        }
    }
    // It leaves nothing behind.
    let left = fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(left, 1);
}
