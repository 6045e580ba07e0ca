//! From a recording to a trace, and from the driver's graph to another.

mod builder;
mod promises;
mod read_back;
mod shown;

use std::collections::{HashMap, HashSet};

use streamweir_hal::driver::NodeHandle;
use streamweir_trace::{Edge, Node, NodeId, NodeKind, Trace};

use self::builder::Builder;
pub(super) use self::promises::LeftOver;
pub(super) use self::read_back::ReadBack;
pub(super) use self::shown::{show, show_part};
use super::recorded::Recorded;

/// What was recorded and what the driver has, side by side.
pub(super) struct Traces {
    pub(super) declared: Trace,
    pub(super) read_back: Trace,
    /// For each node read back, the recorded one.
    pub(super) matching: Vec<Option<NodeId>>,
    /// The engine's nodes, of which nothing was recorded.
    pub(super) theirs: HashSet<NodeId>,
    /// The calls of which words are left over.
    pub(super) left_over: Vec<LeftOver>,
}

impl Traces {
    /// The driver's node of each node of the trace that a graph carries, which is
    /// in the order of the recording: a planned capture is emitted in another. Nodes
    /// that only the driver has stand at the end.
    pub(super) fn handles(&self, graph: &ReadBack) -> Vec<Option<NodeHandle>> {
        let mut handles = vec![None; self.declared.nodes.len()];
        for (&handle, matched) in graph.nodes.iter().zip(&self.matching) {
            match matched {
                Some(node) => {
                    handles[node.index()].get_or_insert(handle);
                }
                None => handles.push(Some(handle)),
            }
        }
        handles
    }

    /// Says where the engine's stream stands, which the engine may have moved on
    /// since our last node: after these nodes of the driver's. Branches of the engine
    /// that are open are the engine's to join, for otherwise the driver refuses to end
    /// its capture; that it does is an assumption until then.
    pub(super) fn end_origin_at(&mut self, graph: &ReadBack, frontier: &[NodeHandle]) {
        let Some(origin) = self.declared.streams.first_mut() else {
            return;
        };
        let followed: HashSet<NodeHandle> = graph.edges.iter().map(|edge| edge.from).collect();
        let mut open = Vec::new();
        let mut end = Vec::new();
        for (handle, node) in graph.nodes.iter().zip(&self.matching) {
            let Some(node) = *node else { continue };
            if frontier.contains(handle) {
                end.push(node);
            } else if !followed.contains(handle) && self.theirs.contains(&node) {
                open.push(node);
            }
        }
        end.extend(&open);
        origin.end.frontier = end;
        if !open.is_empty() {
            let lasts: Vec<String> = open
                .iter()
                .map(|&node| format!("{node} `{}`", self.declared.node(node).name))
                .collect();
            self.declared.assumptions.push(format!(
                "what the engine had not joined at detach is joined before its capture ends, as the driver asks: {}",
                lasts.join(", ")
            ));
        }
    }
}

/// The declared trace of work of which no driver has a graph.
pub(super) fn declared(recorded: &Recorded) -> Trace {
    Builder::new(&recorded.recording, &recorded.nodes, None).declared(
        recorded.name(),
        recorded.strands.all(),
        &recorded.blocks(),
    )
}

/// The declared trace of a capture, and the driver's. Every node of the graph must
/// have been recorded here; a node that was not stays unmatched, for the verifier
/// to complain about.
pub(super) fn of_graph(recorded: &Recorded, graph: &ReadBack) -> Traces {
    let builder = Builder::new(&recorded.recording, &recorded.nodes, Some(graph));
    let mut declared =
        builder.declared(recorded.name(), recorded.strands.all(), &recorded.blocks());
    declared.reserved = recorded.held_for_scratch();
    let nodes = graph.nodes.iter();
    Traces {
        declared,
        read_back: read_back(recorded.name(), graph),
        matching: nodes
            .map(|node| builder.by_handle.get(node).copied())
            .collect(),
        theirs: HashSet::new(),
        left_over: builder.left_over(),
    }
}

/// The same of a part in an engine's capture. Nodes that were not recorded here
/// are the engine's, and enter the declared trace without accesses; see
/// [`Traces::theirs`].
pub(super) fn of_part(recorded: &Recorded, graph: &ReadBack) -> Traces {
    let mut traces = of_graph(recorded, graph);
    let Traces {
        declared, matching, ..
    } = &mut traces;
    traces.theirs = adopt_engine_nodes(declared, matching, graph);
    if let Some(group) = &recorded.shares_with {
        traces.declared.assumptions.push(format!(
            "replays of the engine's graph overlap neither each other nor replays of other graphs of replay group \"{group}\""
        ));
    }
    traces
}

fn read_back(name: &str, graph: &ReadBack) -> Trace {
    let mut trace = Trace::new(name);
    let mut ids = HashMap::with_capacity(graph.nodes.len());
    for (&handle, kind) in graph.nodes.iter().zip(&graph.kinds) {
        let title = match kind {
            NodeKind::Kernel(kernel) => kernel.function.clone(),
            other => other.word().to_owned(),
        };
        ids.insert(handle, trace.add_node(Node::new(kind.clone(), title)));
    }
    for edge in &graph.edges {
        // An edge whose node the driver does not list proves nothing; what it
        // ordered is then missing, and found missing.
        if let (Some(&from), Some(&to)) = (ids.get(&edge.from), ids.get(&edge.to)) {
            trace.add_edge(Edge {
                from,
                to,
                kind: edge.kind,
            });
        }
    }
    trace
}

/// Adds the nodes that nobody recorded, and returns them.
fn adopt_engine_nodes(
    declared: &mut Trace,
    matching: &mut [Option<NodeId>],
    graph: &ReadBack,
) -> HashSet<NodeId> {
    let mut ids = HashMap::new();
    let mut theirs = HashSet::new();
    for ((slot, &handle), kind) in matching.iter_mut().zip(&graph.nodes).zip(&graph.kinds) {
        let id = *slot.get_or_insert_with(|| {
            let title = match kind {
                NodeKind::Kernel(kernel) => kernel.function.clone(),
                other => other.word().to_owned(),
            };
            let id = declared.add_node(Node::new(kind.clone(), title));
            theirs.insert(id);
            id
        });
        ids.insert(handle, id);
    }
    for edge in &graph.edges {
        if let (Some(&from), Some(&to)) = (ids.get(&edge.from), ids.get(&edge.to))
            && (theirs.contains(&from) || theirs.contains(&to))
        {
            declared.add_edge(Edge {
                from,
                to,
                kind: edge.kind,
            });
        }
    }
    theirs
}
