//! What the library may be made of. Each gate forbids a way in which a preloaded library has killed or changed
//! programs: a missing dependency or symbol version ends every process of a container with 127 or 1, an initialiser
//! runs in every `ls` and compiler, a stray export takes a program's own symbol away, a panic stops a thread.

use std::collections::BTreeSet;
use std::fs;

use gpushim_abi::hooks::{Flavor, HOOKS, When};
use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, elf};

#[allow(dead_code, reason = "each test uses its part")]
mod native;

type Elf<'d> = ElfFile64<'d, Endianness>;

fn with_shim(check: impl FnOnce(&Elf<'_>)) {
    let bytes = fs::read(native::shim()).expect("the library was built");
    check(&Elf::parse(&*bytes).expect("the library is an ELF file"));
}

/// Tags of the dynamic section with their values.
fn dynamic(file: &Elf<'_>) -> Vec<(u64, u64)> {
    let data = file.data();
    let sections = file.elf_section_table();
    let (entries, _) = sections
        .dynamic(file.endian(), data)
        .expect("readable")
        .expect("a dynamic section");
    entries
        .iter()
        .map(|entry| {
            (
                entry.d_tag.get(file.endian()),
                entry.d_val.get(file.endian()),
            )
        })
        .collect()
}

/// An entry of the dynamic symbol table.
struct Symbol {
    name: String,
    is_import: bool,
    /// Name of its version; empty without one.
    version: String,
    /// Index of its version in this library.
    version_index: u16,
    /// Whether an unversioned look-up passes it by.
    is_hidden: bool,
}

fn symbols(file: &Elf<'_>) -> Vec<Symbol> {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let versions = sections
        .versions(endian, file.data())
        .expect("readable")
        .expect("versions");
    let table = file.elf_dynamic_symbol_table();
    table
        .enumerate()
        // The first entry of every table is the null symbol.
        .filter(|(index, _)| index.0 != 0)
        .map(|(index, symbol)| {
            let held = versions.version_index(endian, index);
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            Symbol {
                name: text(table.symbol_name(endian, symbol).expect("readable")),
                is_import: symbol.st_shndx.get(endian) == elf::SHN_UNDEF,
                version: versions
                    .version(held)
                    .expect("readable")
                    .map_or(String::new(), |version| text(version.name())),
                version_index: held.index(),
                is_hidden: held.is_hidden(),
            }
        })
        .collect()
}

#[test]
fn needs_nothing_but_libc() {
    with_shim(|file| {
        let needed: Vec<String> = {
            let sections = file.elf_section_table();
            let (entries, strings) = sections
                .dynamic(file.endian(), file.data())
                .expect("readable")
                .expect("a dynamic section");
            let strings = sections
                .strings(file.endian(), file.data(), strings)
                .expect("readable");
            entries
                .iter()
                .filter(|e| e.d_tag.get(file.endian()) == u64::from(elf::DT_NEEDED))
                .map(|e| {
                    let at = e.d_val.get(file.endian()) as u32;
                    String::from_utf8_lossy(strings.get(at).expect("a name")).into_owned()
                })
                .collect()
        };
        let allowed = [
            "libc.so.6",
            "libdl.so.2",
            "libpthread.so.0",
            "ld-linux-x86-64.so.2",
        ];
        for library in &needed {
            assert!(allowed.contains(&library.as_str()), "needs {library}");
        }
    });
}

#[test]
fn needs_no_symbol_newer_than_glibc_2_17() {
    with_shim(|file| {
        let mut seen = 0;
        for Symbol { name, version, .. } in symbols(file).into_iter().filter(|s| s.is_import) {
            let number: Vec<u32> = version
                .strip_prefix("GLIBC_")
                .unwrap_or_else(|| panic!("{name} needs {version:?}"))
                .split('.')
                .map(|part| part.parse().expect("a number"))
                .collect();
            assert!(number <= vec![2, 17], "{name} needs {version}");
            seen += 1;
        }
        assert!(seen > 10, "the imports were not found");
    });
}

#[test]
fn exports_the_table_and_the_doors_and_nothing_else() {
    let mut expected: BTreeSet<String> = HOOKS
        .iter()
        .map(|hook| format!("{}@GPUSHIM_1", hook.symbol))
        .collect();
    // As libc10_cuda.so imports them, from torch 1.12 on (`tests/torch.rs` asks the wheels).
    for function in [
        "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
        "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
        "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
        "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
        "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
        "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_",
        "_ZN2at15sequence_number17get_and_incrementEv",
        "_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE",
    ] {
        expected.insert(format!("{function}@GPUSHIM_1"));
    }
    // What programs and NVTX look for by name.
    for function in ["gpushim_mark", "InitializeInjectionNvtx2"] {
        expected.insert(format!("{function}@@GPUSHIM_1"));
    }
    for door in ["dlsym", "dlvsym"] {
        expected.insert(format!("{door}@GLIBC_2.2.5"));
        expected.insert(format!("{door}@@GLIBC_2.34"));
    }
    with_shim(|file| {
        let found: BTreeSet<String> = symbols(file)
            .into_iter()
            .filter(|symbol| !symbol.is_import)
            .map(|symbol| {
                let at = if symbol.is_hidden { "@" } else { "@@" };
                format!("{}{at}{}", symbol.name, symbol.version)
            })
            .collect();
        assert_eq!(found, expected);
    });
}

/// glibc binds an unversioned reference to a hidden symbol only where its version is the library's first, index 2.
#[test]
fn driver_names_have_the_first_version() {
    with_shim(|file| {
        let mut seen = 0;
        for symbol in symbols(file) {
            if symbol.name.starts_with("cu") {
                assert_eq!(symbol.version_index, 2);
                seen += 1;
            }
        }
        assert_eq!(seen, HOOKS.len());
    });
}

#[test]
fn runs_nothing_when_it_is_loaded() {
    with_shim(|file| {
        for (tag, _) in dynamic(file) {
            for forbidden in [
                elf::DT_INIT,
                elf::DT_INIT_ARRAY,
                elf::DT_PREINIT_ARRAY,
                elf::DT_TEXTREL,
            ] {
                assert_ne!(tag, u64::from(forbidden), "tag {forbidden:#x}");
            }
        }
        for section in file.sections() {
            let name = section.name().expect("readable");
            assert!(
                !name.starts_with(".init_array") && name != ".ctors",
                "{name}"
            );
        }
    });
}

/// `core::panicking` is only linked where something can reach it.
#[test]
fn cannot_panic() {
    with_shim(|file| {
        let mut seen = 0;
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            seen += 1;
            for word in [
                "panicking",
                "panic_fmt",
                "unwrap_failed",
                "expect_failed",
                "slice_index",
            ] {
                assert!(!name.contains(word), "{name}");
            }
        }
        assert!(seen > 50, "the library is stripped: nothing was checked");
    });
}

/// Access to global-dynamic thread-local storage can allocate; ours must be in the static block.
#[test]
fn has_static_thread_local_storage() {
    with_shim(|file| {
        let flags = dynamic(file)
            .into_iter()
            .find(|(tag, _)| *tag == u64::from(elf::DT_FLAGS))
            .map_or(0, |(_, value)| value);
        assert_ne!(flags & u64::from(elf::DF_STATIC_TLS), 0);
        let header = file.elf_header();
        assert_eq!(header.e_machine(file.endian()), elf::EM_X86_64);
        for symbol in symbols(file) {
            assert_ne!(symbol.name, "__tls_get_addr");
        }
    });
}

/// The list of recorded calls in the documentation is the hook table; `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_documented_calls_are_the_table() {
    let mut text = String::from(
        "# Recorded calls\n\nWritten from the hook table, `shim/abi/src/hooks.rs`. \"Asked as\" is the name for `cuGetProcAddress` and the \
         first CUDA version that answers with the symbol.\n\n| id | symbol | asked as | what it does |\n|---|---|---|---|\n",
    );
    for hook in HOOKS {
        text.push_str(&format!(
            "| {} | `{}({})` | {} {} | {} |\n",
            hook.id as u16,
            hook.symbol,
            hook.arguments.join(", "),
            hook.asked,
            hook.since,
            hook.doc.trim()
        ));
    }
    golden("docs/CALLS.md", &text);
}

/// So is the list that the C programs make their calls from.
#[test]
fn the_programs_call_every_row() {
    let mut text = String::from(
        "/* Written from the hook table: exported symbol; name, version and flags for cuGetProcAddress. */\n#define ROWS(X) \\\n",
    );
    for hook in HOOKS.iter().filter(|hook| hook.when != When::Door) {
        let flags = if hook.flavor == Flavor::PerThread {
            2
        } else {
            0
        };
        text.push_str(&format!(
            "    X({}, {}, {}, {flags}) \\\n",
            hook.symbol, hook.asked, hook.since
        ));
    }
    text.push('\n');
    golden("tests/programs/c/rows.h", &text);
}

/// Holds a file of the repository against what it must be; `UPDATE_GOLDEN=1` writes it anew.
fn golden(path: &str, text: &str) {
    let path = native::root().join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("the repository is writable");
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        held == text,
        "{} is not what the table says",
        path.display()
    );
}
