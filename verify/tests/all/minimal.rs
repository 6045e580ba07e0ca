//! A fix asks for no order that it could do without.

use streamweir_trace::{Buffer, BufferKind, Edge, NodeId, Trace};
use streamweir_verify::{Fix, Hazard, verify};

/// Panics unless each order that the fix of this hazard adds is needed: without
/// it there is a hazard that there is not with it.
///
/// That a new node follows what the node behind it follows is no choice but the
/// place where it is recorded, and does not count; nor does an order with work
/// of which nobody knows what it touches.
#[track_caller]
pub(crate) fn is_minimal(trace: &Trace, hazard: &Hazard) {
    let mended = hazard.fix.apply(trace);
    let left = broken(&mended);
    let needed = |cut: &Trace, what: &dyn std::fmt::Debug| {
        let back = broken(cut)
            .into_iter()
            .any(|broken| !left.contains(&broken));
        assert!(back, "{what:?} is not needed by the fix of\n{hazard}");
    };
    for edge in added(trace, &mended, &hazard.fix) {
        let of_no_choice = match hazard.fix {
            Fix::WriteFirst { before, .. } => edge.to == before,
            Fix::FreeAtEnd { alloc, .. } => {
                let named = |buffer: &Buffer| matches!(buffer.kind, BufferKind::Graph { alloc: of, .. } if of == alloc);
                !mended.node(edge.from).analysed || !mended.buffers.iter().any(named)
            }
            _ => false,
        };
        if of_no_choice {
            continue;
        }
        let mut cut = mended.clone();
        let at = cut.edges.iter().rposition(|other| *other == edge).unwrap();
        cut.edges.remove(at);
        needed(&cut, &edge);
    }
    if matches!(hazard.fix, Fix::JoinAtEnd { .. }) {
        let before = trace.streams[0].end.frontier.len();
        for at in before..mended.streams[0].end.frontier.len() {
            let mut cut = mended.clone();
            let end = cut.streams[0].end.frontier.remove(at);
            needed(&cut, &end);
        }
    }
}

/// The hazards of a trace, by what is wrong: a pair of nodes that shares several
/// pairs of buffers has a fix for each, and how it is drawn does not matter.
fn broken(trace: &Trace) -> Vec<Hazard> {
    let mut hazards = verify(trace).unwrap().hazards;
    for hazard in &mut hazards {
        hazard.drawing.clear();
        hazard.help.clear();
        hazard.fix = Fix::CaptureAgain;
    }
    hazards
}

/// The edges that a fix has added.
fn added(trace: &Trace, mended: &Trace, fix: &Fix) -> Vec<Edge> {
    let new = match fix {
        Fix::WriteFirst { before, .. } => Some(*before),
        Fix::FreeAtEnd { .. } => Some(NodeId::at(trace.nodes.len())),
        _ => None,
    };
    match new {
        Some(new) => {
            let touches = |edge: &&Edge| edge.from == new || edge.to == new;
            mended.edges.iter().filter(touches).copied().collect()
        }
        None => mended.edges[trace.edges.len()..].to_vec(),
    }
}
