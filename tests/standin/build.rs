//! Exports every name of a real driver: those that the stand-in does not implement become functions that answer "not
//! supported", each at an address of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let sources = [
        "arrays",
        "contexts",
        "devices",
        "graphics",
        "graphs",
        "lookups",
        "managed",
        "memory",
        "modules",
        "pools",
        "sharing",
        "streams",
        "virtual_memory",
    ];
    let mut implemented = BTreeSet::new();
    for source in sources {
        let path = format!("src/calls/{source}.rs");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read_to_string(&path).expect("the source is there");
        for line in text.lines() {
            // "fn cuMemAlloc_v2(" begins a call, in a `driver_calls!` table or alone.
            if let Some((_, rest)) = line.split_once("fn cu") {
                let name: String = rest.chars().take_while(|c| *c != '(').collect();
                implemented.insert(format!("cu{name}"));
            }
        }
    }
    println!("cargo::rerun-if-changed=data/exports_580.159.04.txt");
    let exports = fs::read_to_string("data/exports_580.159.04.txt").expect("the list is there");
    // What CUDA 13.1 to 13.5 added to it, by NVIDIA's headers.
    let newer = "data/proc_address_13.1_to_13.5.tsv";
    println!("cargo::rerun-if-changed={newer}");
    let newer = fs::read_to_string(newer).expect("the list is there");
    let newer: BTreeSet<&str> = newer
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit('\t').next())
        .collect();
    let (mut assembly, mut table) = (String::new(), String::new());
    let mut script = String::from("{ global: standin_*;\n");
    for name in exports.lines().filter(|name| !name.is_empty()).chain(newer) {
        if !implemented.contains(name) {
            writeln!(
                assembly,
                ".globl {name}\n.type {name}, @function\n.p2align 4\n{name}:\n endbr64\n mov eax, 801\n ret\n.size {name}, . - {name}"
            )
            .expect("writing to a string");
        }
        writeln!(script, "{name};").expect("writing to a string");
        writeln!(table, "    \"{name}\" => {name},").expect("writing to a string");
    }
    script.push_str("local: *; };\n");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    fs::write(out.join("stubs.s"), assembly).expect("OUT_DIR is writable");
    fs::write(out.join("exports.rs"), format!("exports! {{\n{table}}}\n"))
        .expect("OUT_DIR is writable");
    fs::write(out.join("exports.map"), script).expect("OUT_DIR is writable");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-soname,libcuda.so.1,-Bsymbolic");
    println!(
        "cargo::rustc-link-arg-cdylib=-Wl,--version-script={}",
        out.join("exports.map").display()
    );
}
