//! Graphs inside graphs, and nodes taken out of them.
//!
//! A child graph node owns a copy of its graph, as CUDA's does. Instantiation
//! puts the copy's nodes in its place: those without predecessors follow what
//! the child node follows, and an empty node after the last ones stands for the
//! child's end.

use std::collections::BTreeMap;

use super::device::Device;
use super::objects::{Graph, ImageNode, Node};
use super::work::Work;
use crate::driver::{DriverResult, ErrorClass, GraphHandle, NodeHandle};

impl Device {
    pub(super) fn graph_child(&self, node: NodeHandle) -> DriverResult<GraphHandle> {
        match self.node(node)?.work() {
            Work::Child(child) => Ok(*child),
            other => Err(self
                .fail(ErrorClass::InvalidValue)
                .with(format!("{node:?} is a node of kind {}", other.name()))),
        }
    }

    /// A node, which has to be a kernel node.
    pub(super) fn kernel_node(&self, node: NodeHandle) -> DriverResult<&Node> {
        let found = self.node(node)?;
        match found.work() {
            Work::Kernel { .. } => Ok(found),
            other => Err(self
                .fail(ErrorClass::InvalidValue)
                .with(format!("{node:?} is a node of kind {}", other.name()))),
        }
    }

    pub(super) fn graph_alone(&mut self, node: NodeHandle) -> DriverResult<GraphHandle> {
        let work = match self.node(node)?.work() {
            Work::Fill(fill) => Work::Fill(*fill),
            _ => self.kernel_node(node)?.work().clone(),
        };
        let graph = GraphHandle(self.handle());
        self.graphs.insert(graph, Graph::default());
        self.add_node(graph, work, Vec::new());
        Ok(graph)
    }

    pub(super) fn graph_add_child(
        &mut self,
        graph: GraphHandle,
        after: &[NodeHandle],
        child: GraphHandle,
    ) -> DriverResult<NodeHandle> {
        let nodes = self.graph(graph)?.nodes();
        if let Some(stranger) = after.iter().find(|node| !nodes.contains(node)) {
            return Err(self
                .fail(ErrorClass::InvalidValue)
                .with(format!("{stranger:?} is no node of {graph:?}")));
        }
        let copy = self.copy_graph(child)?;
        Ok(self.add_node(graph, Work::Child(copy), after.to_vec()))
    }

    fn copy_graph(&mut self, graph: GraphHandle) -> DriverResult<GraphHandle> {
        let found = self.graph(graph)?;
        let (handles, keep) = (found.nodes().to_vec(), found.keep().to_vec());
        let copy = GraphHandle(self.handle());
        self.graphs.insert(copy, Graph::kept(keep));
        let mut copies = BTreeMap::new();
        for handle in handles {
            let node = self.node(handle)?;
            let after = node.after().iter().filter_map(|node| copies.get(node));
            let (mut work, after) = (node.work().clone(), after.copied().collect());
            if let Work::Child(child) = work {
                work = Work::Child(self.copy_graph(child)?);
            }
            copies.insert(handle, self.add_node(copy, work, after));
        }
        Ok(copy)
    }

    /// Adds the nodes of a graph to an image, behind the places `start`. The
    /// places of its own nodes: of a child graph, of its end.
    pub(super) fn flatten(
        &self,
        graph: &Graph,
        image: &mut Vec<ImageNode>,
        start: &[usize],
    ) -> DriverResult<BTreeMap<NodeHandle, usize>> {
        let mut places = BTreeMap::new();
        for &handle in graph.nodes() {
            let node = self.node(handle)?;
            let before = node.after().iter().filter_map(|node| places.get(node));
            let mut after: Vec<usize> = before.copied().collect();
            if after.is_empty() {
                after.extend_from_slice(start);
            }
            let mut work = node.work().clone();
            if let Work::Child(child) = work {
                let child = self.graph(child)?;
                let inside = self.flatten(child, image, &after)?;
                let ends = child.leaves(self.all_nodes());
                after.extend(ends.iter().filter_map(|node| inside.get(node)));
                work = Work::Empty;
            }
            places.insert(handle, image.len());
            image.push(ImageNode::new(handle, work, after));
        }
        Ok(places)
    }
}
