//! Where what is declared and what nodes show differ, said beside a verdict: what
//! is not declared counts all the same, what is not shown may be a mistake, and
//! their author should know.

use std::collections::BTreeSet;

use streamweir_trace::{
    AccessMode, BufferId, ByteRange, NodeId, NodeKind, Promised, Trace, clipped,
};

use crate::accesses::words::of_param;
use crate::context::Context;
use crate::site::buffer_label;

/// The most lines.
const LINES: usize = 16;

/// The lines about a trace.
pub(super) fn lines(context: &Context<'_>) -> Vec<String> {
    let mut lines = not_declared(context);
    lines.extend(not_shown(context.given).take(LINES));
    lines
}

/// One line for each operation and buffer, with how often it is so.
fn not_declared(context: &Context<'_>) -> Vec<String> {
    let (given, trace) = (context.given, context.trace);
    let mut lines: Vec<(String, u64)> = Vec::new();
    let mut more = 0_u64;
    for access in &trace.accesses[given.accesses.len()..] {
        let node = trace.node(access.node);
        let verb = match access.mode {
            AccessMode::Read => "reads",
            _ => "writes",
        };
        let place = node.launch.as_ref().map(|line| format!(" at {line}"));
        let line = format!(
            "`{}`{} {verb} \"{}\", which nothing declares: it counts all the same; declare it",
            clipped(&node.name),
            place.unwrap_or_default(),
            clipped(&trace.buffer(access.buffer).name)
        );
        if let Some((_, count)) = lines.iter_mut().find(|(known, _)| *known == line) {
            *count += 1;
        } else if lines.len() < LINES {
            lines.push((line, 1));
        } else {
            more += 1;
        }
    }
    let counted = lines.into_iter().map(|(line, count)| match count {
        1 => line,
        _ => format!("{line} ({count} times)"),
    });
    let rest = (more > 0).then(|| format!("{more} accesses more that nothing declares"));
    counted.chain(rest).collect()
}

/// The buffers that a call declares and that none of its words and operands points
/// into.
fn not_shown(trace: &Trace) -> impl Iterator<Item = String> + '_ {
    let calls = trace.promises.iter();
    let calls = calls.filter(|promise| promise.what == Promised::Touches);
    calls.flat_map(move |call| {
        let mut nodes: BTreeSet<NodeId> = call.nodes.iter().copied().collect();
        // Of work that nobody has read back nothing is seen.
        if nodes.iter().any(|&node| is_unseen(trace, node)) {
            nodes.clear();
        }
        let shown: Vec<ByteRange> = nodes.iter().flat_map(|&node| shown(trace, node)).collect();
        let declared = trace.accesses.iter();
        let declared = declared.filter(|access| nodes.contains(&access.node));
        let buffers: BTreeSet<BufferId> = declared.map(|access| access.buffer).collect();
        let hidden = buffers.into_iter().filter(move |&buffer| {
            let range = trace.buffer(buffer).range;
            !shown.iter().any(|at| at.overlaps(&range))
        });
        hidden.map(|buffer| {
            format!(
                "`{}` declares {}, and none of its words and operands points there",
                call.of,
                buffer_label(trace, buffer)
            )
        })
    })
}

/// Whether it is not known what the node does.
fn is_unseen(trace: &Trace, node: NodeId) -> bool {
    match &trace.node(node).kind {
        NodeKind::Kernel(kernel) => kernel.function.is_empty() && kernel.params.is_empty(),
        NodeKind::ChildGraph | NodeKind::Unknown(_) => true,
        _ => false,
    }
}

/// The bytes that the words and operands of a node point to.
fn shown(trace: &Trace, node: NodeId) -> Vec<ByteRange> {
    match &trace.node(node).kind {
        NodeKind::Kernel(kernel) => {
            let params = kernel.params.iter();
            let words = params.flat_map(|param| of_param(param.offset, &param.bytes));
            words
                .filter_map(|(_, at)| ByteRange::from_len(at, 1))
                .collect()
        }
        NodeKind::Memcpy(copy) => [copy.written(), copy.read()]
            .into_iter()
            .flatten()
            .collect(),
        NodeKind::Memset(fill) => fill.written().into_iter().collect(),
        _ => Vec::new(),
    }
}
