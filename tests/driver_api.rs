//! The hook table against NVIDIA's own headers and libraries (`tests/data/driver-api`): a row with a wrong width reads or writes beside an
//! argument, one with a wrong offset records another field, one that is missing lets memory go unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gpushim_abi::effect::{ArrayShape, node, tile};
use gpushim_abi::hooks::{Flavor, HOOKS};

/// Widths of the arguments, by the types of the row.
macro_rules! widths {
    ($( #[doc = $doc:literal] $id:literal => $sym:ident ($($arg:ident: $ty:ty),*) { $($rest:tt)* } )*) => {
        const WIDTHS: &[(&str, &[usize])] = &[ $( (stringify!($sym), &[$(size_of::<$ty>()),*]) ),* ];
    };
}
#[allow(unused_imports, reason = "the table's types are named by its rows")]
mod table {
    use core::ffi::{c_int, c_uint, c_void};

    use gpushim_abi::hooks::*;

    gpushim_abi::for_each_hook!(widths);

    pub(super) fn widths() -> &'static [(&'static str, &'static [usize])] {
        WIDTHS
    }
}

/// A table's rows, by the names of its columns.
fn rows(name: &str) -> Vec<BTreeMap<String, String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/driver-api");
    let text = fs::read_to_string(path.join(name)).expect("the data is in the checkout");
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().expect("a header").split('\t').collect();
    lines
        .map(|line| {
            let names = columns.iter().map(|column| (*column).to_owned());
            names.zip(line.split('\t').map(str::to_owned)).collect()
        })
        .collect()
}

fn symbols() -> BTreeMap<String, BTreeMap<String, String>> {
    let rows = rows("symbols.tsv");
    assert!(rows.len() > 700);
    rows.into_iter()
        .map(|row| (row["symbol"].clone(), row))
        .collect()
}

#[test]
fn everything_that_must_or_should_be_recorded_is() {
    let ours: BTreeSet<&str> = HOOKS.iter().map(|hook| hook.symbol).collect();
    let mut wanted = 0;
    for (symbol, row) in &symbols() {
        if matches!(row["hook"].as_str(), "must" | "should") {
            assert!(ours.contains(symbol.as_str()), "{symbol}");
            wanted += 1;
        }
    }
    assert!(wanted >= 183, "{wanted}");
}

#[test]
fn names_versions_and_flavours_are_those_of_the_drivers() {
    let symbols = symbols();
    let thresholds = rows("gpa_thresholds.tsv");
    let answers = |hook: &gpushim_abi::hooks::Hook| {
        let row = thresholds.iter().find(|row| row["base_name"] == hook.asked);
        let row = row.unwrap_or_else(|| panic!("{} is asked for by no name", hook.symbol));
        row.iter()
            .filter(|(column, _)| match hook.flavor {
                Flavor::Legacy => column.starts_with("legacy"),
                Flavor::PerThread => column.starts_with("per-thread"),
            })
            .any(|(_, cell)| {
                let answer = format!("{}:{}", hook.since, hook.symbol);
                cell.split(' ').any(|one| one == answer)
            })
    };
    for hook in HOOKS {
        let row = &symbols[hook.symbol];
        assert_eq!(row["base_name"], hook.asked, "{}", hook.symbol);
        assert_eq!(row["since_cuda"], hook.since.to_string(), "{}", hook.symbol);
        let flavor = match row["stream_variant"].as_str() {
            "none" => Flavor::Legacy,
            _ => Flavor::PerThread,
        };
        assert_eq!(flavor, hook.flavor, "{}", hook.symbol);
        assert!(answers(hook), "{}", hook.symbol);
    }
}

#[test]
fn arguments_are_as_wide_as_in_the_headers() {
    let symbols = symbols();
    assert_eq!(table::widths().len(), HOOKS.len());
    for (symbol, widths) in table::widths() {
        let sizes = &symbols[*symbol]["abi_sizes"];
        let inside = sizes
            .split_once('(')
            .and_then(|(_, rest)| rest.strip_suffix(')'))
            .expect("a list in brackets");
        let wanted: Vec<usize> = inside
            .split(", ")
            .filter(|one| !one.is_empty())
            .map(
                |one| match one.split_once(':').expect("a name and a width").1 {
                    "u32" | "i32" | "enum32" => 4,
                    "u64" | "i64" | "ptr64" | "struct8B-by-value" => 8,
                    "struct64B-by-value" => 64,
                    other => panic!("{symbol}: {other}"),
                },
            )
            .collect();
        assert_eq!(*widths, wanted.as_slice(), "{symbol}");
    }
}

/// Offset and size of a field.
fn layout(structs: &[BTreeMap<String, String>], name: &str, field: &str) -> (usize, usize) {
    let row = structs
        .iter()
        .find(|row| row["struct"] == name && row["field"] == field);
    let row = row.unwrap_or_else(|| panic!("{name}.{field}"));
    let number = |column: &str| row[column].parse().expect("a number");
    (number("offset"), number("size"))
}

/// Which field each `field`, `field32` and `later` of the table means, by the row and the offset.
const FIELDS: &[(&str, usize, &str, &str)] = &[
    ("cuMemCreate", 0, "CUmemAllocationProp", "type"),
    ("cuMemCreate", 8, "CUmemAllocationProp", "location"),
    ("cuMemPrefetchBatchAsync", 0, "CUmemLocation", "type"),
    ("cuMemPrefetchBatchAsync_ptsz", 0, "CUmemLocation", "type"),
    (
        "cuMemDiscardAndPrefetchBatchAsync",
        0,
        "CUmemLocation",
        "type",
    ),
    (
        "cuMemDiscardAndPrefetchBatchAsync_ptsz",
        0,
        "CUmemLocation",
        "type",
    ),
    ("cuMemPoolCreate", 24, "CUmemPoolProps", "maxSize"),
    ("cuMemPoolCreate", 0, "CUmemPoolProps", "allocType"),
    ("cuMemPoolCreate", 8, "CUmemPoolProps", "location"),
    ("cuMemPoolSetAccess", 0, "CUmemAccessDesc", "location"),
    ("cuMemSetAccess", 0, "CUmemAccessDesc", "location"),
    ("cuMemGetDefaultMemPool", 0, "CUmemLocation", "type"),
    ("cuMemGetMemPool", 0, "CUmemLocation", "type"),
    ("cuMemSetMemPool", 0, "CUmemLocation", "type"),
    ("cuMulticastCreate", 8, "CUmulticastObjectProp", "size"),
    (
        "cuMulticastCreate",
        0,
        "CUmulticastObjectProp",
        "numDevices",
    ),
    (
        "cuMulticastCreate",
        16,
        "CUmulticastObjectProp",
        "handleTypes",
    ),
    (
        "cuLogicalEndpointCreate",
        8,
        "CUlogicalEndpointProp",
        "size",
    ),
    (
        "cuLogicalEndpointCreate",
        0,
        "CUlogicalEndpointProp",
        "type",
    ),
    (
        "cuImportExternalMemory",
        24,
        "CUDA_EXTERNAL_MEMORY_HANDLE_DESC",
        "size",
    ),
    (
        "cuImportExternalMemory",
        0,
        "CUDA_EXTERNAL_MEMORY_HANDLE_DESC",
        "type",
    ),
    (
        "cuImportExternalMemory",
        8,
        "CUDA_EXTERNAL_MEMORY_HANDLE_DESC",
        "handle.fd",
    ),
    (
        "cuExternalMemoryGetMappedBuffer",
        8,
        "CUDA_EXTERNAL_MEMORY_BUFFER_DESC",
        "size",
    ),
    (
        "cuExternalMemoryGetMappedBuffer",
        0,
        "CUDA_EXTERNAL_MEMORY_BUFFER_DESC",
        "offset",
    ),
    (
        "cuExternalMemoryGetMappedMipmappedArray",
        48,
        "CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC",
        "numLevels",
    ),
    (
        "cuImportExternalSemaphore",
        0,
        "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC",
        "type",
    ),
    (
        "cuGraphAddMemAllocNode",
        112,
        "CUDA_MEM_ALLOC_NODE_PARAMS_v1",
        "dptr",
    ),
    (
        "cuGraphAddMemAllocNode",
        104,
        "CUDA_MEM_ALLOC_NODE_PARAMS_v1",
        "bytesize",
    ),
    ("cuGraphAddNode", 0, "CUgraphNodeParams", "type"),
    ("cuGraphAddNode_v2", 0, "CUgraphNodeParams", "type"),
    ("cuGraphAddNode_v3", 0, "CUgraphNodeParams", "type"),
    (
        "cuGraphInstantiateWithParams",
        0,
        "CUDA_GRAPH_INSTANTIATE_PARAMS",
        "flags",
    ),
    (
        "cuGraphInstantiateWithParams_ptsz",
        0,
        "CUDA_GRAPH_INSTANTIATE_PARAMS",
        "flags",
    ),
];

/// `CUDA_RESOURCE_DESC` is in no table of layouts: its kind is its first word, and a union follows at 8, by `cuda.h`.
const BY_HAND: &[&str] = &["cuTexObjectCreate", "cuSurfObjectCreate"];

#[test]
fn struct_offsets_are_those_of_the_headers() {
    let structs = rows("struct_layouts.tsv");
    for (symbol, offset, name, field) in FIELDS {
        assert_eq!(
            layout(&structs, name, field).0,
            *offset,
            "{symbol}: {name}.{field}"
        );
    }
    // Every word of the table that has an offset is among them.
    let text = include_str!("../shim/abi/src/table.rs");
    let mut symbol = String::new();
    let mut seen = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" => cu") {
            let name = rest.split('(').next().expect("a name");
            symbol = format!("cu{name}");
        }
        if BY_HAND.contains(&symbol.as_str()) {
            continue;
        }
        for word in ["field(", "field32(", "later("] {
            for place in line.match_indices(word) {
                // "field(" is also the end of "…_field(", which no word is.
                let arguments = &line[place.0 + word.len()..];
                let offset = arguments.split([',', ')']).nth(1).expect("an offset");
                let offset: usize = offset.trim().parse().expect("a number");
                let known = FIELDS.iter().any(|(s, o, ..)| *s == symbol && *o == offset);
                assert!(known, "{symbol}: {word}…, {offset})");
                seen += 1;
            }
        }
    }
    assert!(seen >= FIELDS.len());
    // Locations are read as one word of eight bytes, at offset 8 of these.
    for name in ["CUmemAllocationProp", "CUmemPoolProps"] {
        assert_eq!(layout(&structs, name, "location.type").0, 8);
        assert_eq!(layout(&structs, name, "location.id").0, 12);
    }
    assert_eq!(
        layout(
            &structs,
            "CUDA_MEM_ALLOC_NODE_PARAMS_v1",
            "poolProps.location.type"
        )
        .0,
        8
    );
}

#[test]
fn array_descriptors_are_where_the_headers_have_them() {
    let structs = rows("struct_layouts.tsv");
    for (shape, name, prefix) in [
        (ArrayShape::Flat32, "CUDA_ARRAY_DESCRIPTOR_v1", ""),
        (ArrayShape::Flat, "CUDA_ARRAY_DESCRIPTOR_v2", ""),
        (ArrayShape::Solid32, "CUDA_ARRAY3D_DESCRIPTOR_v1", ""),
        (ArrayShape::Solid, "CUDA_ARRAY3D_DESCRIPTOR_v2", ""),
        (
            ArrayShape::External,
            "CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC",
            "arrayDesc.",
        ),
    ] {
        let at = |field: &str| layout(&structs, name, &format!("{prefix}{field}"));
        let wide = if shape.is_narrow() { 4 } else { 8 };
        let (width, height, depth) = shape.extents();
        assert_eq!(at("Width"), (width, wide), "{shape:?}");
        assert_eq!(at("Height"), (height, wide), "{shape:?}");
        if let Some(depth) = depth {
            assert_eq!(at("Depth"), (depth, wide), "{shape:?}");
        }
        let (format, channels, flags) = shape.format();
        assert_eq!(at("Format"), (format, 4), "{shape:?}");
        assert_eq!(at("NumChannels"), (channels, 4), "{shape:?}");
        if let Some(flags) = flags {
            assert_eq!(at("Flags"), (flags, 4), "{shape:?}");
        }
    }
}

#[test]
fn nodes_and_tiles_are_where_the_headers_have_them() {
    let structs = rows("struct_layouts.tsv");
    for (field, offset) in [
        ("type", node::TYPE),
        ("alloc.poolProps.location", node::ALLOC_LOCATION),
        ("alloc.bytesize", node::ALLOC_SIZE),
        ("alloc.dptr", node::ALLOC_ADDRESS),
        ("free.dptr", node::FREE_ADDRESS),
        ("graph.graph", node::CHILD_GRAPH),
    ] {
        assert_eq!(layout(&structs, "CUgraphNodeParams", field).0, offset);
    }
    for (field, offset) in [
        ("resource.array", tile::RESOURCE),
        ("resource.mipmap", tile::RESOURCE),
        ("subresourceType", tile::PART_TYPE),
        ("subresource.miptail.size", tile::TAIL_SIZE),
        ("memOperationType", tile::OPERATION),
        ("memHandle.memHandle", tile::HANDLE),
    ] {
        assert_eq!(layout(&structs, "CUarrayMapInfo", field).0, offset);
    }
    let row = structs
        .iter()
        .find(|row| row["struct"] == "CUarrayMapInfo")
        .expect("it is there");
    assert_eq!(row["sizeof"], tile::LEN.to_string());
}
