//! Graphs and their nodes.
//!
//! Instantiation copies: a graph may be destroyed while what came from it is
//! launched. Objects tied to a graph live until it and all its copies, launches
//! in flight included, are gone.

use std::collections::BTreeMap;

use streamweir_trace::EdgeKind;

use super::device::Device;
use super::objects::{Graph, Keep, Node};
use super::work::Work;
use crate::driver::{DriverResult, ErrorClass, GraphEdge, GraphHandle, NodeHandle, Start};

impl Device {
    pub(super) fn graph(&self, handle: GraphHandle) -> DriverResult<&Graph> {
        self.graphs.get(&handle).ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn all_nodes(&self) -> &BTreeMap<NodeHandle, Node> {
        &self.nodes
    }

    pub(super) fn node(&self, handle: NodeHandle) -> DriverResult<&Node> {
        self.nodes.get(&handle).ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn add_node(
        &mut self,
        graph: GraphHandle,
        work: Work,
        after: Vec<NodeHandle>,
    ) -> NodeHandle {
        let handle = NodeHandle(self.handle());
        self.nodes.insert(handle, Node { work, after });
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.nodes.push(handle);
        }
        handle
    }

    pub(super) fn graph_nodes(&self, graph: GraphHandle) -> DriverResult<Vec<NodeHandle>> {
        Ok(self.graph(graph)?.nodes.clone())
    }

    pub(super) fn graph_edges(&self, graph: GraphHandle) -> DriverResult<Vec<GraphEdge>> {
        let mut edges = Vec::new();
        for &to in &self.graph(graph)?.nodes {
            let node = self.node(to)?;
            let early = node.work.start() == Start::Early;
            for &from in &node.after {
                let kind = match self.node(from)?.work {
                    Work::Kernel { .. } if early => EdgeKind::Programmatic,
                    _ => EdgeKind::Full,
                };
                edges.push(GraphEdge { from, to, kind });
            }
        }
        Ok(edges)
    }

    pub(super) fn graph_retain(&mut self, graph: GraphHandle, keep: Keep) -> DriverResult<()> {
        match self.graphs.get_mut(&graph) {
            Some(graph) => {
                graph.keep.push(keep);
                Ok(())
            }
            None => {
                self.trash.push(keep);
                Err(self.unknown(graph))
            }
        }
    }

    pub(super) fn graph_destroy(&mut self, graph: GraphHandle) -> DriverResult<()> {
        if self.graph(graph)?.capturing {
            return Err(self
                .fail(ErrorClass::IllegalState)
                .with("the graph belongs to a capture; end the capture instead"));
        }
        self.remove_graph(graph);
        Ok(())
    }

    pub(super) fn remove_graph(&mut self, graph: GraphHandle) {
        if let Some(graph) = self.graphs.remove(&graph) {
            for handle in &graph.nodes {
                match self.nodes.remove(handle).map(|node| node.work) {
                    Some(Work::Kernel { function, .. }) => self.trash.push(function),
                    Some(Work::Child(child)) => self.remove_graph(child),
                    _ => {}
                }
            }
            self.trash.extend(graph.keep);
        }
    }
}
