//! Captures with names: minimal ones, and layers out of the library's pools.

use streamweir::trace::{
    Access, AccessMode, AllocPoint, Buffer, BufferId, BufferKind, ByteRange, Edge, Node, NodeId,
    NodeKind, Stream, StreamId, Trace,
};
use streamweir::{CaptureOptions, Device, Error, Policy, Verify};

use crate::common::{Kernels, LEN, N, SMALL, plus, sum};

use AccessMode::{Atomic, Read, ReadWrite, Write};

/// Writes a capture down: nodes on `main` (0), `side` (1) and `third` (2), each
/// behind the last one of its stream.
struct Drafted {
    trace: Trace,
    last: [Vec<NodeId>; 3],
}

impl Drafted {
    fn new(name: &str) -> Self {
        let mut trace = Trace::new(name);
        trace.add_stream(Stream::origin("main"));
        for name in ["side", "third"] {
            let mut stream = Stream::forked(name, StreamId(0));
            stream.end.joined = true;
            trace.add_stream(stream);
        }
        Self {
            trace,
            last: Default::default(),
        }
    }

    fn node(&mut self, stream: usize, accesses: &[(AccessMode, BufferId)]) -> NodeId {
        let parts: Vec<_> = accesses
            .iter()
            .map(|&(mode, buffer)| (mode, buffer, 0..self.trace.buffer(buffer).range.len()))
            .collect();
        self.parts(stream, &parts)
    }

    fn parts(
        &mut self,
        stream: usize,
        accesses: &[(AccessMode, BufferId, std::ops::Range<u64>)],
    ) -> NodeId {
        let node = Node::new(NodeKind::kernel(), format!("k{}", self.trace.nodes.len()));
        let node = self.trace.add_node(node.on(StreamId::at(stream)));
        for from in std::mem::replace(&mut self.last[stream], vec![node]) {
            self.trace.add_edge(Edge::full(from, node));
        }
        for (mode, buffer, bytes) in accesses {
            let bytes = ByteRange::new(bytes.start, bytes.end);
            self.trace
                .add_access(Access::new(node, *buffer, bytes, *mode));
        }
        node
    }

    /// What follows on `into` waits for what `from` has recorded.
    fn join(&mut self, into: usize, from: usize) {
        let more = self.last[from].clone();
        self.last[into].extend(more);
        self.last[into].sort_unstable();
        self.last[into].dedup();
    }

    fn scratch(&mut self, stream: usize, start: u64) -> BufferId {
        let alloc = AllocPoint {
            frontier: self.last[stream].clone(),
            before: NodeId::at(self.trace.nodes.len()),
        };
        let name = format!("s{}", self.trace.buffers.len());
        let range = ByteRange::new(start, start + 8);
        self.trace
            .add_buffer(Buffer::scratch(name, range, StreamId::at(stream), alloc))
    }

    fn kept(&mut self, start: u64) -> BufferId {
        let range = ByteRange::new(start, start + 8);
        self.trace.add_buffer(Buffer::persistent("kept", range))
    }

    fn freed(&mut self, buffer: BufferId) {
        let here = NodeId::at(self.trace.nodes.len());
        if let BufferKind::Scratch { freed_before, .. } =
            &mut self.trace.buffers[buffer.index()].kind
        {
            *freed_before = Some(here);
        }
    }

    fn end(mut self) -> Trace {
        for (stream, last) in self.trace.streams.iter_mut().zip(self.last) {
            stream.end.frontier = last;
        }
        self.trace
    }
}

/// A capture written down by `record`, all streams joined at the end.
fn drafted(name: &'static str, record: impl FnOnce(&mut Drafted)) -> (&'static str, Trace) {
    let mut drafted = Drafted::new(name);
    record(&mut drafted);
    drafted.join(0, 1);
    drafted.join(0, 2);
    (name, drafted.end())
}

/// Captures that break R1, R2, R4, R11 or R13, and must show it.
pub(crate) fn breaking() -> Vec<(&'static str, Trace)> {
    vec![
        drafted("written in place beside a reader", |p| {
            let experts = p.kept(0);
            p.node(0, &[(Write, experts)]);
            p.join(1, 0);
            p.node(1, &[(Read, experts)]);
            p.node(0, &[(ReadWrite, experts)]);
        }),
        drafted("two writers of what is kept", |p| {
            let kept = p.kept(0);
            p.node(0, &[(Write, kept)]);
            p.node(1, &[(Write, kept)]);
        }),
        drafted("dropped on main before the join", |p| {
            let out = p.kept(64);
            let qkv = p.scratch(0, 0);
            p.node(0, &[(Write, qkv)]);
            p.join(1, 0);
            p.node(1, &[(Read, qkv), (Write, out)]);
            p.freed(qkv);
            let next = p.scratch(0, 0);
            p.node(0, &[(Write, next)]);
            p.node(0, &[(Read, next)]);
        }),
        drafted("one after the other, and read once more", |p| {
            let a = p.scratch(0, 0);
            let b = p.scratch(0, 4);
            p.node(0, &[(Write, a)]);
            p.node(0, &[(Write, b)]);
            p.node(0, &[(Read, a)]);
        }),
        drafted("scratch over what is kept", |p| {
            let kept = p.kept(0);
            p.node(0, &[(Read, kept)]);
            let over = p.scratch(0, 4);
            p.node(0, &[(Write, over)]);
        }),
        drafted("read before any write", |p| {
            let a = p.scratch(0, 0);
            p.parts(0, &[(Write, a, 0..6)]);
            p.node(0, &[(Read, a)]);
        }),
        drafted("one workspace, two streams", |p| {
            let range = ByteRange::new(0, 8);
            let mut workspace = Buffer::persistent("workspace", range);
            workspace.kind = BufferKind::Workspace {
                stream: StreamId(0),
            };
            let workspace = p.trace.add_buffer(workspace);
            p.node(0, &[(ReadWrite, workspace)]);
            p.node(1, &[(ReadWrite, workspace)]);
        }),
        drafted("taken on a stream that nothing ordered", |p| {
            let a = p.scratch(0, 0);
            p.node(0, &[(Write, a)]);
            p.node(0, &[(Read, a)]);
            p.freed(a);
            let b = p.scratch(0, 0);
            p.node(1, &[(Write, b)]);
            p.node(1, &[(Read, b)]);
        }),
    ]
}

/// Captures that must not be flagged.
pub(crate) fn safe() -> Vec<(&'static str, Trace)> {
    vec![
        drafted("readers on all streams", |p| {
            let kept = p.kept(0);
            for stream in 0..3 {
                p.node(stream, &[(Read, kept)]);
            }
        }),
        drafted("halves of one buffer", |p| {
            let kept = p.kept(0);
            p.parts(0, &[(Write, kept, 0..4)]);
            p.parts(1, &[(Write, kept, 4..8)]);
        }),
        drafted("atomics on two streams", |p| {
            let sum = p.kept(0);
            p.node(0, &[(Atomic, sum)]);
            p.node(1, &[(Atomic, sum)]);
            p.node(2, &[(Atomic, sum)]);
        }),
        drafted("reuse after a join of all readers", |p| {
            let a = p.scratch(0, 0);
            p.node(0, &[(Write, a)]);
            p.join(1, 0);
            p.node(1, &[(Read, a)]);
            p.node(0, &[(Read, a)]);
            p.join(0, 1);
            p.freed(a);
            let b = p.scratch(0, 0);
            p.node(0, &[(Write, b)]);
            p.node(0, &[(Read, b)]);
        }),
        drafted("order over a third stream", |p| {
            let a = p.scratch(0, 0);
            p.node(0, &[(Write, a)]);
            p.join(2, 0);
            p.node(2, &[]);
            p.join(1, 2);
            p.node(1, &[(Read, a)]);
        }),
        drafted("written in turn with a join between", |p| {
            let kept = p.kept(0);
            p.node(0, &[(Write, kept)]);
            p.join(1, 0);
            p.node(1, &[(ReadWrite, kept)]);
            p.join(0, 1);
            p.node(0, &[(ReadWrite, kept)]);
        }),
        drafted("a join that says what is known", |p| {
            let a = p.scratch(0, 0);
            p.node(0, &[(Write, a)]);
            p.join(1, 0);
            p.node(1, &[(Read, a)]);
            p.node(2, &[]);
            // Orders nothing that needs an order.
            p.join(2, 1);
            p.node(2, &[]);
        }),
    ]
}

/// Who gives the layers their scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pools {
    /// A pool for each stream.
    Isolated,
    /// One pool, free at host drop: how engines capture today.
    HostOrder,
}

/// Layers in the manner of a decode step, captured from the library:
/// ```text
/// main  norm ---- queries ----- attention ---
///          \                   /
/// side      keys - logits - topk
/// ```
pub(crate) fn layers(pools: Pools, layers: u32) -> Trace {
    let device = Device::sim(0);
    let kernels = Kernels::load(&device).unwrap();
    let hidden = device.persistent_from("hidden", &[1_u32, 2, 3, 4]).unwrap();
    let options = CaptureOptions::new("layers").arena(SMALL);
    let options = match pools {
        Pools::Isolated => options.policy(Policy::ISOLATED),
        // SAFETY: the graph is never replayed; its trace is what is asked for.
        Pools::HostOrder => unsafe { options.host_order_pools() },
    };
    let captured = device.capture::<_, Error>(options.verify(Verify::Report), |cap| {
        let main = cap.origin();
        for _ in 0..layers {
            let norm = main.scratch::<u32>("norm", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &hidden,
                    output: &norm,
                    more: 1,
                    len: N,
                },
            )?;
            let side = cap.fork(&main, "indexer")?;
            let keys = side.scratch::<u32>("keys", LEN)?;
            side.launch(
                &kernels.plus,
                plus {
                    input: &norm,
                    output: &keys,
                    more: 2,
                    len: N,
                },
            )?;
            let logits = side.scratch::<u32>("logits", LEN)?;
            side.launch(
                &kernels.sum,
                sum {
                    left: &keys,
                    right: &norm,
                    output: &logits,
                    len: N,
                },
            )?;
            drop((keys, norm));
            let topk = side.scratch::<u32>("topk", LEN)?;
            side.launch(
                &kernels.plus,
                plus {
                    input: &logits,
                    output: &topk,
                    more: 3,
                    len: N,
                },
            )?;
            drop(logits);
            let queries = main.scratch::<u32>("queries", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &hidden,
                    output: &queries,
                    more: 4,
                    len: N,
                },
            )?;
            let rope = main.scratch::<u32>("rope", LEN)?;
            main.launch(
                &kernels.plus,
                plus {
                    input: &queries,
                    output: &rope,
                    more: 5,
                    len: N,
                },
            )?;
            let seen = cap.join(&main, side)?;
            main.launch(
                &kernels.sum,
                sum {
                    left: &rope,
                    right: seen.see(&topk),
                    output: &hidden,
                    len: N,
                },
            )?;
        }
        Ok(())
    });
    captured.unwrap().0.trace().clone()
}
