//! The books as tables: what happens, and what is alive afterwards. Calls are written by their names in `cuda.h`.

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::HookId::{self, *};
use gpushim_abi::layout::slot;

use super::*;
use crate::capture::Tables;

const MIB: u64 = 1 << 20;
const X: u64 = 0x7f00_0000_0000;
const Y: u64 = 0x7f00_1000_0000;

/// A record in the making; its place in the list is its time and number.
type Step = Record;
/// What the case is about, what happens, what is alive afterwards.
type Case<'c> = (&'c str, &'c [Step], &'c [(Class, u64)]);

fn call(call: HookId, address: u64, size: u64) -> Step {
    let hook = call.hook();
    Record {
        sequence: 0,
        at_ns: 0,
        call: call as u16,
        result: if hook.when == gpushim_abi::hooks::When::Before {
            slot::RESULT_PENDING
        } else {
            0
        },
        address,
        size,
        a: 0,
        b: 0,
        thread: 1,
        stack: 0,
        context: 0,
        stream: 0,
        device: if matches!(hook.kind, gpushim_abi::hooks::Kind::Alloc(_)) {
            0
        } else {
            slot::DEVICE_UNKNOWN
        },
        flags: 0,
    }
}

fn on(device: u8, context: u16, step: Step) -> Step {
    Record {
        device,
        context,
        ..step
    }
}

fn with(a: u64, b: u64, step: Step) -> Step {
    Record { a, b, ..step }
}

fn retain(device: u8, handle: u64) -> Step {
    on(
        device,
        slot::CONTEXT_NONE,
        call(cuDevicePrimaryCtxRetain, handle, 0),
    )
}

fn release(device: u8) -> Step {
    on(device, 0, call(cuDevicePrimaryCtxRelease_v2, 0, 0))
}

fn create(device: u8, handle: u64) -> Step {
    on(device, 0, call(cuCtxCreate_v2, handle, 0))
}

/// Contexts by index: the primary ones of devices 0 and 1, and one that is created.
fn tables() -> Tables {
    Tables::with_contexts(&[(0xc0, 0), (0xc1, 1), (0xcc, 0)])
}

fn after(steps: &[Step]) -> Ledger {
    let mut ledger = Ledger::default();
    for (index, step) in steps.iter().enumerate() {
        let record = Record {
            sequence: index as u64,
            at_ns: 1000 + index as u64,
            ..*step
        };
        ledger.take(&record, &tables());
    }
    ledger
}

#[test]
fn what_is_alive_after_these_calls() {
    let cases: &[Case<'_>] = &[
        (
            "a free of any kind frees what has its address",
            &[
                call(cuMemAlloc_v2, X, MIB),
                call(cuMemAllocManaged, Y, MIB),
                call(cuMemFreeAsync, X, 0),
                call(cuMemFree_v2, Y, 0),
            ],
            &[],
        ),
        (
            "a block of a pool is freed by the plain free too",
            &[call(cuMemAllocAsync, X, MIB), call(cuMemFree_v2, X, 0)],
            &[],
        ),
        (
            "pinned memory at the address of device memory is another thing",
            &[
                call(cuMemAlloc_v2, X, MIB),
                call(cuMemHostAlloc, X, MIB),
                call(cuMemFreeHost, X, 0),
            ],
            &[(Class::Linear, X)],
        ),
        (
            "unregistering frees no pinned memory, and the other way round",
            &[
                call(cuMemHostRegister_v2, X, MIB),
                call(cuMemHostAlloc, X, MIB),
                call(cuMemHostUnregister, X, 0),
            ],
            &[(Class::Pinned, X)],
        ),
        (
            "an address that is handed out again was freed unseen",
            &[
                call(cuMemAlloc_v2, X, MIB),
                call(cuMemAllocAsync, X, 2 * MIB),
            ],
            &[(Class::PoolBlock, X)],
        ),
        (
            "destroying a context takes its memory, pinned and managed too, and leaves the other contexts'",
            &[
                create(0, 0xcc),
                on(0, 2, call(cuMemAlloc_v2, X, MIB)),
                on(0, 2, call(cuMemAllocManaged, X + MIB, MIB)),
                on(0, 2, call(cuMemHostAlloc, X, MIB)),
                on(0, 2, call(cuMemHostRegister_v2, X, MIB)),
                on(0, 0, call(cuMemAlloc_v2, Y, MIB)),
                call(cuCtxDestroy_v2, 0xcc, 0),
            ],
            &[(Class::Linear, Y)],
        ),
        (
            "pools, physical memory and reserved addresses outlive their context",
            &[
                retain(0, 0xc0),
                call(cuMemAllocAsync, X, MIB),
                with(1, 1, call(cuMemCreate, 0xaa, MIB)),
                call(cuMemAddressReserve, Y, MIB),
                release(0),
            ],
            &[
                (Class::PoolBlock, X),
                (Class::Physical, 0xaa),
                (Class::Reserved, Y),
            ],
        ),
        (
            "the last of two references ends a primary context",
            &[
                retain(0, 0xc0),
                retain(0, 0xc0),
                call(cuMemAlloc_v2, X, MIB),
                release(0),
            ],
            &[(Class::Linear, X)],
        ),
        (
            "a release on one device is none on the other",
            &[
                retain(0, 0xc0),
                retain(1, 0xc1),
                on(0, 0, call(cuMemAlloc_v2, X, MIB)),
                on(1, 1, call(cuMemAlloc_v2, Y, MIB)),
                release(1),
            ],
            &[(Class::Linear, X)],
        ),
        (
            "a reset asks for no references",
            &[
                retain(0, 0xc0),
                retain(0, 0xc0),
                call(cuMemAlloc_v2, X, MIB),
                on(0, 0, call(cuDevicePrimaryCtxReset_v2, 0, 0)),
            ],
            &[],
        ),
        (
            "a context whose beginning was not seen is not ended by a release",
            &[call(cuMemAlloc_v2, X, MIB), release(0)],
            &[(Class::Linear, X)],
        ),
        (
            "attaching holds a context, detaching lets it go",
            &[
                create(0, 0xcc),
                call(cuCtxAttach, 0xcc, 0),
                on(0, 2, call(cuMemAlloc_v2, X, MIB)),
                call(cuCtxDetach, 0xcc, 0),
                on(0, 0, call(cuMemAlloc_v2, Y, MIB)),
                call(cuCtxDetach, 0xcc, 0),
            ],
            &[(Class::Linear, Y)],
        ),
        (
            "a handle that is given out again is another life",
            &[
                create(0, 0xcc),
                on(0, 2, call(cuMemAlloc_v2, X, MIB)),
                call(cuCtxDestroy_v2, 0xcc, 0),
                create(0, 0xcc),
                on(0, 2, call(cuMemAlloc_v2, Y, MIB)),
            ],
            &[(Class::Linear, Y)],
        ),
        (
            "memory that was freed and handed to another context dies with that one",
            &[
                create(0, 0xcc),
                on(0, 2, call(cuMemAlloc_v2, X, MIB)),
                call(cuMemFree_v2, X, 0),
                on(0, 0, call(cuMemAlloc_v2, X, MIB)),
                call(cuCtxDestroy_v2, 0xcc, 0),
            ],
            &[(Class::Linear, X)],
        ),
        (
            "a released handle that is mapped holds its memory",
            &[
                with(1, 1, call(cuMemCreate, 0xaa, MIB)),
                with(0xaa, 0, call(cuMemMap, X, MIB)),
                call(cuMemRelease, 0xaa, 0),
            ],
            &[(Class::Physical, 0xaa)],
        ),
        (
            "unmapping the last of two mappings lets it go",
            &[
                with(1, 1, call(cuMemCreate, 0xaa, MIB)),
                with(0xaa, 0, call(cuMemMap, X, MIB)),
                with(0xaa, 0, call(cuMemMap, Y, MIB)),
                call(cuMemRelease, 0xaa, 0),
                call(cuMemUnmap, X, MIB),
                call(cuMemUnmap, Y, MIB),
            ],
            &[],
        ),
        (
            "one unmapping can take many mappings",
            &[
                with(1, 1, call(cuMemCreate, 0xaa, MIB)),
                with(1, 1, call(cuMemCreate, 0xbb, MIB)),
                with(0xaa, 0, call(cuMemMap, X, MIB)),
                with(0xbb, 0, call(cuMemMap, X + MIB, MIB)),
                call(cuMemRelease, 0xaa, 0),
                call(cuMemRelease, 0xbb, 0),
                call(cuMemUnmap, X, 2 * MIB),
            ],
            &[],
        ),
        (
            "a handle's number may mean another object while a mapping holds the first",
            &[
                with(1, 1, call(cuMemCreate, 0xaa, MIB)),
                with(0xaa, 0, call(cuMemMap, X, MIB)),
                call(cuMemRelease, 0xaa, 0),
                with(1, 1, call(cuMemCreate, 0xaa, 2 * MIB)),
                call(cuMemRelease, 0xaa, 0),
            ],
            &[(Class::Physical, 0xaa)],
        ),
    ];
    for (what, steps, wanted) in cases {
        let alive: Vec<(Class, u64)> = after(steps)
            .alive()
            .iter()
            .map(|object| (object.class, object.address))
            .collect();
        assert_eq!(alive, *wanted, "{what}");
    }
}

fn flagged(flags: u8, step: Step) -> Step {
    Record { flags, ..step }
}

/// A green context's memory is the primary one's; a reset keeps the references.
#[test]
fn references_to_a_primary_context_outlast_its_reset() {
    let reset = || on(0, 0, call(cuDevicePrimaryCtxReset_v2, 0, 0));
    let ledger = after(&[
        retain(0, 0xc0),
        reset(),
        retain(0, 0xc0),
        on(0, 0, call(cuMemAlloc_v2, X, MIB)),
        release(0),
    ]);
    assert_eq!(ledger.devices()[&0].live, MIB);
    let [first, second] = ledger.lives() else {
        panic!("two lives");
    };
    assert_eq!(first.ended.map(|(_, how)| how), Some(End::Reset));
    assert_eq!((second.references, second.ended), (1, None));
    let green = on(0, slot::CONTEXT_NONE, call(cuGreenCtxCreate, 0x9, 0));
    let ledger = after(&[
        green,
        on(0, 0, call(cuMemAlloc_v2, X, MIB)),
        call(cuGreenCtxDestroy, 0x9, 0),
    ]);
    assert_eq!(ledger.devices()[&0].live, 0);
    assert_eq!(ledger.lives()[0].reclaimed, (1, MIB));
}

/// The device is charged for what a pool holds, never for its blocks beside it.
#[test]
fn a_pool_is_charged_once() {
    let says = |bytes| {
        flagged(
            slot::OBSERVED,
            on(0, 0, with(5, bytes, call(cuMemPoolGetAttribute, 0xb0, 0))),
        )
    };
    let block = |at| with(0, 0xb0, call(cuMemAllocAsync, at, 5 * MIB));
    let live = |steps: &[Step]| after(steps).devices()[&0].live;
    assert_eq!(live(&[block(X)]), 5 * MIB);
    assert_eq!(live(&[block(X), says(32 * MIB), block(Y)]), 32 * MIB);
    let freed = call(cuMemFreeAsync, X, 0);
    assert_eq!(live(&[block(X), says(32 * MIB), freed]), 32 * MIB);
    assert_eq!(live(&[block(X), says(32 * MIB), freed, says(0)]), 0);
    // The answer of the program's own question counts like the recorder's.
    assert_eq!(live(&[block(X), flagged(0, says(64 * MIB))]), 64 * MIB);
    let pool = &after(&[block(X), says(32 * MIB)]).pools()[0].clone();
    assert_eq!((pool.blocks, pool.requested), (1, 5 * MIB));
}

/// A captured allocation is memory at the launch, and stays when graph and executable are gone.
#[test]
fn graphs_allocate_when_they_are_launched() {
    let captured = |step| flagged(slot::CAPTURED, with(0x5, 77, step));
    let capture = [
        with(0, 77, call(cuStreamBeginCapture_v2, 0x5, 0)),
        captured(call(cuMemAllocAsync, X, 4 * MIB)),
        with(0x5, 77, call(cuStreamEndCapture, 0x6, 1)),
        with(0x6, 1, call(cuGraphInstantiateWithFlags, 0x7, 0)),
    ];
    let run = |more: &[Step]| after(&[&capture, more].concat());
    let blocks = |ledger: &Ledger| {
        let alive = ledger.alive();
        let blocks = alive.iter().filter(|o| o.class == Class::GraphBlock);
        blocks.map(|o| o.size).collect::<Vec<_>>()
    };
    let launch = call(cuGraphLaunch, 0x7, 0);
    assert!(blocks(&run(&[])).is_empty());
    let twice = run(&[launch, launch]);
    assert_eq!(blocks(&twice), [4 * MIB]);
    assert_eq!(twice.surprises().reused, 0);
    let gone = run(&[
        launch,
        call(cuGraphExecDestroy, 0x7, 0),
        call(cuGraphDestroy, 0x6, 0),
    ]);
    assert_eq!(blocks(&gone), [4 * MIB]);
    assert_eq!(gone.graph_troubles(), (0, 1, 0));
    assert!(blocks(&run(&[launch, call(cuMemFreeAsync, X, 0)])).is_empty());
}

/// A capture that was invalidated says no id at its end; the stream tells which it was.
#[test]
fn a_capture_that_failed_leaves_nothing() {
    let ledger = after(&[
        with(0, 77, call(cuStreamBeginCapture_v2, 0x5, 0)),
        flagged(slot::CAPTURED, with(0x5, 77, call(cuMemAllocAsync, X, MIB))),
        Record {
            result: 901,
            ..with(0x5, u64::MAX, call(cuStreamEndCapture, 0, 1))
        },
    ]);
    assert_eq!(ledger.graph_troubles(), (1, 0, 0));
    assert!(ledger.alive().is_empty());
}

/// What comes back by its own descriptor is charged once, and goes with the last handle.
#[test]
fn memory_that_is_imported_from_oneself_is_charged_once() {
    let made = with(1, 1, call(cuMemCreate, 0xaa, 2 * MIB));
    let exported = with(6, 1, call(cuMemExportToShareableHandle, 0xaa, 0));
    let imported = with(6, 1, call(cuMemImportFromShareableHandle, 0xbb, 0));
    let released = |handle| call(cuMemRelease, handle, 0);
    let live = |steps: &[Step]| after(steps).devices()[&0].live;
    assert_eq!(live(&[made, exported, imported]), 2 * MIB);
    assert_eq!(live(&[made, exported, imported, released(0xaa)]), 2 * MIB);
    let gone = after(&[made, exported, imported, released(0xaa), released(0xbb)]);
    assert_eq!(gone.devices()[&0].live, 0);
    // Its descriptor may be open.
    assert_eq!(gone.adrift().len(), 1);
    // A stranger's memory is not charged here.
    let stranger = after(&[with(9, 1, call(cuMemImportFromShareableHandle, 0xbb, 0))]);
    assert_eq!(stranger.devices().get(&0).map_or(0, |books| books.live), 0);
}

/// A binding and a part of a sparse array hold memory like a mapping does.
#[test]
fn bindings_and_tiles_hold_memory() {
    let made = with(1, 1, call(cuMemCreate, 0xaa, 2 * MIB));
    let released = call(cuMemRelease, 0xaa, 0);
    let team = call(cuMulticastCreate, 0xee, 2 * MIB);
    let bound = with(0xaa, 0, call(cuMulticastBindMem, 0xee, 2 * MIB));
    let live = |steps: &[Step]| after(steps).devices()[&0].live;
    assert_eq!(live(&[made, team, bound, released]), 2 * MIB);
    let unbound = call(cuMulticastUnbind, 0xee, 2 * MIB);
    assert_eq!(live(&[made, team, bound, released, unbound]), 0);
    let over = call(cuMemRelease, 0xee, 0);
    assert_eq!(live(&[made, team, bound, released, over]), 0);
    let sparse = gpushim_abi::effect::ArrayFacts {
        width: 64,
        height: 64,
        depth: 0,
        format: 0x20,
        channels: 1,
        flags: gpushim_abi::effect::ArrayFacts::SPARSE,
    };
    let (a, b) = sparse.words();
    let array = with(a, b, call(cuArray3DCreate_v2, 0xdd, 0));
    let tile = with(0xaa, 5, call(cuMemMapArrayAsync, 0xdd, 0));
    assert_eq!(live(&[made, array, tile, released]), 2 * MIB);
    let taken = with(0, 5, call(cuMemMapArrayAsync, 0xdd, 0));
    assert_eq!(live(&[made, array, tile, released, taken]), 0);
    let ended = call(cuArrayDestroy, 0xdd, 0);
    assert_eq!(live(&[made, array, tile, released, ended]), 0);
}

/// Opening another process's allocation again gives the same address; each opening is closed once.
#[test]
fn an_ipc_mapping_is_closed_as_often_as_it_was_opened() {
    let opened = with(0x123, 1, call(cuIpcOpenMemHandle_v2, X, MIB));
    let closed = call(cuIpcCloseMemHandle, X, 0);
    let ledger = after(&[opened, opened, closed]);
    assert_eq!(ledger.alive()[0].held, 1);
    assert_eq!(ledger.devices()[&0].live, 0);
    assert!(after(&[opened, opened, closed, closed]).alive().is_empty());
}

/// The names of what was shared say later who freed it.
#[test]
fn an_export_knows_when_its_owner_let_go() {
    let ledger = after(&[
        call(cuMemAlloc_v2, X, MIB),
        with(0x77, 0, call(cuIpcGetMemHandle, X, 0)),
        with(0x77, 0, call(cuIpcGetMemHandle, X, 0)),
        call(cuMemFree_v2, X, 0),
    ]);
    let [export] = ledger.exports() else {
        panic!("one export");
    };
    assert_eq!((export.name, export.count), (0x77, 2));
    assert_eq!((export.object.size, export.ended_ns), (MIB, Some(1003)));
}

#[test]
fn what_does_not_fit_is_counted() {
    let ledger = after(&[
        call(cuMemFree_v2, X, 0),
        call(cuMemFreeHost, X, 0),
        call(cuMemRelease, 0xaa, 0),
        // Freeing nothing is fine.
        call(cuMemFree_v2, 0, 0),
        call(cuMemAlloc_v2, X, MIB),
        call(cuMemAlloc_v2, X, MIB),
        create(0, 0xcc),
        create(0, 0xcc),
    ]);
    let surprises = ledger.surprises();
    assert_eq!((surprises.unknown_frees, surprises.reused), (3, 2));
    assert_eq!(ledger.devices()[&0].live, MIB);
}

/// A free says neither where nor how much: the books do.
#[test]
fn a_free_is_about_what_was_born_there() {
    let mut ledger = Ledger::default();
    let mut take = |step: Step| ledger.take(&step, &tables());
    let subject = |device, freed| Subject { device, freed };
    assert_eq!(
        take(on(1, 1, call(cuMemAlloc_v2, X, 5 * MIB))),
        subject(Some(1), 0)
    );
    assert_eq!(take(call(cuMemFree_v2, X, 0)), subject(Some(1), 5 * MIB));
    assert_eq!(take(call(cuMemFree_v2, X, 0)), subject(None, 0));
    take(retain(1, 0xc1));
    take(on(1, 1, call(cuMemAlloc_v2, X, MIB)));
    take(on(1, 1, call(cuMemHostAlloc, X, MIB)));
    // This context was there before its first recorded reference: the last recorded release may not be the last.
    assert_eq!(take(release(1)), subject(Some(1), 0));
    // Pinned memory goes too, and is no memory of the device.
    let reset = on(1, 1, call(cuDevicePrimaryCtxReset_v2, 0, 0));
    assert_eq!(take(reset), subject(Some(1), MIB));
    assert!(ledger.alive().is_empty());
}

/// The peak is exact, with its time, also where one call frees much.
#[test]
fn the_peak_is_the_greatest_that_was_alive_at_a_time() {
    let ledger = after(&[
        create(0, 0xcc),
        on(0, 2, call(cuMemAlloc_v2, X, 3 * MIB)),
        on(0, 2, call(cuMemAlloc_v2, Y, 4 * MIB)),
        call(cuCtxDestroy_v2, 0xcc, 0),
        on(0, 0, call(cuMemAlloc_v2, X, 5 * MIB)),
    ]);
    let books = &ledger.devices()[&0];
    assert_eq!((books.peak, books.peak_ns), (7 * MIB, 1002));
    assert_eq!((books.live, books.allocated), (5 * MIB, 12 * MIB));
    assert_eq!((books.allocations, books.frees), (3, 2));
}

/// Rounding as measured on driver 580.
#[test]
fn footprints_are_those_of_the_card() {
    let packed = |count: u64, size| -> Vec<Step> {
        (0..count)
            .map(|n| call(cuMemAlloc_v2, X + n * 2 * MIB, size))
            .collect()
    };
    for (steps, mib) in [
        (packed(64, 1), 2),
        (packed(64, 512), 2),
        (packed(64, 64 << 10), 4),
        (packed(64, MIB), 64),
        (packed(1, MIB + 1), 2),
        (packed(1, 2 * MIB + 1), 4),
        (packed(1, 3 * MIB), 4),
        (packed(1, 10 * MIB), 10),
        (packed(1, 20_975_616), 22),
    ] {
        assert_eq!(footprint(after(&steps).alive()), mib * MIB);
    }
}

/// Numbers from a file may be anything: no sum of them overflows.
#[test]
fn absurd_sizes_are_survived() {
    let ledger = after(&[
        call(cuMemAlloc_v2, X, u64::MAX),
        call(cuMemAlloc_v2, Y, u64::MAX),
        with(1, 1, call(cuMemCreate, 0xaa, u64::MAX)),
        with(0xaa, 0, call(cuMemMap, u64::MAX, u64::MAX)),
        call(cuMemUnmap, u64::MAX, u64::MAX),
        call(cuMemFree_v2, X, 0),
    ]);
    assert_eq!(footprint(ledger.alive()), u64::MAX);
}
