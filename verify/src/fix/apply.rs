//! Applying a fix to a trace.

use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, BufferKind, ByteRange, Edge, EdgeKind, FreeNode, Node,
    NodeId, NodeKind, StreamId, Trace,
};

use super::Fix;
use crate::accesses::Shown;
use crate::facts::Facts;
use crate::graph::Graph;

impl Fix {
    /// The trace as it would be with this change made. The other fixes of the
    /// same report stay applicable to the result, except that
    /// [`Fix::WriteFirst`] adds a node and so renumbers those behind it.
    ///
    /// # Panics
    /// When the fix is of another trace.
    #[must_use]
    pub fn apply(&self, trace: &Trace) -> Trace {
        let mut trace = self.with_its_buffer(trace);
        match *self {
            Self::Join { after, before } => trace.add_edge(Edge::full(after, before)),
            Self::JoinAtEnd { stream, last } => join_at_end(&mut trace, stream, last),
            Self::Separate { buffer } => {
                let fresh = fresh_range(&trace, trace.buffer(buffer).range.len());
                trace.buffers[buffer.index()].range = fresh;
            }
            Self::AllocateEarlier { buffer, before } => {
                let preds: Vec<NodeId> = trace
                    .edges
                    .iter()
                    .filter(|edge| edge.to == before)
                    .map(|edge| edge.from)
                    .collect();
                if let BufferKind::Scratch { alloc, .. } = &mut trace.buffers[buffer.index()].kind {
                    alloc.frontier = preds;
                    alloc.before = alloc.before.min(before);
                }
            }
            Self::KeepUntil { buffer, node } => {
                let kind = &mut trace.buffers[buffer.index()].kind;
                if let BufferKind::Scratch {
                    freed_before: Some(freed),
                    ..
                } = kind
                {
                    *freed = (*freed).max(NodeId::at(node.index() + 1));
                }
            }
            Self::Register { range } | Self::KeepAlive { range } => register(&mut trace, range),
            Self::WriteFirst {
                buffer,
                bytes,
                before,
            } => {
                write_first(&mut trace, buffer, bytes, before);
            }
            Self::OwnWorkspace { buffer, stream } => own_workspace(&mut trace, buffer, stream),
            Self::Withdraw { entry } => {
                if (entry as usize) < trace.protocol.len() {
                    trace.protocol.remove(entry as usize);
                }
            }
            Self::FreeAtEnd { alloc, instead_of } => free_at_end(&mut trace, alloc, instead_of),
            Self::DropFree { node } => trace.nodes[node.index()].kind = NodeKind::Empty,
            // Not changes of a trace.
            Self::ReadEarlier { .. } | Self::CaptureAgain => {}
        }
        trace
    }
}

impl Fix {
    /// A copy of the trace, in which memory that only its nodes show is named if the
    /// fix is about that.
    fn with_its_buffer(&self, trace: &Trace) -> Trace {
        let mut named = trace.clone();
        let buffer = match *self {
            Self::Separate { buffer }
            | Self::AllocateEarlier { buffer, .. }
            | Self::KeepUntil { buffer, .. }
            | Self::WriteFirst { buffer, .. }
            | Self::OwnWorkspace { buffer, .. } => Some(buffer),
            _ => None,
        };
        if buffer.is_some_and(|buffer| buffer.index() >= trace.buffers.len())
            && let Ok(shown) = Shown::new(trace)
        {
            named.buffers.clone_from(&shown.trace().buffers);
        }
        named
    }
}

/// Addresses above every buffer, or, when there are none left there, the
/// lowest gap between buffers.
fn fresh_range(trace: &Trace, len: u64) -> ByteRange {
    const ALIGN: u64 = 256;
    let mut taken: Vec<ByteRange> = trace.buffers.iter().map(|buffer| buffer.range).collect();
    taken.sort_unstable();
    let above = taken.iter().map(|range| range.end).max().unwrap_or(ALIGN);
    let candidates = std::iter::once(above).chain(taken.iter().map(|range| range.end));
    candidates
        .filter_map(|start| ByteRange::from_len(start.checked_next_multiple_of(ALIGN)?, len))
        .find(|range| !taken.iter().any(|other| other.overlaps(range)))
        // Buffers that fill 64 bits of addresses leave no room to move one to.
        .unwrap_or_default()
}

fn join_at_end(trace: &mut Trace, stream: Option<StreamId>, last: Option<NodeId>) {
    let mut ends: Vec<NodeId> = last.into_iter().collect();
    if let Some(stream) = stream {
        let end = &mut trace.streams[stream.index()].end;
        end.joined = true;
        ends.extend(end.frontier.iter());
    }
    // An origin whose end is not known stays unknown: naming some of its leaves
    // would make all the others unjoined. In a cycle nothing is before anything.
    let (Some(origin), Ok(graph)) = (
        trace.streams.first_mut(),
        Graph::new(trace.nodes.len(), &trace.edges),
    ) else {
        return;
    };
    let frontier = &mut origin.end.frontier;
    if frontier.is_empty() {
        return;
    }
    // The latest first: what leads to it is joined with it.
    ends.sort_by_key(|&node| std::cmp::Reverse(graph.position(node)));
    for end in ends {
        if !graph.leads_to(frontier)[end.index()] {
            frontier.push(end);
        }
    }
}

/// Turns every unknown access and pointer in `range` into one of a persistent
/// buffer.
fn register(trace: &mut Trace, range: ByteRange) {
    let known = trace
        .buffers
        .iter()
        .position(|buffer| !range.is_empty() && buffer.range.contains(&range));
    let buffer = match known {
        Some(at) => BufferId::at(at),
        None => trace.add_buffer(Buffer::persistent(
            format!("memory at {:#x}", range.start),
            range,
        )),
    };
    let start = trace.buffer(buffer).range.start;
    let (inside, outside) = std::mem::take(&mut trace.unknown)
        .into_iter()
        .partition(|access| range.contains(&access.range));
    trace.unknown = outside;
    trace.stray.retain(|word| !range.contains_byte(word.at));
    for access in inside {
        let bytes = ByteRange::new(access.range.start - start, access.range.end - start);
        trace.add_access(Access::new(access.node, buffer, bytes, access.mode));
    }
    for node in &mut trace.nodes {
        let NodeKind::Kernel(kernel) = &mut node.kind else {
            continue;
        };
        for param in &mut kernel.params {
            for at in 0..param.fields.len() {
                let address = param.word(param.fields[at].at);
                let field = &mut param.fields[at];
                if let Some(address) = address
                    && field.buffer.is_none()
                    && range.contains_byte(address)
                {
                    field.buffer = Some(buffer);
                    field.offset = address - start;
                }
            }
            let address = param.address();
            if let Some(target) = &mut param.pointer
                && target.buffer.is_none()
                && let Some(address) = address.filter(|&address| range.contains_byte(address))
            {
                target.buffer = Some(buffer);
                target.offset = address - start;
            }
        }
    }
}

/// Records a fill of `bytes` just before the node `before`, which waits for it.
fn write_first(trace: &mut Trace, buffer: BufferId, bytes: ByteRange, before: NodeId) {
    let mut fill = Node::new(
        NodeKind::memset(),
        format!("fill {}", trace.buffer(buffer).name),
    );
    fill.stream = trace.node(before).stream;
    fill.scope = trace.node(before).scope;
    insert_node(trace, before, fill);
    let reader = NodeId::at(before.index() + 1);
    let follows: Vec<Edge> = trace
        .edges
        .iter()
        .filter(|edge| edge.to == reader)
        .map(|edge| Edge::full(edge.from, before))
        .collect();
    trace.edges.extend(follows);
    trace.add_edge(Edge::full(before, reader));
    trace.add_access(Access::new(before, buffer, bytes, AccessMode::Write));
}

/// Puts `node` at `at`; every node from there on moves up by one.
fn insert_node(trace: &mut Trace, at: NodeId, node: Node) {
    let shift = |id: &mut NodeId| {
        if *id >= at {
            id.0 += 1;
        }
    };
    // A position between nodes stays in front of the node it stood in front of,
    // so only one behind the new node moves.
    let shift_position = |id: &mut NodeId| {
        if *id > at {
            id.0 += 1;
        }
    };
    trace.nodes.insert(at.index(), node);
    for edge in &mut trace.edges {
        shift(&mut edge.from);
        shift(&mut edge.to);
    }
    for stream in &mut trace.streams {
        stream.end.frontier.iter_mut().for_each(shift);
    }
    for buffer in &mut trace.buffers {
        if let BufferKind::Scratch {
            alloc,
            freed_before,
            ..
        } = &mut buffer.kind
        {
            alloc.frontier.iter_mut().for_each(shift);
            shift_position(&mut alloc.before);
            freed_before.iter_mut().for_each(shift_position);
        }
        if let BufferKind::Graph { alloc, free } = &mut buffer.kind {
            shift(alloc);
            free.iter_mut().for_each(shift);
        }
    }
    trace
        .accesses
        .iter_mut()
        .for_each(|access| shift(&mut access.node));
    trace
        .possible
        .iter_mut()
        .for_each(|access| shift(&mut access.node));
    trace
        .unknown
        .iter_mut()
        .for_each(|access| shift(&mut access.node));
    trace
        .protocol
        .iter_mut()
        .filter_map(|entry| entry.node.as_mut())
        .for_each(shift);
}

/// Frees what `alloc` allocates in a new node behind all others. The free node
/// that it has now stays as a place for its edges to meet.
fn free_at_end(trace: &mut Trace, alloc: NodeId, instead_of: Option<NodeId>) {
    if let Some(free) = instead_of {
        trace.nodes[free.index()].kind = NodeKind::Empty;
    }
    let new = NodeId::at(trace.nodes.len());
    let mut at = match &trace.node(alloc).kind {
        NodeKind::MemAlloc(alloc) => alloc.at,
        _ => 0,
    };
    let mut ours = vec![false; trace.buffers.len()];
    for (buffer, ours) in trace.buffers.iter_mut().zip(&mut ours) {
        if let BufferKind::Graph { alloc: of, free } = &mut buffer.kind
            && *of == alloc
        {
            at = buffer.range.start;
            *free = Some(new);
            *ours = true;
        }
    }
    let after = last_users(trace, alloc, &ours);
    let mut node = Node::new(
        NodeKind::MemFree(FreeNode { at }),
        format!("free {}", trace.node(alloc).name),
    );
    node.stream = (!trace.streams.is_empty()).then_some(StreamId(0));
    trace.add_node(node);
    for from in after {
        trace.add_edge(Edge::full(from, new));
    }
    if let Some(origin) = trace.streams.first_mut()
        && !origin.end.frontier.is_empty()
    {
        origin.end.frontier.push(new);
    }
}

/// What a free of these buffers has to wait for: their users and what nobody
/// knows the accesses of, without those that end before another of them anyway.
/// When no buffer is named, all that leads nowhere.
fn last_users(trace: &Trace, alloc: NodeId, buffers: &[bool]) -> Vec<NodeId> {
    let mut users = vec![alloc];
    if buffers.contains(&true) {
        let declared = trace.accesses.iter().map(|a| (a.node, a.buffer));
        let possible = trace.possible.iter().map(|a| (a.node, a.buffer));
        let ours = declared.chain(possible).filter(|a| buffers[a.1.index()]);
        users.extend(ours.map(|(node, _)| node));
        users.extend(Facts::new(trace).opaque);
    } else {
        let mut leads_on = vec![false; trace.nodes.len()];
        trace
            .edges
            .iter()
            .for_each(|edge| leads_on[edge.from.index()] = true);
        let all = (0..trace.nodes.len()).map(NodeId::at);
        users.extend(all.filter(|node| !leads_on[node.index()]));
    }
    // A programmatic edge may order nothing.
    let full = trace
        .edges
        .iter()
        .filter(|edge| edge.kind == EdgeKind::Full);
    let full: Vec<Edge> = full.copied().collect();
    let Ok(graph) = Graph::new(trace.nodes.len(), &full) else {
        // In a cycle nothing is before anything.
        return users;
    };
    users.sort_by_key(|&node| std::cmp::Reverse(graph.position(node)));
    let mut last: Vec<NodeId> = Vec::new();
    for user in users {
        if !graph.leads_to(&last)[user.index()] {
            last.push(user);
        }
    }
    last
}

/// Copies a workspace for `stream` and lets the nodes of that stream use the
/// copy.
fn own_workspace(trace: &mut Trace, buffer: BufferId, stream: StreamId) {
    let mut copy = trace.buffer(buffer).clone();
    copy.range = fresh_range(trace, copy.range.len());
    copy.name = format!("{} of {}", copy.name, trace.stream(stream).name);
    copy.kind = BufferKind::Workspace { stream };
    let copy = trace.add_buffer(copy);
    for at in 0..trace.accesses.len() {
        let access = trace.accesses[at];
        if access.buffer == buffer && trace.node(access.node).stream == Some(stream) {
            trace.accesses[at].buffer = copy;
        }
    }
}
