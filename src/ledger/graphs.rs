//! Graphs: nodes that allocate, what launches leave alive, stream captures.

use std::collections::HashMap;

use gpushim_abi::effect::Record;
use gpushim_abi::hooks::Class;
use gpushim_abi::layout::slot::CAPTURED;

use super::{Ledger, Object, Subject};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const FREES_AT_LAUNCH: u64 = 1;
/// In place of the id of a capture that was invalidated.
const INVALIDATED: u64 = u64::MAX;
/// Steps of launches that are followed, and steps that are kept. No program comes near; a broken file must not take hours, or all
/// memory.
const MOST_STEPS: u64 = 200_000_000;
const MOST_KEPT: usize = 8 << 20;

/// Something that a graph's nodes do to memory, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The node as an object that is not alive yet.
    Alloc(Object),
    Free(u64),
}

/// A graph.
#[derive(Clone, Debug, Default)]
struct Graph {
    steps: Vec<Step>,
}

/// An executable graph.
#[derive(Clone, Debug)]
struct Exec {
    steps: Vec<Step>,
    frees_at_launch: bool,
    launches: u64,
}

/// A stream that is being captured.
#[derive(Clone, Debug)]
struct Capture {
    stream: u64,
    graph: u64,
    steps: Vec<Step>,
}

/// What is known of executable graphs, living and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphFacts {
    /// Nodes that allocate.
    pub nodes: u64,
    /// Their bytes.
    pub node_bytes: u64,
    /// Launches that were recorded.
    pub launches: u64,
}

/// Graphs, executables, captures.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    graphs: HashMap<u64, Graph>,
    execs: HashMap<u64, Exec>,
    captures: HashMap<u64, Capture>,
    /// Captures that ended without a graph.
    pub(super) failed_captures: u64,
    /// Executables that ended while something that they allocated was alive.
    pub(super) ended_alive: u64,
    steps_followed: u64,
    /// Steps of executables and of copies.
    kept: usize,
    /// Launches and copies that were not followed.
    pub(super) unfollowed: u64,
}

impl Ledger {
    /// Where a node belongs: to a capture, or to a graph.
    fn steps(&mut self, record: &Record) -> &mut Vec<Step> {
        if record.flags & CAPTURED != 0 {
            let capture = self.graphs.captures.entry(record.b);
            &mut capture
                .or_insert(Capture {
                    stream: record.a,
                    graph: 0,
                    steps: Vec::new(),
                })
                .steps
        } else {
            &mut self.graphs.graphs.entry(record.a).or_default().steps
        }
    }

    /// A node that allocates was added: an address, and no memory yet.
    pub(super) fn node_allocates(&mut self, record: &Record) -> Subject {
        let object = Object {
            device: record.device(),
            ..self.object(record, Class::GraphBlock)
        };
        self.steps(record).push(Step::Alloc(object));
        Subject::on(object.device)
    }

    /// A node that frees was added.
    pub(super) fn node_frees(&mut self, record: &Record) {
        let address = record.address;
        self.steps(record).push(Step::Free(address));
    }

    /// A node that holds a copy of another graph was added.
    pub(super) fn node_holds(&mut self, record: &Record) {
        let held = self.copy(record.address);
        self.steps(record).extend(held);
    }

    /// The steps of a graph once more, as long as there is room.
    fn copy(&mut self, graph: u64) -> Vec<Step> {
        let graphs = &mut self.graphs;
        let Some(graph) = graphs.graphs.get(&graph) else {
            return Vec::new();
        };
        if graphs.kept + graph.steps.len() > MOST_KEPT {
            graphs.unfollowed += 1;
            return Vec::new();
        }
        graphs.kept += graph.steps.len();
        graph.steps.clone()
    }

    /// A graph was made; a clone has its original's nodes.
    pub(super) fn graph_born(&mut self, record: &Record) {
        let steps = self.copy(record.a);
        self.graphs.graphs.insert(record.address, Graph { steps });
    }

    /// A graph is gone. Its executables and what they allocated are not.
    pub(super) fn graph_ended(&mut self, handle: u64) {
        self.graphs.graphs.remove(&handle);
    }

    /// A graph was made executable.
    pub(super) fn exec_born(&mut self, record: &Record) {
        let exec = Exec {
            steps: self.copy(record.a),
            frees_at_launch: record.b & FREES_AT_LAUNCH != 0,
            launches: 0,
        };
        self.graphs.execs.insert(record.address, exec);
    }

    /// An executable graph is gone; what it allocated stays.
    pub(super) fn exec_ended(&mut self, handle: u64) {
        if let Some(exec) = self.graphs.execs.remove(&handle) {
            self.graphs.kept = self.graphs.kept.saturating_sub(exec.steps.len());
            let alive = exec.steps.iter().any(|step| {
                matches!(step, Step::Alloc(node)
                    if self.objects.find(Class::GraphBlock, node.address).is_some_and(|o| o.owner == handle))
            });
            self.graphs.ended_alive += u64::from(alive);
        }
    }

    /// An executable graph ran: its nodes allocate and free, in their order.
    pub(super) fn launched(&mut self, record: &Record) -> Subject {
        let handle = record.address;
        let Some(exec) = self.graphs.execs.get_mut(&handle) else {
            return Subject::on(record.device());
        };
        exec.launches += 1;
        if exec.steps.is_empty() {
            return Subject::on(record.device());
        }
        self.graphs.steps_followed += exec.steps.len() as u64;
        if self.graphs.steps_followed > MOST_STEPS {
            self.graphs.unfollowed += 1;
            return Subject::on(record.device());
        }
        let frees_at_launch = exec.frees_at_launch;
        let steps = std::mem::take(&mut exec.steps);
        for step in &steps {
            match *step {
                Step::Alloc(node) => {
                    let held = self.objects.find(Class::GraphBlock, node.address);
                    let again = held.is_some_and(|o| o.class == Class::GraphBlock);
                    // What the last launch left is freed by this one, where the executable was made so.
                    if again && frees_at_launch {
                        self.end_object(record.at_ns, Class::GraphBlock, node.address);
                    }
                    let object = Object {
                        born_ns: record.at_ns,
                        owner: handle,
                        ..node
                    };
                    self.keep(record, object);
                }
                Step::Free(address) => {
                    self.end_object(record.at_ns, Class::GraphBlock, address);
                }
            }
        }
        if let Some(exec) = self.graphs.execs.get_mut(&handle) {
            exec.steps = steps;
        }
        Subject::on(record.device())
    }

    /// A stream begins to be captured.
    pub(super) fn capture_began(&mut self, stream: u64, id: u64, graph: u64) {
        self.graphs.captures.insert(
            id,
            Capture {
                stream,
                graph,
                steps: Vec::new(),
            },
        );
    }

    /// A capture is over; its graph has the nodes, if there is one.
    pub(super) fn capture_ended(&mut self, record: &Record, id: u64) {
        // One that was invalidated has no id any more.
        let id = if id == INVALIDATED {
            let captures = &self.graphs.captures;
            captures
                .iter()
                .find(|(_, capture)| capture.stream == record.a)
                .map_or(id, |(id, _)| *id)
        } else {
            id
        };
        let Some(capture) = self.graphs.captures.remove(&id) else {
            return;
        };
        let handle = match (record.failed(), record.address, capture.graph) {
            (true, ..) | (_, 0, 0) => {
                self.graphs.failed_captures += u64::from(record.failed());
                return;
            }
            (_, 0, graph) => graph,
            (_, graph, _) => graph,
        };
        if capture.graph == 0 {
            let object = self.object(record, Class::Graph);
            self.keep(record, object);
            self.graphs.graphs.insert(handle, Graph::default());
        }
        let graph = self.graphs.graphs.entry(handle).or_default();
        graph.steps.extend(capture.steps);
    }

    /// A device's graphs hold so much of it from now on.
    pub(super) fn graphs_hold(&mut self, at_ns: u64, device: u8, bytes: u64) {
        let books = self.devices.entry(device).or_default();
        let before = std::mem::replace(&mut books.graphs_reserved, bytes);
        books.graphs_peak = books.graphs_peak.max(bytes);
        books.graphs_said_ns = Some(at_ns);
        self.adjust(at_ns, device, before, bytes);
    }

    /// What is known of an executable graph.
    pub fn exec_facts(&self, handle: u64) -> GraphFacts {
        let Some(exec) = self.graphs.execs.get(&handle) else {
            return GraphFacts::default();
        };
        let mut facts = GraphFacts {
            launches: exec.launches,
            ..GraphFacts::default()
        };
        for step in &exec.steps {
            if let Step::Alloc(node) = step {
                facts.nodes += 1;
                facts.node_bytes = facts.node_bytes.saturating_add(node.size);
            }
        }
        facts
    }

    /// Captures that ended without a graph; executables that ended while something of theirs was alive; launches that were too
    /// many to be followed.
    pub fn graph_troubles(&self) -> (u64, u64, u64) {
        let Graphs {
            failed_captures,
            ended_alive,
            unfollowed,
            ..
        } = self.graphs;
        (failed_captures, ended_alive, unfollowed)
    }
}
