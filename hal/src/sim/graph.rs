//! Graphs, their nodes, and what is instantiated from them.
//!
//! Instantiation copies: a graph may be destroyed while what came from it is
//! launched. Objects tied to a graph live until it and all its copies, launches
//! in flight included, are gone.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use streamweir_trace::EdgeKind;

use super::device::{Device, Event};
use super::schedule::TaskId;
use super::work::Work;
use crate::driver::{
    DriverResult, ErrorClass, ExecHandle, GraphEdge, GraphHandle, NodeHandle, Start, StreamHandle,
};

type Keep = Arc<dyn Any + Send + Sync>;

/// A graph: nodes in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Under construction; it belongs to its capture.
    pub(super) capturing: bool,
    nodes: Vec<NodeHandle>,
    keep: Vec<Keep>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    work: Work,
    after: Vec<NodeHandle>,
}

/// An instantiated graph.
#[derive(Debug)]
pub(super) struct Exec {
    image: Arc<Image>,
    /// Nodes that do nothing.
    disabled: BTreeSet<NodeHandle>,
    /// The last work of the latest launch; the next launch comes after it.
    last: Vec<TaskId>,
}

/// The copy of a graph that is launched.
struct Image {
    nodes: Vec<ImageNode>,
    _keep: Vec<Keep>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} nodes)", self.nodes.len())
    }
}

pub(super) struct ImageNode {
    handle: NodeHandle,
    work: Work,
    /// Positions of the nodes before it.
    after: Vec<usize>,
    is_leaf: bool,
}

impl ImageNode {
    pub(super) fn new(handle: NodeHandle, work: Work, after: Vec<usize>) -> Self {
        Self {
            handle,
            work,
            after,
            is_leaf: false,
        }
    }
}

impl Graph {
    /// A graph without nodes that keeps what another one keeps.
    pub(super) fn kept(keep: Vec<Keep>) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }

    pub(super) fn nodes(&self) -> &[NodeHandle] {
        &self.nodes
    }

    pub(super) fn keep(&self) -> &[Keep] {
        &self.keep
    }

    pub(super) fn capturing() -> Self {
        Self {
            capturing: true,
            ..Self::default()
        }
    }

    /// The nodes that no other node comes after.
    pub(super) fn leaves(&self, nodes: &BTreeMap<NodeHandle, Node>) -> Vec<NodeHandle> {
        let followed: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|node| nodes.get(node))
            .flat_map(|node| &node.after)
            .collect();
        self.nodes
            .iter()
            .filter(|node| !followed.contains(node))
            .copied()
            .collect()
    }
}

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

    pub(super) fn graph_instantiate(&mut self, graph: GraphHandle) -> DriverResult<ExecHandle> {
        self.potentially_unsafe()?;
        let graph = self.graph(graph)?;
        if graph.capturing {
            return Err(self
                .fail(ErrorClass::IllegalState)
                .with("the graph is still being captured"));
        }
        let keep = graph.keep.clone();
        let leaves: BTreeSet<_> = graph.leaves(&self.nodes).into_iter().collect();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for (handle, at) in self.flatten(graph, &mut nodes, &[])? {
            nodes[at].is_leaf = leaves.contains(&handle);
        }
        let image = Arc::new(Image { nodes, _keep: keep });
        let exec = ExecHandle(self.handle());
        self.execs.insert(
            exec,
            Exec {
                image,
                disabled: BTreeSet::new(),
                last: Vec::new(),
            },
        );
        Ok(exec)
    }

    /// Lets a node do nothing in later launches, or again what it did.
    pub(super) fn exec_enable(
        &mut self,
        exec: ExecHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> DriverResult<()> {
        self.node(node)?;
        let refused = self.fail(ErrorClass::InvalidValue);
        let unknown = self.unknown(exec);
        let found = self.execs.get_mut(&exec).ok_or(unknown)?;
        let at = found.image.nodes.iter().find(|at| at.handle == node);
        if !at.is_some_and(|at| at.work.may_be_disabled()) {
            return Err(refused.with(format!("{node:?} is no kernel, copy or fill of {exec:?}")));
        }
        match enabled {
            true => found.disabled.remove(&node),
            false => found.disabled.insert(node),
        };
        Ok(())
    }

    /// Enqueues a launch behind the stream and behind the previous launch of
    /// the same instantiated graph.
    pub(super) fn exec_launch(
        &mut self,
        exec: ExecHandle,
        stream: StreamHandle,
    ) -> DriverResult<()> {
        let Some(found) = self.execs.get(&exec) else {
            return Err(self.unknown(exec));
        };
        let image = Arc::clone(&found.image);
        let disabled = found.disabled.clone();
        let mut start = found.last.clone();
        if let Some(capture) = self.capture_of(stream)? {
            self.invalidate(capture);
            return Err(self
                .fail(ErrorClass::CaptureUnsupported)
                .with("an instantiated graph cannot be captured"));
        }
        start.extend(&self.stream(stream)?.tail);
        for node in &image.nodes {
            self.operands_live(node)?;
        }
        // An event node orders nothing inside its own graph: all waits look at
        // what was recorded before the launch.
        let mut records = Vec::new();
        let mut tasks: Vec<TaskId> = Vec::with_capacity(image.nodes.len());
        let mut leaves = Vec::new();
        for node in &image.nodes {
            let mut after: Vec<TaskId> = node.after.iter().map(|&at| tasks[at]).collect();
            if after.is_empty() {
                after.extend(&start);
            }
            if let Work::EventWait(event) = node.work
                && let Event::Recorded { tail, .. } = self.event(event)?
            {
                after.extend(tail);
            }
            let keep: Keep = Arc::clone(&image) as Keep;
            let work = match disabled.contains(&node.handle) {
                true => Work::Empty,
                false => node.work.clone(),
            };
            let task = self.executor.enqueue(work, after, Some(keep));
            if let Work::EventRecord(event) = node.work {
                records.push((event, task));
            }
            if node.is_leaf {
                leaves.push(task);
            }
            tasks.push(task);
        }
        for (event, task) in records {
            let recorded = self.recorded(vec![task]);
            self.events.insert(event, recorded);
        }
        if !image.nodes.is_empty() {
            self.set_tail(stream, leaves.clone());
            if let Some(exec) = self.execs.get_mut(&exec) {
                exec.last = leaves;
            }
        }
        self.trash.push(image);
        Ok(())
    }

    /// The nodes of an instantiated graph that could be launched now.
    #[cfg(feature = "testing")]
    pub(super) fn exec_tasks(&self, exec: ExecHandle) -> DriverResult<Vec<Task>> {
        let Some(found) = self.execs.get(&exec) else {
            return Err(self.unknown(exec));
        };
        found
            .image
            .nodes
            .iter()
            .map(|node| {
                self.operands_live(node)?;
                Ok(Task {
                    work: match found.disabled.contains(&node.handle) {
                        true => Work::Empty,
                        false => node.work.clone(),
                    },
                    after: node.after.clone(),
                })
            })
            .collect()
    }

    /// A graph does not keep its functions and events alive; using one that is
    /// gone is undefined on a real device, and an error here.
    fn operands_live(&self, node: &ImageNode) -> DriverResult<()> {
        let gone = match &node.work {
            Work::Kernel { function, .. } if !self.functions.contains_key(&function.handle) => {
                format!("the module of {} was unloaded", function.kernel.symbol)
            }
            Work::EventRecord(event) | Work::EventWait(event)
                if !self.events.contains_key(event) =>
            {
                format!("{event:?} was destroyed")
            }
            _ => return Ok(()),
        };
        Err(self
            .fail(ErrorClass::InvalidHandle)
            .with(format!("{:?} cannot run: {gone}", node.handle)))
    }

    pub(super) fn exec_destroy(&mut self, exec: ExecHandle) -> DriverResult<()> {
        self.potentially_unsafe()?;
        match self.execs.remove(&exec) {
            Some(exec) => {
                self.trash.push(exec.image);
                Ok(())
            }
            None => Err(self.unknown(exec)),
        }
    }
}

/// One node of a graph, for an exploration.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(super) struct Task {
    pub(super) work: Work,
    /// Positions of the nodes before it, all smaller than its own.
    pub(super) after: Vec<usize>,
}

impl Node {
    pub(super) fn work(&self) -> &Work {
        &self.work
    }

    pub(super) fn after(&self) -> &[NodeHandle] {
        &self.after
    }

    pub(super) fn kind(&self) -> streamweir_trace::NodeKind {
        self.work.kind()
    }
}
