//! Files of each version that must stay readable, and the exact text that this
//! version writes. When one of these tests fails, files that people keep no
//! longer mean what they meant: raise `VERSION` instead of editing a file here.

use streamweir_trace::{
    Access, AccessMode, AllocNode, AllocPoint, BlockSync, Buffer, BufferId, BufferKind, ByteRange,
    CopyNode, Edge, EdgeKind, FillNode, FreeNode, Keeper, KernelNode, Node, NodeId, NodeKind,
    Param, PdlWait, Phase, PointerParam, PossibleAccess, Promise, Promised, ProtocolBreak,
    Reserved, SourceLine, StrayMemory, StrayWord, Stream, Trace, Unfreed, UnknownAccess, from_json,
    to_json_pretty,
};

use crate::arbitrary::PLAIN_KINDS;

/// Every field and every word of the format.
const COMPLETE: &str = include_str!("data/complete.v3.json");

/// Every field and every word of version 2.
const COMPLETE_V2: &str = include_str!("data/complete.v2.json");

/// Only the fields that a file must have.
const MINIMAL: &str = include_str!("data/minimal.v2.json");

#[test]
fn the_complete_file_is_written_and_read() {
    let written = to_json_pretty(&complete()) + "\n";
    for (at, (now, then)) in written.lines().zip(COMPLETE.lines()).enumerate() {
        assert_eq!(now, then, "line {} of the file", at + 1);
    }
    assert_eq!(written.len(), COMPLETE.len(), "the file's length");
    assert_eq!(from_json(COMPLETE.as_bytes()).expect("valid"), complete());
}

/// What later versions have added is absent, and means what it meant.
#[test]
fn files_of_version_2_mean_what_they_meant() {
    let trace = from_json(COMPLETE_V2.as_bytes()).expect("valid");
    assert_eq!(trace, as_version_2(complete()));
}

#[test]
fn absent_fields_take_their_documented_values() {
    assert_eq!(from_json(MINIMAL.as_bytes()).expect("valid"), minimal());
}

#[test]
fn the_example_of_the_documentation_is_a_trace() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trace-format.md");
    let page = std::fs::read_to_string(page).expect("docs/trace-format.md");
    let (_, rest) = page.split_once("```json\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let trace = from_json(example.as_bytes()).expect("valid");
    assert_eq!((trace.nodes.len(), trace.edges.len()), (3, 3));
    // What the text above the example says of it.
    assert_eq!(trace.stream_of(trace.accesses[0].node), Some("indexer"));
    assert_eq!(trace.stream_of(trace.accesses[1].node), Some("main"));
}

fn line(line: u32) -> SourceLine {
    SourceLine {
        file: "src/decode.rs".into(),
        line,
    }
}

fn complete() -> Trace {
    let mut trace = Trace::new("decode, batch 8");
    let main = trace.add_stream(Stream::origin("main"));
    let side = trace.add_stream(Stream::forked("indexer", main));
    let scope = trace.add_scope("layer 2/indexer");

    let keys = trace.add_buffer(Buffer::persistent(
        "index keys",
        ByteRange::new(0x7f00_0000_0000, 0x7f00_0001_0000),
    ));
    let scores = trace.add_buffer(Buffer {
        name: "scores".into(),
        kind: BufferKind::Scratch {
            stream: side,
            alloc: AllocPoint::default(),
            freed_before: None,
        },
        range: ByteRange::new(0x7f00_0002_0000, 0x7f00_0002_0400),
        carried: false,
    });
    trace.add_buffer(Buffer {
        name: "cublaslt".into(),
        kind: BufferKind::Workspace { stream: main },
        range: ByteRange::new(0x7f00_0003_0000, 0x7f00_0003_0100),
        carried: false,
    });

    let fill = trace.add_node(
        Node::new(
            NodeKind::Memset(FillNode {
                to: 0x7f00_0002_0000,
                bytes: 512,
                value: 0xff7f,
                element: 2,
                rows: 2,
                pitch: 512,
            }),
            "poison",
        )
        .on(side),
    );
    let mut logits = Node::new(
        NodeKind::Kernel(KernelNode {
            function: "indexer_logits".into(),
            grid: [64, 8, 1],
            block: [128, 1, 1],
            shared_bytes: 16384,
            cluster: [0; 3],
            sync: BlockSync::Spin,
            params: vec![
                Param {
                    name: "keys".into(),
                    offset: 0,
                    bytes: 0x7f00_0000_0100_u64.to_le_bytes().to_vec(),
                    pointer: Some(PointerParam {
                        buffer: Some(keys),
                        offset: 256,
                    }),
                    fields: Vec::new(),
                },
                Param {
                    name: "stray".into(),
                    offset: 8,
                    bytes: vec![0; 8],
                    pointer: Some(PointerParam {
                        buffer: None,
                        offset: 0,
                    }),
                    fields: Vec::new(),
                },
                Param {
                    name: String::new(),
                    offset: 16,
                    bytes: vec![0x0a, 0xff],
                    pointer: None,
                    fields: Vec::new(),
                },
            ],
        }),
        "logits",
    )
    .on(side);
    logits.scope = Some(scope);
    logits.launch = Some(line(42));
    logits.pdl = PdlWait::OnAllPaths;
    let logits = trace.add_node(logits);
    let copy = trace.add_node(
        Node::new(
            NodeKind::Memcpy(CopyNode {
                to: 0x7f00_0003_0000,
                from: 0x7f00_0002_0000,
                bytes: 64,
                rows: 4,
                to_pitch: 64,
                from_pitch: 256,
            }),
            "keep",
        )
        .on(main),
    );
    let made = ByteRange::new(0x7f00_0004_0000, 0x7f00_0004_1000);
    let alloc = trace.add_node(Node::new(
        NodeKind::MemAlloc(AllocNode {
            at: made.start,
            bytes: made.len(),
        }),
        "take",
    ));
    let free = trace.add_node(Node::new(
        NodeKind::MemFree(FreeNode { at: made.start }),
        "give",
    ));
    for free in [None, Some(free)] {
        trace.add_buffer(Buffer {
            name: "partial sums".into(),
            kind: BufferKind::Graph { alloc, free },
            range: made,
            carried: false,
        });
    }
    for kind in PLAIN_KINDS.iter().cloned().chain([NodeKind::Unknown(99)]) {
        let name = kind.word();
        let mut node = Node::new(kind, name);
        node.analysed = false;
        trace.add_node(node);
    }
    trace.streams[main.index()].end.frontier = vec![copy];
    trace.streams[side.index()].end.frontier = vec![logits];
    trace.streams[side.index()].tag = "side".into();
    let BufferKind::Scratch {
        alloc,
        freed_before,
        ..
    } = &mut trace.buffers[scores.index()].kind
    else {
        unreachable!("scores was added as scratch");
    };
    alloc.frontier = vec![fill];
    alloc.before = logits;
    *freed_before = Some(copy);

    trace.add_edge(Edge {
        from: fill,
        to: logits,
        kind: EdgeKind::Programmatic,
    });
    trace.add_edge(Edge::full(logits, copy));
    let bytes = ByteRange::new(0, 0x400);
    trace.add_access(Access::new(fill, scores, bytes, AccessMode::Write));
    trace.add_access(Access {
        phase: Phase::BeforeWait,
        ..Access::new(
            logits,
            keys,
            ByteRange::new(0x100, 0x8000),
            AccessMode::Read,
        )
    });
    trace.add_access(Access::new(logits, scores, bytes, AccessMode::ReadWrite));
    trace.add_access(Access::new(copy, scores, bytes, AccessMode::Atomic));
    trace.possible.push(PossibleAccess {
        node: logits,
        buffer: keys,
        bytes: ByteRange::new(0, 0x1_0000),
        param: Some(2),
        offset: 8,
    });
    for (memory, name) in [(StrayMemory::Live, "kv cache"), (StrayMemory::Freed, "")] {
        trace.stray.push(StrayWord {
            node: logits,
            param: 1,
            offset: 16,
            at: 0x7f00_0009_0000,
            memory,
            name: name.into(),
        });
    }
    for stream in [None, Some(side)] {
        trace.reserved.push(Reserved {
            stream,
            range: ByteRange::new(0x7f00_0002_0000, 0x7f00_0004_0000),
        });
    }
    trace.unknown.push(UnknownAccess {
        node: logits,
        range: ByteRange::new(0xffff_ffff_ffff_ff00, u64::MAX),
        mode: AccessMode::Read,
    });
    trace.protocol.push(ProtocolBreak {
        call: "end capture".into(),
        what: "stream \"indexer\" was never joined; join it before the capture ends".into(),
        stream: Some(side),
        node: Some(logits),
        line: Some(line(77)),
    });
    trace.unfreed = Unfreed::FreedByLauncher;
    trace.promises = promises(fill);
    trace.add_buffer(Buffer {
        name: "memory at 0x7f0000060000".into(),
        kind: BufferKind::Foreign {
            keeper: Keeper::Engine,
        },
        range: ByteRange::new(0x7f00_0006_0000, 0x7f00_0006_0200),
        carried: false,
    });
    trace.assumptions.push("page ids below 4096".into());
    trace
}

/// One of each kind.
fn promises(node: NodeId) -> Vec<Promise> {
    let all = [
        Promised::Touches,
        Promised::Unchecked,
        Promised::Waits,
        Promised::Narrowed,
        Promised::LeftOver {
            words: 3,
            buffers: vec![BufferId(0)],
            reason: "unused fields".into(),
        },
        Promised::Keeps {
            name: "handle".into(),
            range: ByteRange::new(0x7f00_0005_0000, 0x7f00_0005_0100),
            owner: "the engine".into(),
        },
    ];
    let promise = |what| Promise {
        of: "gemm".into(),
        nodes: vec![node],
        what,
        line: Some(line(57)),
    };
    all.into_iter().map(promise).collect()
}

/// What version 3 has added is taken back.
fn as_version_2(mut trace: Trace) -> Trace {
    trace.unfreed = Unfreed::Held;
    trace.promises.clear();
    trace.buffers.pop();
    trace
}

fn minimal() -> Trace {
    let mut trace = Trace::new("minimal");
    let main = trace.add_stream(Stream::origin("main"));
    trace.streams[main.index()].end.joined = false;
    let kernel = KernelNode {
        function: "k".into(),
        params: vec![Param {
            name: String::new(),
            offset: 0,
            bytes: Vec::new(),
            pointer: Some(PointerParam {
                buffer: None,
                offset: 0,
            }),
            fields: Vec::new(),
        }],
        ..KernelNode::default()
    };
    let first = trace.add_node(Node::new(NodeKind::Kernel(kernel), "first"));
    let second = trace.add_node(Node::new(NodeKind::Empty, "second"));
    trace.add_edge(Edge::full(first, second));
    let weights = trace.add_buffer(Buffer {
        carried: false,
        ..Buffer::persistent("weights", ByteRange::new(0x1000, 0x2000))
    });
    trace.add_buffer(Buffer::scratch(
        "tmp",
        ByteRange::new(0, 0),
        main,
        AllocPoint::default(),
    ));
    trace.add_access(Access::new(
        first,
        weights,
        ByteRange::new(0, 0x10),
        AccessMode::Read,
    ));
    trace.protocol.push(ProtocolBreak {
        call: "c".into(),
        what: "w".into(),
        stream: None,
        node: None,
        line: None,
    });
    trace
}
