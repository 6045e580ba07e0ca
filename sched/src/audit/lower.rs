//! From a graph to the nodes and edges of a trace, child graphs in place.

use std::collections::{HashMap, HashSet};

use streamweir_hal::driver::NodeHandle;
use streamweir_trace::{Edge, Node, NodeId, NodeKind, ScopeId, Trace};

use super::inputs::DeclaredAccess;
use super::read::Live;
use crate::error::{Error, Result};

/// A trace of nodes and edges, and which node is which of the driver's.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) trace: Trace,
    pub(super) handles: Vec<Option<NodeHandle>>,
    /// The nodes whose accesses a noted call declares.
    pub(super) declared: HashSet<NodeId>,
    /// Accesses by device address, to be put into buffers.
    pub(super) touches: Vec<(NodeId, DeclaredAccess)>,
}

impl Lowered {
    pub(super) fn new(name: &str) -> Self {
        Self {
            trace: Trace::new(name),
            handles: Vec::new(),
            declared: HashSet::new(),
            touches: Vec::new(),
        }
    }
}

/// The nodes and edges of a graph.
///
/// # Errors
/// When an edge names a node that the graph does not list: an order that cannot
/// be placed would be lost in silence.
pub(super) fn lower(name: &str, live: Live) -> Result<Lowered> {
    let mut lowered = Lowered::new(name);
    lowered.graph(live, None, "")?;
    Ok(lowered)
}

/// Where edges into a node end and edges out of it begin.
#[derive(Clone, Copy)]
struct Place {
    entry: NodeId,
    exit: NodeId,
}

impl Lowered {
    fn graph(&mut self, live: Live, scope: Option<ScopeId>, path: &str) -> Result<()> {
        let mut places: HashMap<NodeHandle, Place> = HashMap::new();
        for node in live.nodes {
            let handle = Some(node.handle);
            let place = match node.child {
                None => {
                    let title = match &node.kind {
                        NodeKind::Kernel(kernel) => kernel.function.clone(),
                        other => other.word().to_owned(),
                    };
                    let id = self.add(node.kind, title, scope, handle);
                    if node.updatable {
                        self.trace.assumptions.push(format!(
                            "{id} is not changed on the device between replays, though it may be"
                        ));
                    }
                    Place {
                        entry: id,
                        exit: id,
                    }
                }
                Some(child) => self.child(child, scope, path)?,
            };
            places.insert(node.handle, place);
        }
        for edge in live.edges {
            let place = |node: NodeHandle| {
                places
                    .get(&node)
                    .copied()
                    .ok_or_else(|| Error::UnlistedNode {
                        capture: self.trace.name.clone(),
                        node: format!("{node:?}"),
                    })
            };
            let (from, to) = (place(edge.from)?.exit, place(edge.to)?.entry);
            self.trace.add_edge(Edge {
                from,
                to,
                kind: edge.kind,
            });
        }
        Ok(())
    }

    /// A child graph between two empty nodes.
    fn child(&mut self, child: Live, scope: Option<ScopeId>, path: &str) -> Result<Place> {
        let entry = self.add(NodeKind::Empty, "child graph entry".to_owned(), scope, None);
        let path = match path {
            "" => format!("child {entry}"),
            outer => format!("{outer}/child {entry}"),
        };
        let inside = self.trace.add_scope(path.clone());
        let first = self.trace.edges.len();
        let begin = self.trace.nodes.len();
        self.graph(child, Some(inside), &path)?;
        let end = self.trace.nodes.len();
        let exit = self.add(NodeKind::Empty, "child graph exit".to_owned(), scope, None);
        let edges = &self.trace.edges[first..];
        let followed: HashSet<NodeId> = edges.iter().map(|edge| edge.from).collect();
        let following: HashSet<NodeId> = edges.iter().map(|edge| edge.to).collect();
        self.trace.add_edge(Edge::full(entry, exit));
        for node in (begin..end).map(NodeId::at) {
            if !following.contains(&node) {
                self.trace.add_edge(Edge::full(entry, node));
            }
            if !followed.contains(&node) {
                self.trace.add_edge(Edge::full(node, exit));
            }
        }
        Ok(Place { entry, exit })
    }

    fn add(
        &mut self,
        kind: NodeKind,
        title: String,
        scope: Option<ScopeId>,
        handle: Option<NodeHandle>,
    ) -> NodeId {
        self.handles.push(handle);
        self.trace.add_node(Node {
            scope,
            ..Node::new(kind, title)
        })
    }
}
