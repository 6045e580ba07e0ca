//! The declared trace: nodes, edges, buffers and accesses of a recording.

use std::collections::{BTreeSet, HashMap, HashSet};

use streamweir_alloc::{BlockKind, BlockRecord};
use streamweir_hal::driver::{NodeHandle, Start};
use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, CopyNode, Edge, EdgeKind,
    FieldPointer, FillNode, KernelNode, Node, NodeId, NodeKind, Param, PdlWait, PointerParam,
    Stream, StreamEnd, Trace,
};

use super::read_back::ReadBack;
use crate::capture::early;
use crate::capture::nodes::Nodes;
use crate::capture::recording::{BufferKey, Command, Recording, What, indices};
use crate::capture::strand::Strand;
use crate::kernel::Role;

/// What the recording and the driver's graph say of each command.
pub(super) struct Builder<'a> {
    pub(super) recording: &'a Recording,
    nodes: &'a Nodes,
    graph: Option<&'a ReadBack>,
    /// For each command, its nodes; one more entry closes the last range.
    first: Vec<u32>,
    /// The nodes of foreign commands in the driver, by command.
    foreign: HashMap<usize, Vec<NodeHandle>>,
    pub(super) by_handle: HashMap<NodeHandle, NodeId>,
    /// What the driver's nodes do, where there are foreign commands.
    kinds: HashMap<NodeHandle, &'a NodeKind>,
    /// The nodes that a programmatic edge leads to, likewise.
    early: HashSet<NodeHandle>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        nodes: &'a Nodes,
        graph: Option<&'a ReadBack>,
    ) -> Self {
        let mut builder = Self {
            recording,
            nodes,
            graph,
            first: Vec::with_capacity(recording.commands.len() + 1),
            foreign: HashMap::new(),
            by_handle: HashMap::new(),
            kinds: HashMap::new(),
            early: HashSet::new(),
        };
        builder.attribute_foreign();
        let mut next = 0;
        for index in 0..recording.commands.len() {
            builder.first.push(next);
            match builder.foreign.get(&index) {
                Some(nodes) => {
                    for &node in nodes {
                        builder.by_handle.insert(node, NodeId(next));
                        next += 1;
                    }
                }
                None => {
                    // An eager run has no handle.
                    for &handle in nodes.of(index) {
                        builder.by_handle.insert(handle, NodeId(next));
                    }
                    next += 1;
                }
            }
        }
        builder.first.push(next);
        builder
    }

    /// Which nodes a foreign call made: all that lead to its frontier and
    /// belong to nobody before.
    fn attribute_foreign(&mut self) {
        let Some(graph) = self.graph else { return };
        let commands = &self.recording.commands;
        if !commands
            .iter()
            .any(|c| matches!(c.what, What::Foreign { .. }))
        {
            return;
        }
        self.kinds = graph.nodes.iter().copied().zip(&graph.kinds).collect();
        let place: HashMap<_, _> = graph.nodes.iter().zip(0..).collect();
        let mut parents: HashMap<NodeHandle, Vec<NodeHandle>> = HashMap::new();
        for edge in &graph.edges {
            parents.entry(edge.to).or_default().push(edge.from);
            if edge.kind == EdgeKind::Programmatic {
                self.early.insert(edge.to);
            }
        }
        let mut taken: HashSet<NodeHandle> = commands
            .iter()
            .enumerate()
            .filter(|(_, c)| !matches!(c.what, What::Foreign { .. }))
            .flat_map(|(index, _)| self.nodes.of(index))
            .copied()
            .collect();
        for (index, command) in commands.iter().enumerate() {
            let What::Foreign { .. } = &command.what else {
                continue;
            };
            taken.extend(self.nodes.before(index));
            let mut stack = self.nodes.of(index).to_vec();
            let mut made = Vec::new();
            while let Some(node) = stack.pop() {
                if taken.insert(node) {
                    made.push(node);
                    stack.extend(parents.get(&node).into_iter().flatten());
                }
            }
            // Recorded back to front; the driver lists nodes as they were made.
            made.sort_by_key(|node| place.get(node).copied().unwrap_or(u32::MAX));
            self.foreign.insert(index, made);
        }
    }

    /// The trace of the recording, with the nodes that a library's calls made.
    pub(super) fn declared(&self, name: &str, strands: &[Strand], blocks: &[BlockRecord]) -> Trace {
        let mut trace = Trace::new(name);
        trace.scopes.clone_from(&self.recording.scopes);
        for strand in strands {
            trace.add_stream(Stream {
                name: strand.name.to_string(),
                tag: strand.name.to_string(),
                parent: strand.parent,
                end: StreamEnd {
                    frontier: strand
                        .frontier
                        .iter()
                        .flat_map(|&c| self.exits(c))
                        .collect(),
                    joined: !strand.active || strand.parent.is_none(),
                },
            });
        }
        for (index, command) in self.recording.commands.iter().enumerate() {
            self.add_nodes(&mut trace, index, command);
        }
        self.add_edges(&mut trace);
        self.add_buffers(&mut trace, blocks);
        trace.assumptions.extend(self.doubts());
        trace.assumptions.extend(early::assumption(self.recording));
        self.add_promises(&mut trace);
        for access in &self.recording.accesses {
            let buffer = self.buffer_id(access.buffer);
            let command = access.command as usize;
            let by_a_library =
                matches!(self.recording.commands[command].what, What::Foreign { .. });
            let workspace = matches!(trace.buffer(buffer).kind, BufferKind::Workspace { .. });
            let mode = match access.mode {
                // What a library finds in its workspace is nothing that it relies on.
                AccessMode::ReadWrite if by_a_library && workspace => AccessMode::Write,
                mode => mode,
            };
            for node in self.nodes_of(command) {
                trace.add_access(Access::new(node, buffer, access.bytes, mode));
            }
        }
        trace
    }

    fn add_nodes(&self, trace: &mut Trace, index: usize, command: &Command) {
        let launch = command.spot.source_line();
        let mut add = |kind: NodeKind, name: String| {
            trace.add_node(Node {
                scope: command.spot.scope,
                launch: Some(launch.clone()),
                ..Node::new(kind, name).on(command.spot.stream)
            });
        };
        match &command.what {
            What::Kernel {
                info, shape, start, ..
            } => {
                let symbol = info.signature.symbol;
                let kernel = KernelNode {
                    function: info.symbol.to_string(),
                    grid: shape.grid,
                    block: shape.block,
                    shared_bytes: shape.shared_bytes,
                    cluster: shape.cluster,
                    sync: info.signature.sync,
                    params: self.params(info, command),
                };
                add(NodeKind::Kernel(kernel), symbol.to_owned());
                if *start == Start::Early
                    && let Some(node) = trace.nodes.last_mut()
                {
                    node.pdl = PdlWait::OnAllPaths;
                }
            }
            &What::Copy { to, from, bytes } => {
                add(
                    NodeKind::Memcpy(CopyNode::linear(to.address, from.address, bytes)),
                    "copy".to_owned(),
                );
            }
            &What::Fill {
                to, bytes, value, ..
            } => {
                add(
                    NodeKind::Memset(FillNode::linear(to.address, bytes, value)),
                    command.what.title(),
                );
            }
            What::EventRecord(event) => {
                add(NodeKind::EventRecord, format!("record {}", event.name))
            }
            What::EventWait(event) => add(NodeKind::EventWait, format!("wait {}", event.name)),
            What::Host(function) => add(NodeKind::Host, function.name.clone()),
            What::Foreign { name, said } => match self.foreign.get(&index) {
                Some(nodes) => {
                    for node in nodes {
                        let kind = self.kinds.get(node).copied().cloned();
                        add(kind.unwrap_or(NodeKind::Unknown(u32::MAX)), name.clone());
                    }
                    if said.pdl == PdlWait::OnAllPaths {
                        self.let_wait(trace, nodes);
                    }
                }
                // An eager run: one node stands for the whole call.
                _ => add(NodeKind::kernel(), name.clone()),
            },
        }
    }

    /// Notes that the kernels of a library's call wait for what they follow
    /// programmatically, as its caller says. The last nodes of the trace are the
    /// call's.
    fn let_wait(&self, trace: &mut Trace, nodes: &[NodeHandle]) {
        let first = trace.nodes.len() - nodes.len();
        for (node, handle) in trace.nodes[first..].iter_mut().zip(nodes) {
            if self.early.contains(handle) {
                node.pdl = PdlWait::OnAllPaths;
            }
        }
    }

    fn params(&self, info: &crate::device::KernelInfo, command: &Command) -> Vec<Param> {
        let bytes = self.recording.params(command);
        let pointers = self.recording.pointers(command);
        let mut params: Vec<Param> = (info.signature.params.iter().zip(&info.slots))
            .map(|(param, slot)| {
                let bytes = &bytes[slot.offset as usize..][..slot.size as usize];
                Param::new(param.name, slot.offset, bytes.to_vec())
            })
            .collect();
        for pointer in pointers {
            let param = pointer.param as usize;
            let (buffer, offset) = (Some(self.buffer_id(pointer.buffer)), pointer.offset);
            match info.signature.params[param].role {
                Role::Fields(_) => params[param].fields.push(FieldPointer {
                    at: pointer.at,
                    buffer,
                    offset,
                }),
                _ => params[param].pointer = Some(PointerParam { buffer, offset }),
            }
        }
        params
    }

    fn add_edges(&self, trace: &mut Trace) {
        for (index, command) in self.recording.commands.iter().enumerate() {
            if self.foreign.contains_key(&index) {
                continue;
            }
            for to in self.nodes_of(index) {
                for &before in self.recording.waits(command) {
                    for from in self.exits(before) {
                        let kind = early::edge_kind(trace.node(from), trace.node(to));
                        trace.add_edge(Edge { from, to, kind });
                    }
                }
            }
        }
        let Some(graph) = self.graph else { return };
        // How a library orders its own nodes is known to the driver alone.
        let foreign: HashSet<_> = self.foreign.values().flatten().collect();
        for edge in graph.edges.iter().filter(|edge| foreign.contains(&edge.to)) {
            if let (Some(&from), Some(&to)) =
                (self.by_handle.get(&edge.from), self.by_handle.get(&edge.to))
            {
                trace.add_edge(Edge {
                    from,
                    to,
                    kind: edge.kind,
                });
            }
        }
    }

    /// What the names of the launched kernels leave open, each once.
    fn doubts(&self) -> BTreeSet<String> {
        let kernels = self.recording.commands.iter();
        let doubts = kernels.filter_map(|command| match &command.what {
            What::Kernel { info, .. } => Some(&info.doubts),
            _ => None,
        });
        doubts.flatten().cloned().collect()
    }

    fn add_buffers(&self, trace: &mut Trace, blocks: &[BlockRecord]) {
        for inner in &self.recording.persistents {
            trace.add_buffer(Buffer::persistent(&*inner.name, inner.range));
        }
        for (block, alloc) in blocks.iter().zip(&self.recording.allocs) {
            let alloc = AllocPoint {
                frontier: self.recording.alloc_frontiers[indices(alloc)]
                    .iter()
                    .flat_map(|&command| self.exits(command))
                    .collect(),
                before: self.position(block.alloc_before),
            };
            let kind = match block.kind {
                BlockKind::Scratch => BufferKind::Scratch {
                    stream: block.stream,
                    alloc,
                    freed_before: block.freed_before.map(|at| self.position(at)),
                },
                BlockKind::Workspace => BufferKind::Workspace {
                    stream: block.stream,
                },
            };
            trace.add_buffer(Buffer {
                name: block.name.to_string(),
                kind,
                range: block.range,
                carried: false,
            });
        }
    }

    fn buffer_id(&self, key: BufferKey) -> BufferId {
        match key {
            BufferKey::Scratch(block) => {
                BufferId::at(self.recording.persistents.len() + block as usize)
            }
            BufferKey::Persistent(at) => BufferId::at(at as usize),
        }
    }

    /// A position between commands as one between nodes.
    fn position(&self, commands: NodeId) -> NodeId {
        NodeId(self.first[commands.index()])
    }

    pub(super) fn nodes_of(&self, command: usize) -> impl Iterator<Item = NodeId> + use<> {
        (self.first[command]..self.first[command + 1]).map(NodeId)
    }

    /// The nodes after which the next command of the stream comes.
    fn exits(&self, command: u32) -> Vec<NodeId> {
        let index = command as usize;
        if self.foreign.contains_key(&index) {
            return self
                .nodes
                .of(index)
                .iter()
                .filter_map(|handle| self.by_handle.get(handle).copied())
                .collect();
        }
        self.nodes_of(index).collect()
    }
}
