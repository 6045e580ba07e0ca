//! A driver that gives wrong answers about its graphs.
//!
//! What runs is what was captured; only what the driver *says* was captured is
//! altered. The verifier reads graphs back from the driver, and with this
//! wrapper tests hold it to finding out.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use streamweir_trace::{BlockSync, EdgeKind, NodeKind, Param};

use super::wrap::{Wrap, forward_driver};
use crate::driver::{DynDriver, GraphEdge, NodeHandle};

/// One wrong answer. Nodes and edges are named by their position in what the
/// driver inside reports; a position that a graph does not have, or a node of
/// another kind, leaves the answer true.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lie {
    /// This edge is not reported.
    DropEdge(usize),
    /// This edge is reported the other way round.
    TurnEdge(usize),
    /// This edge is reported as one of programmatic dependent launch.
    LoosenEdge(usize),
    /// This node is not reported, and neither are its edges.
    HideNode(usize),
    /// This node is reported twice.
    RepeatNode(usize),
    /// A kernel's parameter is reported with its first bytes changed.
    AlterParam {
        /// The node.
        node: usize,
        /// The parameter.
        param: usize,
        /// What its bytes, little-endian, are combined with.
        xor: u64,
    },
    /// A kernel is reported under another symbol.
    SwapFunction {
        /// The node.
        node: usize,
        /// The symbol.
        function: String,
    },
    /// A kernel is reported with one block more along x.
    GrowGrid(usize),
    /// A copy or fill is reported with its target moved up by so many bytes.
    MoveTarget {
        /// The node.
        node: usize,
        /// The distance.
        bytes: u64,
    },
    /// A kernel is reported as launched cooperatively.
    Cooperate(usize),
    /// A copy or fill is reported with one row more.
    AddRow(usize),
    /// A kernel is reported with one parameter more, of these bytes.
    AddParam {
        /// The node.
        node: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The node is reported to do nothing.
    CallEmpty(usize),
}

/// Wraps a driver and lies about its graphs. See the [module](self).
#[derive(Debug)]
pub struct LyingDriver {
    inner: DynDriver,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    lie: Option<Lie>,
    /// Where each node stands in its graph, as far as graphs were listed.
    position: HashMap<NodeHandle, usize>,
}

impl LyingDriver {
    /// Wraps `inner`, with a lie to tell or none.
    pub fn new(inner: DynDriver, lie: Option<Lie>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            told: Mutex::new(Told {
                lie,
                ..Told::default()
            }),
        })
    }

    /// From here on tells this lie, or the truth. Lies about what a node does
    /// take effect for nodes of graphs whose nodes have been listed.
    pub fn tell(&self, lie: Option<Lie>) {
        self.told.lock().lie = lie;
    }
}

impl Wrap for LyingDriver {
    fn inner(&self) -> &DynDriver {
        &self.inner
    }

    fn report_nodes(&self, mut nodes: Vec<NodeHandle>) -> Vec<NodeHandle> {
        let mut told = self.told.lock();
        told.position
            .extend(nodes.iter().enumerate().map(|(at, &node)| (node, at)));
        match told.lie {
            Some(Lie::HideNode(at)) if at < nodes.len() => {
                nodes.remove(at);
            }
            Some(Lie::RepeatNode(at)) if at < nodes.len() => nodes.push(nodes[at]),
            _ => {}
        }
        nodes
    }

    fn report_edges(&self, mut edges: Vec<GraphEdge>) -> Vec<GraphEdge> {
        let told = self.told.lock();
        match told.lie {
            Some(Lie::DropEdge(at)) if at < edges.len() => {
                edges.remove(at);
            }
            Some(Lie::TurnEdge(at)) if at < edges.len() => {
                let edge = &mut edges[at];
                std::mem::swap(&mut edge.from, &mut edge.to);
            }
            Some(Lie::LoosenEdge(at)) if at < edges.len() => {
                edges[at].kind = EdgeKind::Programmatic;
            }
            Some(Lie::HideNode(at)) => edges.retain(|edge| {
                [edge.from, edge.to]
                    .iter()
                    .all(|node| told.position.get(node) != Some(&at))
            }),
            _ => {}
        }
        edges
    }

    fn report_node(&self, node: NodeHandle, mut kind: NodeKind) -> NodeKind {
        let told = self.told.lock();
        let (Some(lie), Some(&at)) = (&told.lie, told.position.get(&node)) else {
            return kind;
        };
        match (lie, &mut kind) {
            (&Lie::AlterParam { node, param, xor }, NodeKind::Kernel(kernel)) if node == at => {
                if let Some(param) = kernel.params.get_mut(param) {
                    for (byte, flip) in param.bytes.iter_mut().zip(xor.to_le_bytes()) {
                        *byte ^= flip;
                    }
                }
            }
            (Lie::SwapFunction { node, function }, NodeKind::Kernel(kernel)) if *node == at => {
                kernel.function.clone_from(function);
            }
            (&Lie::GrowGrid(node), NodeKind::Kernel(kernel)) if node == at => {
                kernel.grid[0] = kernel.grid[0].wrapping_add(1);
            }
            (&Lie::MoveTarget { node, bytes }, NodeKind::Memcpy(copy)) if node == at => {
                copy.to = copy.to.wrapping_add(bytes);
            }
            (&Lie::MoveTarget { node, bytes }, NodeKind::Memset(fill)) if node == at => {
                fill.to = fill.to.wrapping_add(bytes);
            }
            (&Lie::Cooperate(node), NodeKind::Kernel(kernel)) if node == at => {
                kernel.sync = BlockSync::Cooperative;
            }
            (&Lie::AddRow(node), NodeKind::Memcpy(copy)) if node == at => {
                copy.rows += 1;
                copy.to_pitch += 2 * copy.bytes;
                copy.from_pitch += 2 * copy.bytes;
            }
            (&Lie::AddRow(node), NodeKind::Memset(fill)) if node == at => {
                fill.rows += 1;
                fill.pitch += 2 * fill.bytes;
            }
            (Lie::AddParam { node, bytes }, NodeKind::Kernel(kernel)) if *node == at => {
                let last = kernel.params.last();
                let end = last.map_or(0, |last| last.offset + last.bytes.len() as u32);
                let offset = end.next_multiple_of(8);
                kernel.params.push(Param::new("", offset, bytes.clone()));
            }
            (&Lie::CallEmpty(node), kind) if node == at => *kind = NodeKind::Empty,
            _ => {}
        }
        kind
    }
}

forward_driver!(LyingDriver);
