//! Random traces whose tables fit together, and nothing else about them:
//! every kind, every optional field, ids anywhere in their table, edges in any
//! direction. The format must carry more than captures that make sense.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use streamweir_trace::{
    Access, AccessMode, AllocNode, AllocPoint, BlockSync, Buffer, BufferId, BufferKind, ByteRange,
    CopyNode, Edge, EdgeKind, FieldPointer, FillNode, FreeNode, Keeper, KernelNode, Node, NodeId,
    NodeKind, Param, PdlWait, Phase, PointerParam, PossibleAccess, Promise, Promised,
    ProtocolBreak, Reserved, ScopeId, SourceLine, StrayMemory, StrayWord, Stream, StreamEnd,
    StreamId, Trace, Unfreed, UnknownAccess,
};

/// How many entries each table has, so that ids can be drawn below it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    streams: usize,
    scopes: usize,
    nodes: usize,
    buffers: usize,
}

pub(crate) fn trace() -> impl Strategy<Value = Trace> {
    // Two nodes at least, since an edge needs two ends.
    (1..5_usize, 1..4_usize, 2..10_usize, 1..8_usize)
        .prop_map(|(streams, scopes, nodes, buffers)| Sizes {
            streams,
            scopes,
            nodes,
            buffers,
        })
        .prop_flat_map(|sizes| (Just(sizes), vec(buffer(sizes), sizes.buffers)))
        .prop_flat_map(|(sizes, buffers)| {
            let lengths: Vec<u64> = buffers.iter().map(|b| b.range.len()).collect();
            let memory = (
                Just(buffers),
                vec(access(sizes, lengths.clone()), 0..12),
                vec(possible(sizes, lengths), 0..4),
                vec(unknown(sizes), 0..3),
                vec(stray(sizes), 0..3),
                vec(reserved(sizes), 0..3),
            );
            (
                text(),
                vec(stream(sizes), sizes.streams),
                vec(text(), sizes.scopes),
                vec(node(sizes), sizes.nodes),
                vec(edge(sizes), 0..12),
                memory,
                (
                    unfreed(),
                    vec(promise(sizes), 0..3),
                    vec(protocol_break(sizes), 0..3),
                ),
                vec(text(), 0..3),
            )
        })
        .prop_map(
            |(
                name,
                streams,
                scopes,
                mut nodes,
                edges,
                memory,
                (unfreed, promises, protocol),
                assumptions,
            )| {
                let (mut buffers, accesses, possible, unknown, stray, reserved) = memory;
                agree_on_graph_memory(&mut nodes, &mut buffers);
                agree_on_pointers(&mut nodes, &buffers);
                Trace {
                    name,
                    streams,
                    scopes,
                    nodes,
                    edges,
                    buffers,
                    accesses,
                    possible,
                    unknown,
                    stray,
                    reserved,
                    unfreed,
                    promises,
                    protocol,
                    assumptions,
                }
            },
        )
}

fn promise(sizes: Sizes) -> impl Strategy<Value = Promise> {
    let what = prop_oneof![
        Just(Promised::Touches),
        Just(Promised::Unchecked),
        Just(Promised::Waits),
        Just(Promised::Narrowed),
        (any::<u64>(), vec(buffer_id(sizes), 0..3), text()).prop_map(|(words, buffers, reason)| {
            Promised::LeftOver {
                words,
                buffers,
                reason,
            }
        }),
        (text(), range(), text()).prop_map(|(name, range, owner)| Promised::Keeps {
            name,
            range,
            owner
        }),
    ];
    (
        text(),
        vec(node_id(sizes), 0..3),
        what,
        option::of(source_line()),
    )
        .prop_map(|(of, nodes, what, line)| Promise {
            of,
            nodes,
            what,
            line,
        })
}

fn unfreed() -> impl Strategy<Value = Unfreed> {
    prop_oneof![Just(Unfreed::Held), Just(Unfreed::FreedByLauncher)]
}

/// Makes declared pointers lie in their buffers, and parameters hold them.
fn agree_on_pointers(nodes: &mut [Node], buffers: &[Buffer]) {
    let place = |buffer: Option<BufferId>, offset: &mut u64| {
        let range = buffers[buffer?.index()].range;
        *offset %= range.len().saturating_add(1);
        Some((range.start + *offset).to_le_bytes())
    };
    for node in nodes {
        let NodeKind::Kernel(kernel) = &mut node.kind else {
            continue;
        };
        for param in &mut kernel.params {
            if let Some(target) = &mut param.pointer {
                param.fields.clear();
                if let Some(address) = place(target.buffer, &mut target.offset) {
                    param.bytes = address.to_vec();
                }
            }
            let words = param.bytes.len().max(8 * param.fields.len());
            param.bytes.resize(words, 0);
            for (at, field) in (0_u32..).step_by(8).zip(&mut param.fields) {
                field.at = at;
                if let Some(address) = place(field.buffer, &mut field.offset) {
                    param.bytes[at as usize..][..8].copy_from_slice(&address);
                }
            }
        }
    }
}

/// Makes the allocation and free nodes that buffers name such nodes, and lets each
/// free one allocation.
fn agree_on_graph_memory(nodes: &mut [Node], buffers: &mut [Buffer]) {
    let (mut allocs, mut frees) = (Vec::new(), Vec::new());
    for buffer in buffers {
        let BufferKind::Graph { alloc, free } = &mut buffer.kind else {
            continue;
        };
        if frees.contains(alloc) {
            buffer.kind = BufferKind::Persistent;
            continue;
        }
        nodes[alloc.index()].kind = NodeKind::MemAlloc(AllocNode::default());
        let taken = allocs.contains(alloc);
        allocs.push(*alloc);
        *free = free.filter(|free| !taken && !frees.contains(free) && !allocs.contains(free));
        if let Some(id) = *free {
            nodes[id.index()].kind = NodeKind::MemFree(FreeNode { at: 0x40 });
            frees.push(id);
        }
    }
}

/// Any text: quotes, control characters and what lies outside the basic plane.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect()),
    ]
}

fn node_id(sizes: Sizes) -> impl Strategy<Value = NodeId> {
    (0..sizes.nodes).prop_map(NodeId::at)
}

/// A position between nodes: one more than there are nodes.
fn position(sizes: Sizes) -> impl Strategy<Value = NodeId> {
    (0..=sizes.nodes).prop_map(NodeId::at)
}

fn stream_id(sizes: Sizes) -> impl Strategy<Value = StreamId> {
    (0..sizes.streams).prop_map(StreamId::at)
}

fn buffer_id(sizes: Sizes) -> impl Strategy<Value = BufferId> {
    (0..sizes.buffers).prop_map(BufferId::at)
}

fn range() -> impl Strategy<Value = ByteRange> {
    (any::<u64>(), any::<u64>()).prop_map(|(a, b)| ByteRange::new(a.min(b), a.max(b)))
}

fn source_line() -> impl Strategy<Value = SourceLine> {
    (text(), any::<u32>()).prop_map(|(file, line)| SourceLine { file, line })
}

fn stream(sizes: Sizes) -> impl Strategy<Value = Stream> {
    (
        text(),
        text(),
        option::of(stream_id(sizes)),
        vec(node_id(sizes), 0..3),
        any::<bool>(),
    )
        .prop_map(|(name, tag, parent, frontier, joined)| Stream {
            name,
            tag,
            parent,
            end: StreamEnd { frontier, joined },
        })
}

fn buffer(sizes: Sizes) -> impl Strategy<Value = Buffer> {
    (text(), buffer_kind(sizes), range(), any::<bool>()).prop_map(|(name, kind, range, carried)| {
        Buffer {
            name,
            kind,
            range,
            carried,
        }
    })
}

fn buffer_kind(sizes: Sizes) -> impl Strategy<Value = BufferKind> {
    let scratch = (
        stream_id(sizes),
        vec(node_id(sizes), 0..3),
        position(sizes),
        option::of(position(sizes)),
    )
        .prop_map(
            |(stream, frontier, before, freed_before)| BufferKind::Scratch {
                stream,
                alloc: AllocPoint { frontier, before },
                freed_before,
            },
        );
    prop_oneof![
        scratch,
        stream_id(sizes).prop_map(|stream| BufferKind::Workspace { stream }),
        (node_id(sizes), option::of(node_id(sizes)))
            .prop_map(|(alloc, free)| BufferKind::Graph { alloc, free }),
        Just(BufferKind::Persistent),
        prop_oneof![
            Just(Keeper::Nobody),
            Just(Keeper::Call),
            Just(Keeper::Engine)
        ]
        .prop_map(|keeper| BufferKind::Foreign { keeper }),
    ]
}

fn node(sizes: Sizes) -> impl Strategy<Value = Node> {
    (
        node_kind(sizes),
        text(),
        option::of(stream_id(sizes)),
        option::of((0..sizes.scopes).prop_map(ScopeId::at)),
        option::of(source_line()),
        prop_oneof![Just(PdlWait::None), Just(PdlWait::OnAllPaths)],
        any::<bool>(),
    )
        .prop_map(|(kind, name, stream, scope, launch, pdl, analysed)| Node {
            kind,
            name,
            stream,
            scope,
            launch,
            pdl,
            analysed,
        })
}

fn node_kind(sizes: Sizes) -> impl Strategy<Value = NodeKind> {
    prop_oneof![
        4 => kernel(sizes).prop_map(NodeKind::Kernel),
        1 => any::<([u64; 2], [u32; 4])>().prop_map(|([to, from], [bytes, rows, to_pitch, from_pitch])| {
            NodeKind::Memcpy(CopyNode {
                to: to >> 1,
                from: from >> 1,
                bytes: bytes.into(),
                rows: (rows >> 2).into(),
                to_pitch: to_pitch.into(),
                from_pitch: from_pitch.into(),
            })
        }),
        1 => (any::<(u64, [u32; 4])>(), prop::sample::select(&[1_u8, 2, 4])).prop_map(
            |((to, [bytes, rows, pitch, value]), element)| {
                NodeKind::Memset(FillNode {
                    to: to >> 1,
                    bytes: bytes.into(),
                    value,
                    element,
                    rows: (rows >> 2).into(),
                    pitch: pitch.into(),
                })
            },
        ),
        1 => any::<(u64, u64)>().prop_map(|(at, bytes)| NodeKind::MemAlloc(AllocNode { at: at >> 1, bytes: bytes >> 1 })),
        1 => any::<u64>().prop_map(|at| NodeKind::MemFree(FreeNode { at })),
        1 => prop::sample::select(PLAIN_KINDS),
        1 => any::<u32>().prop_map(NodeKind::Unknown),
    ]
}

/// The kinds that carry nothing.
pub(crate) const PLAIN_KINDS: &[NodeKind] = &[
    NodeKind::Empty,
    NodeKind::Host,
    NodeKind::ChildGraph,
    NodeKind::EventWait,
    NodeKind::EventRecord,
    NodeKind::BatchMemOp,
    NodeKind::Conditional,
    NodeKind::SemaphoreSignal,
    NodeKind::SemaphoreWait,
];

fn kernel(sizes: Sizes) -> impl Strategy<Value = KernelNode> {
    (
        text(),
        any::<[u32; 3]>(),
        any::<[u32; 3]>(),
        any::<u32>(),
        any::<[u32; 3]>(),
        prop::sample::select(&[
            BlockSync::Independent,
            BlockSync::Spin,
            BlockSync::Cooperative,
        ]),
        vec(param(sizes), 0..4),
    )
        .prop_map(
            |(function, grid, block, shared_bytes, cluster, sync, params)| KernelNode {
                function,
                grid,
                block,
                shared_bytes,
                cluster,
                sync,
                params,
            },
        )
}

fn param(sizes: Sizes) -> impl Strategy<Value = Param> {
    let pointer = (option::of(buffer_id(sizes)), any::<u64>())
        .prop_map(|(buffer, offset)| PointerParam { buffer, offset });
    let field = (any::<u32>(), option::of(buffer_id(sizes)), any::<u64>())
        .prop_map(|(at, buffer, offset)| FieldPointer { at, buffer, offset });
    (
        text(),
        any::<u32>(),
        vec(any::<u8>(), 0..10),
        option::of(pointer),
        vec(field, 0..3),
    )
        .prop_map(|(name, offset, bytes, pointer, fields)| Param {
            name,
            offset,
            bytes,
            pointer,
            fields,
        })
}

fn edge(sizes: Sizes) -> impl Strategy<Value = Edge> {
    (
        0..sizes.nodes,
        1..sizes.nodes,
        prop_oneof![Just(EdgeKind::Full), Just(EdgeKind::Programmatic)],
    )
        .prop_map(move |(from, step, kind)| Edge {
            from: NodeId::at(from),
            // Never all the way round, so never back to itself.
            to: NodeId::at((from + step) % sizes.nodes),
            kind,
        })
}

fn mode() -> impl Strategy<Value = AccessMode> {
    prop_oneof![
        Just(AccessMode::Read),
        Just(AccessMode::Write),
        Just(AccessMode::ReadWrite),
        Just(AccessMode::Atomic),
    ]
}

fn access(sizes: Sizes, lengths: Vec<u64>) -> impl Strategy<Value = Access> {
    (
        node_id(sizes),
        buffer_id(sizes),
        mode(),
        prop_oneof![Just(Phase::BeforeWait), Just(Phase::AfterWait)],
    )
        .prop_flat_map(move |(node, buffer, mode, phase)| {
            let len = lengths[buffer.index()];
            (0..=len, 0..=len).prop_map(move |(a, b)| Access {
                node,
                buffer,
                bytes: ByteRange::new(a.min(b), a.max(b)),
                mode,
                phase,
            })
        })
}

fn possible(sizes: Sizes, lengths: Vec<u64>) -> impl Strategy<Value = PossibleAccess> {
    (access(sizes, lengths), any::<Option<u32>>(), any::<u32>()).prop_map(
        |(access, param, offset)| PossibleAccess {
            node: access.node,
            buffer: access.buffer,
            bytes: access.bytes,
            param,
            offset,
        },
    )
}

fn stray(sizes: Sizes) -> impl Strategy<Value = StrayWord> {
    let words = (any::<u32>(), any::<u32>(), any::<u64>(), any::<bool>());
    (node_id(sizes), words, text()).prop_map(|(node, (param, offset, at, live), name)| StrayWord {
        node,
        param,
        offset,
        at,
        memory: if live {
            StrayMemory::Live
        } else {
            StrayMemory::Freed
        },
        name,
    })
}

fn reserved(sizes: Sizes) -> impl Strategy<Value = Reserved> {
    (option::of(stream_id(sizes)), range()).prop_map(|(stream, range)| Reserved { stream, range })
}

fn unknown(sizes: Sizes) -> impl Strategy<Value = UnknownAccess> {
    (node_id(sizes), range(), mode()).prop_map(|(node, range, mode)| UnknownAccess {
        node,
        range,
        mode,
    })
}

fn protocol_break(sizes: Sizes) -> impl Strategy<Value = ProtocolBreak> {
    (
        text(),
        text(),
        option::of(stream_id(sizes)),
        option::of(node_id(sizes)),
        option::of(source_line()),
    )
        .prop_map(|(call, what, stream, node, line)| ProtocolBreak {
            call,
            what,
            stream,
            node,
            line,
        })
}
