//! Graphs with memory nodes, and stream capture.

use core::ffi::{c_int, c_uint, c_void};
use std::cell::Cell;
use std::thread;

use gpushim_abi::hooks::{
    CUdevice, CUdeviceptr, CUgraph, CUgraphExec, CUgraphNode, CUstream, Opaque, Text,
};

use super::contexts::current;
use super::memory::is_null;
use super::streams::check_stream;
use crate::entry::{
    Answer, CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, INVALID_DEVICE, INVALID_HANDLE,
    INVALID_VALUE, driver_calls, ledger, out,
};
use crate::ledger::{Capture, Exec, Kind, Object, Step};

/// Modes of a capture and of a thread.
const GLOBAL: c_uint = 0;
const THREAD_LOCAL: c_uint = 1;
const RELAXED: c_uint = 2;
/// Kinds of nodes.
const CHILD: c_uint = 4;
const ALLOCATES: c_uint = 10;
const FREES: c_uint = 11;
/// Flags of an executable graph.
const FREES_AT_LAUNCH: u64 = 1;
const UPLOADED: u64 = 2;

thread_local! {
    static MODE: Cell<c_uint> = const { Cell::new(GLOBAL) };
}

/// The graph that a stream is captured into.
pub(super) fn capturing(stream: CUstream) -> Result<Option<u64>, c_int> {
    match ledger().captures.get(&(stream as u64)) {
        Some(capture) if capture.is_invalid => Err(CAPTURE_INVALIDATED),
        Some(capture) => Ok(Some(capture.graph)),
        None => Ok(None),
    }
}

/// A call that may not be made while a stream is captured: it fails, and ends the captures that forbid it, as seen on driver 580.
pub(super) fn allowed() -> Answer {
    if MODE.get() == RELAXED {
        return Ok(());
    }
    let here = thread::current().id();
    let mut forbidden = false;
    for capture in ledger().captures.values_mut() {
        let mine = capture.thread == here && capture.mode != RELAXED;
        let of_all = capture.mode == GLOBAL && MODE.get() == GLOBAL;
        if mine || of_all {
            capture.is_invalid = true;
            forbidden = true;
        }
    }
    if forbidden {
        Err(CAPTURE_UNSUPPORTED)
    } else {
        Ok(())
    }
}

/// A node that allocates: its address.
pub(super) fn add_block(graph: u64, context: u64, size: u64) -> Result<u64, c_int> {
    let device = ledger().context(context)?.device;
    add_alloc(graph, device, size)
}

fn add_alloc(graph: u64, device: usize, size: u64) -> Result<u64, c_int> {
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let mut ledger = ledger();
    if !ledger.graphs.contains_key(&graph) {
        return Err(INVALID_VALUE);
    }
    let address = ledger.addresses(size)?;
    if let Some(steps) = ledger.graphs.get_mut(&graph) {
        steps.push(Step::Alloc {
            address,
            size,
            device,
        });
    }
    Ok(address)
}

/// A node that frees.
pub(super) fn add_free(graph: u64, address: u64) -> Answer {
    let mut ledger = ledger();
    // Only what a graph allocated.
    let known = ledger
        .graphs
        .values()
        .chain(ledger.execs.values().map(|exec| &exec.steps))
        .flatten()
        .any(|step| matches!(step, Step::Alloc { address: there, .. } if *there == address));
    let steps = ledger.graphs.get_mut(&graph).ok_or(INVALID_VALUE)?;
    let twice = steps
        .iter()
        .any(|step| matches!(step, Step::Free { address: there } if *there == address));
    if !known || twice {
        return Err(INVALID_VALUE);
    }
    steps.push(Step::Free { address });
    Ok(())
}

fn node(at: *mut CUgraphNode) -> Answer {
    let place = out!(at);
    place.check()?;
    place.put(ledger().handle() as CUgraphNode);
    Ok(())
}

fn word(at: *mut Opaque, offset: usize) -> u64 {
    // SAFETY: the program gave parameters that hold this word.
    unsafe {
        at.cast::<u8>()
            .wrapping_add(offset)
            .cast::<u64>()
            .read_unaligned()
    }
}

fn put_word(at: *mut Opaque, offset: usize, value: u64) {
    // SAFETY: as above, and writable.
    unsafe {
        at.cast::<u8>()
            .wrapping_add(offset)
            .cast::<u64>()
            .write_unaligned(value)
    };
}

/// Adds a node that allocates, from pool properties at one offset, the size at another, the address at the third.
fn alloc_node(
    graph: CUgraph,
    params: *mut Opaque,
    props: usize,
    size: usize,
    address: usize,
) -> Answer {
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    let location = word(params, props + 8);
    let device = ledger()
        .device((location >> 32) as c_int)
        .filter(|_| location as u32 == 1)
        .ok_or(INVALID_DEVICE)?;
    let made = add_alloc(graph as u64, device, word(params, size))?;
    put_word(params, address, made);
    Ok(())
}

fn add_node(at: *mut CUgraphNode, graph: CUgraph, params: *mut Opaque) -> Answer {
    let place = out!(at);
    place.check()?;
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    match word(params, 0) as c_uint {
        ALLOCATES => alloc_node(graph, params, 16, 120, 128)?,
        FREES => add_free(graph as u64, word(params, 16))?,
        CHILD => child(graph, word(params, 16))?,
        _ if !ledger().graphs.contains_key(&(graph as u64)) => return Err(INVALID_VALUE),
        _ => {}
    }
    node(at)
}

/// A copy of another graph; graphs that allocate cannot be copied.
fn child(graph: CUgraph, of: u64) -> Answer {
    let ledger = ledger();
    let fits = ledger.graphs.contains_key(&(graph as u64))
        && ledger.graphs.get(&of).is_some_and(Vec::is_empty);
    if fits { Ok(()) } else { Err(INVALID_VALUE) }
}

fn new_graph(at: *mut CUgraph) -> Answer {
    let place = out!(at);
    place.check()?;
    let mut ledger = ledger();
    let handle = ledger.handle();
    ledger.graphs.insert(handle, Vec::new());
    place.put(handle as CUgraph);
    Ok(())
}

fn instantiate(at: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Answer {
    let place = out!(at);
    place.check()?;
    let mut ledger = ledger();
    let steps = ledger
        .graphs
        .get(&(graph as u64))
        .ok_or(INVALID_VALUE)?
        .clone();
    // A graph that allocates has one executable at a time.
    let taken = steps.iter().any(|step| {
        let Step::Alloc { address, .. } = step else {
            return false;
        };
        ledger
            .execs
            .values()
            .flat_map(|exec| &exec.steps)
            .any(|s| matches!(s, Step::Alloc { address: there, .. } if there == address))
    });
    if taken {
        return Err(INVALID_VALUE);
    }
    let handle = ledger.handle();
    ledger.execs.insert(
        handle,
        Exec {
            steps,
            frees_at_launch: flags & FREES_AT_LAUNCH != 0,
            is_backed: false,
        },
    );
    if flags & UPLOADED != 0 {
        ledger.back(handle)?;
    }
    place.put(handle as CUgraphExec);
    Ok(())
}

fn upload(exec: CUgraphExec, stream: CUstream) -> Answer {
    current()?;
    check_stream(stream)?;
    let mut ledger = ledger();
    if !ledger.execs.contains_key(&(exec as u64)) {
        return Err(INVALID_VALUE);
    }
    ledger.back(exec as u64)
}

fn launch(exec: CUgraphExec, stream: CUstream) -> Answer {
    current()?;
    check_stream(stream)?;
    let exec = exec as u64;
    let mut ledger = ledger();
    let graph = ledger.execs.get(&exec).ok_or(INVALID_VALUE)?.clone();
    let alive = |ledger: &crate::ledger::Ledger, address: u64| {
        ledger
            .objects
            .get(&address)
            .is_some_and(|o| o.kind == Kind::GraphBlock)
    };
    for step in &graph.steps {
        if let Step::Alloc { address, .. } = *step
            && alive(&ledger, address)
            && !graph.frees_at_launch
        {
            return Err(INVALID_VALUE);
        }
    }
    ledger.back(exec)?;
    for step in &graph.steps {
        match *step {
            Step::Alloc {
                address,
                size,
                device,
            } => {
                let object = Object {
                    kind: Kind::GraphBlock,
                    size,
                    device,
                    context: 0,
                    owner: exec,
                    held: 1,
                };
                ledger.objects.insert(address, object);
            }
            Step::Free { address } => {
                if alive(&ledger, address) {
                    ledger.objects.remove(&address);
                }
            }
        }
    }
    Ok(())
}

fn begin(stream: CUstream, mode: c_uint, graph: Option<CUgraph>) -> Answer {
    current()?;
    check_stream(stream)?;
    if mode > RELAXED || (stream as u64) == 0 {
        return Err(CAPTURE_UNSUPPORTED);
    }
    let mut ledger = ledger();
    if ledger.captures.contains_key(&(stream as u64)) {
        return Err(CAPTURE_UNSUPPORTED);
    }
    let makes_graph = graph.is_none();
    let graph = match graph {
        Some(graph) if ledger.graphs.contains_key(&(graph as u64)) => graph as u64,
        Some(_) => return Err(INVALID_VALUE),
        None => {
            let handle = ledger.handle();
            ledger.graphs.insert(handle, Vec::new());
            handle
        }
    };
    ledger.captures_begun += 1;
    let id = ledger.captures_begun;
    ledger.captures.insert(
        stream as u64,
        Capture {
            id,
            mode,
            thread: thread::current().id(),
            graph,
            makes_graph,
            is_invalid: false,
        },
    );
    Ok(())
}

fn finish(stream: CUstream, at: *mut CUgraph) -> Answer {
    check_stream(stream)?;
    let mut ledger = ledger();
    let capture = ledger
        .captures
        .remove(&(stream as u64))
        .ok_or(INVALID_HANDLE)?;
    let place = out!(at);
    if capture.is_invalid {
        if capture.makes_graph {
            ledger.graphs.remove(&capture.graph);
        }
        place.put(core::ptr::null_mut());
        return Err(CAPTURE_INVALIDATED);
    }
    place.put(capture.graph as CUgraph);
    Ok(())
}

fn graph_value(device: CUdevice, attr: c_uint) -> Result<u64, c_int> {
    allowed()?;
    let ledger = ledger();
    let device = ledger.device(device).ok_or(INVALID_DEVICE)?;
    match attr {
        0 | 1 => Ok(ledger
            .objects
            .values()
            .filter(|o| o.kind == Kind::GraphBlock && o.device == device)
            .map(|o| o.size)
            .sum()),
        2 | 3 => Ok(ledger.devices[device].graphs_reserved),
        _ => Err(INVALID_VALUE),
    }
}

driver_calls! {
    /// An empty graph.
    Init fn cuGraphCreate(phGraph: *mut CUgraph, _flags: c_uint) { new_graph(phGraph) }
    /// A copy of a graph, which allocates nothing.
    Init fn cuGraphClone(phGraphClone: *mut CUgraph, originalGraph: CUgraph) {
        if ledger().graphs.get(&(originalGraph as u64)).is_none_or(|steps| !steps.is_empty()) {
            return Err(INVALID_VALUE);
        }
        new_graph(phGraphClone)
    }
    /// Ends a graph, and no memory.
    Init fn cuGraphDestroy(hGraph: CUgraph) { ledger().graphs.remove(&(hGraph as u64)).map(drop).ok_or(INVALID_VALUE) }
    /// A node that allocates.
    Init fn cuGraphAddMemAllocNode(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _n: usize, nodeParams: *mut Opaque) {
        let place = out!(at);
        place.check()?;
        alloc_node(hGraph, nodeParams, 0, 104, 112)?;
        node(at)
    }
    /// A node that frees.
    Init fn cuGraphAddMemFreeNode(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _n: usize, dptr: CUdeviceptr) {
        let place = out!(at);
        place.check()?;
        add_free(hGraph as u64, dptr)?;
        node(at)
    }
    /// A node of any kind.
    Init fn cuGraphAddNode(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _n: usize, nodeParams: *mut Opaque) { add_node(at, hGraph, nodeParams) }
    /// A node of any kind.
    Init fn cuGraphAddNode_v2(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _e: *const Opaque, _n: usize, nodeParams: *mut Opaque) {
        add_node(at, hGraph, nodeParams)
    }
    /// A node of any kind.
    Init fn cuGraphAddNode_v3(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _e: *const Opaque, _n: usize, nodeParams: *mut Opaque) {
        add_node(at, hGraph, nodeParams)
    }
    /// A node that holds a graph.
    Init fn cuGraphAddChildGraphNode(at: *mut CUgraphNode, hGraph: CUgraph, _d: *const CUgraphNode, _n: usize, childGraph: CUgraph) {
        let place = out!(at);
        place.check()?;
        child(hGraph, childGraph as u64)?;
        node(at)
    }
    /// An executable graph.
    Init fn cuGraphInstantiate(at: *mut CUgraphExec, hGraph: CUgraph, _node: *mut CUgraphNode, _log: *mut Text, _size: usize) { instantiate(at, hGraph, 0) }
    /// An executable graph.
    Init fn cuGraphInstantiate_v2(at: *mut CUgraphExec, hGraph: CUgraph, _node: *mut CUgraphNode, _log: *mut Text, _size: usize) { instantiate(at, hGraph, 0) }
    /// An executable graph.
    Init fn cuGraphInstantiateWithFlags(at: *mut CUgraphExec, hGraph: CUgraph, flags: u64) { instantiate(at, hGraph, flags & !UPLOADED) }
    /// An executable graph.
    Init fn cuGraphInstantiateWithParams(at: *mut CUgraphExec, hGraph: CUgraph, params: *mut Opaque) {
        if params.is_null() { Err(INVALID_VALUE) } else { instantiate(at, hGraph, word(params, 0)) }
    }
    /// An executable graph.
    Init fn cuGraphInstantiateWithParams_ptsz(at: *mut CUgraphExec, hGraph: CUgraph, params: *mut Opaque) {
        if params.is_null() { Err(INVALID_VALUE) } else { instantiate(at, hGraph, word(params, 0)) }
    }
    /// Parameters alone are taken over.
    Init fn cuGraphExecUpdate(exec: CUgraphExec, _graph: CUgraph, _node: *mut CUgraphNode, _result: *mut Opaque) {
        ledger().execs.get(&(exec as u64)).map(drop).ok_or(INVALID_VALUE)
    }
    /// Parameters alone are taken over.
    Init fn cuGraphExecUpdate_v2(exec: CUgraphExec, _graph: CUgraph, _result: *mut Opaque) {
        ledger().execs.get(&(exec as u64)).map(drop).ok_or(INVALID_VALUE)
    }
    /// Ends an executable graph, and no memory.
    Init fn cuGraphExecDestroy(exec: CUgraphExec) { ledger().execs.remove(&(exec as u64)).map(drop).ok_or(INVALID_VALUE) }
    /// Takes a graph's memory.
    Init fn cuGraphUpload(exec: CUgraphExec, hStream: CUstream) { upload(exec, hStream) }
    /// Takes a graph's memory.
    Init fn cuGraphUpload_ptsz(exec: CUgraphExec, hStream: CUstream) { upload(exec, hStream) }
    /// Runs a graph.
    Init fn cuGraphLaunch_ptsz(exec: CUgraphExec, hStream: CUstream) { launch(exec, hStream) }
    /// Gives back what graphs hold and do not use.
    Init fn cuDeviceGraphMemTrim(dev: CUdevice) {
        allowed()?;
        let mut ledger = ledger();
        let device = ledger.device(dev).ok_or(INVALID_DEVICE)?;
        ledger.trim_graphs(device);
        Ok(())
    }
    /// Used, 0, and reserved, 2.
    Init fn cuDeviceGetGraphMemAttribute(dev: CUdevice, attr: c_uint, value: *mut c_void) {
        let value = value.cast::<u64>();
        let place = out!(value);
        place.check()?;
        place.put(graph_value(dev, attr)?);
        Ok(())
    }
    /// The capture of a stream: status 1 active, 2 invalidated.
    Init fn cuStreamGetCaptureInfo(hStream: CUstream, status: *mut c_uint, id: *mut u64) {
        check_stream(hStream)?;
        let place = out!(status);
        place.check()?;
        let ledger = ledger();
        let capture = ledger.captures.get(&(hStream as u64));
        place.put(capture.map_or(0, |capture| if capture.is_invalid { 2 } else { 1 }));
        // As on driver 580, an invalidated capture has no id any more.
        if let Some(capture) = capture.filter(|capture| !capture.is_invalid) {
            out!(id).put(capture.id);
        }
        Ok(())
    }
    /// Whether a stream is captured.
    Init fn cuStreamIsCapturing(hStream: CUstream, status: *mut c_uint) {
        check_stream(hStream)?;
        let place = out!(status);
        place.check()?;
        place.put(ledger().captures.get(&(hStream as u64)).map_or(0, |capture| if capture.is_invalid { 2 } else { 1 }));
        Ok(())
    }
    /// Which calls a thread may make while streams are captured.
    Init fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        let place = out!(mode);
        place.check()?;
        // SAFETY: the program gave a place to read and write.
        let wanted = unsafe { mode.read_unaligned() };
        if wanted > RELAXED {
            return Err(INVALID_VALUE);
        }
        place.put(MODE.replace(wanted));
        Ok(())
    }
    /// Captures a stream, CUDA 10.0.
    Init fn cuStreamBeginCapture(hStream: CUstream) { begin(hStream, GLOBAL, None) }
    /// Captures a stream, CUDA 10.0.
    Init fn cuStreamBeginCapture_ptsz(hStream: CUstream) { begin(hStream, GLOBAL, None) }
    /// Captures a stream.
    Init fn cuStreamBeginCapture_v2(hStream: CUstream, mode: c_uint) { begin(hStream, mode, None) }
    /// Captures a stream.
    Init fn cuStreamBeginCapture_v2_ptsz(hStream: CUstream, mode: c_uint) { begin(hStream, mode, None) }
    /// Captures a stream into a graph.
    Init fn cuStreamBeginCaptureToGraph(hStream: CUstream, hGraph: CUgraph, _d: *const CUgraphNode, _e: *const Opaque, _n: usize, mode: c_uint) {
        begin(hStream, mode, Some(hGraph))
    }
    /// Captures a stream into a graph.
    Init fn cuStreamBeginCaptureToGraph_ptsz(hStream: CUstream, hGraph: CUgraph, _d: *const CUgraphNode, _e: *const Opaque, _n: usize, mode: c_uint) {
        begin(hStream, mode, Some(hGraph))
    }
    /// Captures a stream into a graph again.
    Init fn cuStreamBeginRecaptureToGraph(hStream: CUstream, mode: c_uint, hGraph: CUgraph, _f: *const c_void, _u: *mut c_void) { begin(hStream, mode, Some(hGraph)) }
    /// Captures a stream into a graph again.
    Init fn cuStreamBeginRecaptureToGraph_ptsz(hStream: CUstream, mode: c_uint, hGraph: CUgraph, _f: *const c_void, _u: *mut c_void) { begin(hStream, mode, Some(hGraph)) }
    /// Captures a stream for graphics.
    Init fn cuStreamBeginCaptureToCig(hStream: CUstream, _p: *mut Opaque) { begin(hStream, THREAD_LOCAL, None) }
    /// Captures a stream for graphics.
    Init fn cuStreamBeginCaptureToCig_ptsz(hStream: CUstream, _p: *mut Opaque) { begin(hStream, THREAD_LOCAL, None) }
    /// Ends a capture.
    Init fn cuStreamEndCapture(hStream: CUstream, phGraph: *mut CUgraph) {
        let place = out!(phGraph);
        place.check()?;
        finish(hStream, phGraph)
    }
    /// Ends a capture.
    Init fn cuStreamEndCapture_ptsz(hStream: CUstream, phGraph: *mut CUgraph) {
        let place = out!(phGraph);
        place.check()?;
        finish(hStream, phGraph)
    }
    /// Ends a capture for graphics.
    Init fn cuStreamEndCaptureToCig(hStream: CUstream) { finish(hStream, core::ptr::null_mut()) }
    /// Ends a capture for graphics.
    Init fn cuStreamEndCaptureToCig_ptsz(hStream: CUstream) { finish(hStream, core::ptr::null_mut()) }
}

/// Waits for nothing, or runs a graph; at once where a recorder's own cost is measured.
///
/// # Safety
/// The driver's own contract for this call.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn cuGraphLaunch(exec: CUgraphExec, hStream: CUstream) -> c_int {
    if is_null() {
        return 0;
    }
    crate::entry::run("cuGraphLaunch", crate::entry::Needs::Init, || {
        launch(exec, hStream)
    })
}
