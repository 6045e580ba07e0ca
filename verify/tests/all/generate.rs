//! Traces for reports to draw: one with a hazard, and large ones.

use streamweir_trace::{
    Access, AccessMode, AllocPoint, Buffer, ByteRange, Edge, Node, NodeId, NodeKind, SourceLine,
    Stream, Trace,
};

/// `layers` layers of eight nodes each, on four streams that fork from `main`
/// and join it again in each layer. In the layers named in `broken` the join of
/// the indexer is left out, and `main` overwrites what it reads.
pub(crate) fn layers(layers: u32, broken: &[u32]) -> Trace {
    let mut trace = Trace::new("decode, generated");
    let main = trace.add_stream(Stream::origin("main"));
    let names = ["indexer", "kv", "experts"];
    let side = names.map(|name| {
        let mut stream = Stream::forked(name, main);
        stream.end.joined = true;
        trace.add_stream(stream)
    });
    let cache = trace.add_buffer(Buffer::persistent(
        "kv cache",
        ByteRange::new(1 << 32, 3 << 31),
    ));
    let mut tail: Vec<NodeId> = Vec::new();
    for layer in 0..layers {
        let scope = ["norm", "indexer", "cache", "experts", "attention"]
            .map(|part| trace.add_scope(format!("layer {layer}/{part}")));
        let add = |trace: &mut Trace, name: &str, stream, scope, after: &[NodeId]| {
            let mut node = Node::new(NodeKind::kernel(), name).on(stream);
            node.scope = Some(scope);
            node.launch = Some(SourceLine {
                file: "engine/layer.rs".into(),
                line: 40 + 3 * (trace.nodes.len() as u32 % 8),
            });
            let node = trace.add_node(node);
            for &from in after {
                trace.add_edge(Edge::full(from, node));
            }
            node
        };
        let scratch = |trace: &mut Trace, name: &str, stream, slot: u64, frontier: &[NodeId]| {
            let start = (1 << 20) * (1 + slot);
            let alloc = AllocPoint {
                frontier: frontier.to_vec(),
                before: NodeId::at(trace.nodes.len()),
            };
            let range = ByteRange::new(start, start + 0x8_0000);
            trace.add_buffer(Buffer::scratch(
                format!("{name} {layer}"),
                range,
                stream,
                alloc,
            ))
        };
        let hidden = scratch(&mut trace, "hidden", main, 0, &tail);
        let norm = add(&mut trace, "rms_norm", main, scope[0], &tail);
        let scores = scratch(&mut trace, "scores", side[0], 1, &[norm]);
        let logits = add(&mut trace, "indexer_logits", side[0], scope[1], &[norm]);
        let topk = add(&mut trace, "topk_512", side[0], scope[1], &[logits]);
        let keys = scratch(&mut trace, "keys", side[1], 2, &[norm]);
        let store = add(
            &mut trace,
            "store_kv<bf16, 128>",
            side[1],
            scope[2],
            &[norm],
        );
        let gate = scratch(&mut trace, "gate", side[2], 3, &[norm]);
        let experts = add(&mut trace, "shared_experts", side[2], scope[3], &[norm]);
        let query = add(&mut trace, "query_gemm", main, scope[0], &[norm]);
        let is_broken = broken.contains(&layer);
        let mut after = vec![query, store];
        if !is_broken {
            after.push(topk);
        }
        let attend = add(&mut trace, "sparse_attention", main, scope[4], &after);
        let sum = [attend, experts, topk];
        let sum = add(&mut trace, "residual_add", main, scope[4], &sum);
        tail = vec![sum];

        let all = ByteRange::new(0, 0x8_0000);
        let page = ByteRange::new(u64::from(layer) << 12, u64::from(layer + 1) << 12);
        let uses = [
            (norm, hidden, AccessMode::Write),
            (logits, hidden, AccessMode::Read),
            (logits, scores, AccessMode::Write),
            (topk, scores, AccessMode::ReadWrite),
            (store, hidden, AccessMode::Read),
            (store, keys, AccessMode::Write),
            (experts, hidden, AccessMode::Read),
            (experts, gate, AccessMode::Write),
            (query, hidden, AccessMode::Read),
            (attend, keys, AccessMode::Read),
            (attend, scores, AccessMode::Read),
            (tail[0], gate, AccessMode::Read),
        ];
        for (node, buffer, mode) in uses {
            trace.add_access(Access::new(node, buffer, all, mode));
        }
        trace.add_access(Access::new(store, cache, page, AccessMode::Write));
        trace.add_access(Access::new(attend, cache, page, AccessMode::Read));
    }
    trace.streams[0].end.frontier = tail;
    trace.assumptions.push("page ids below 4096".into());
    trace
}

/// A trace whose every name is markup, quotes, script or something stranger.
pub(crate) fn hostile() -> Trace {
    let bad = [
        "</script><script>window.pwned=1</script>",
        "<img src=x onerror=window.pwned=1>",
        "\"'`><svg onload=window.pwned=1>\\",
        "]]>--><!-- {{script}} ${window.pwned=1} \u{2028}\u{0}\u{202e}",
    ];
    let mut trace = layers(2, &[1]);
    let mut at = 0;
    let mut next = || {
        at += 1;
        format!("{} {at}", bad[at % bad.len()])
    };
    trace.name = next();
    for stream in &mut trace.streams {
        (stream.name, stream.tag) = (next(), next());
    }
    for scope in &mut trace.scopes {
        *scope = next();
    }
    for node in &mut trace.nodes {
        node.name = next();
        node.launch.as_mut().expect("a line").file = next();
    }
    for buffer in &mut trace.buffers {
        buffer.name = next();
    }
    for line in &mut trace.assumptions {
        *line = next();
    }
    trace
}
