//! R6, capture protocol: every forked stream is joined again, and no call was
//! made that a capture does not allow.
//!
//! ```text
//! breaks:  main ---+-- a ------ end        safe:  main ---+-- a --+--- end
//!                   \                                      \     /
//!          side      +--- b                       side      +-b-+
//! ```
//!
//! A stream is joined when its work leads to where the origin stands at the
//! end. That is a question of edges of any kind, as the driver asks it. One
//! hazard is raised per stream, at the last of its nodes that leads nowhere.

use streamweir_trace::{NodeId, StreamId};

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    let trace = context.trace;
    for (at, entry) in (0_u32..).zip(&trace.protocol) {
        findings.push(Finding {
            tag: 1 << 31 | at,
            cause: Cause::Protocol(at),
            ..Finding::of_node(Rule::Protocol, entry.node, Fix::Withdraw { entry: at })
        });
    }
    let Some(origin) = trace.streams.first() else {
        return;
    };
    // Without an end of the origin the trace does not say where its streams
    // were to be joined; what it says of each stream still counts.
    let known = !origin.end.frontier.is_empty();
    let leads = if known {
        context.graph.leads_to(&origin.end.frontier)
    } else {
        vec![true; trace.nodes.len()]
    };
    let mut last_lost: Vec<Option<NodeId>> = vec![None; trace.streams.len() + 1];
    let mut last: Vec<Option<NodeId>> = last_lost.clone();
    for &node in context.graph.order() {
        let stream = context.facts.stream(node);
        let slot = stream.map_or(trace.streams.len(), StreamId::index);
        last[slot] = Some(node);
        if !leads[node.index()] {
            last_lost[slot] = Some(node);
        }
    }
    for (slot, stream) in trace.streams.iter().enumerate() {
        let at_end = stream.end.frontier.iter().copied();
        let lost = last_lost[slot].or(at_end.filter(|node| !leads[node.index()]).max());
        // `joined` is the recorder's word that a join point exists. It is
        // believed only in the bad case: the edges above decide the good one.
        let unjoined = slot != 0 && !stream.end.joined;
        if lost.is_some() || unjoined {
            let id = StreamId::at(slot);
            findings.push(unjoined_work(Some(id), lost.or(last[slot])));
        }
    }
    if let Some(lost) = last_lost[trace.streams.len()] {
        findings.push(unjoined_work(None, Some(lost)));
    }
}

fn unjoined_work(stream: Option<StreamId>, last: Option<NodeId>) -> Finding {
    Finding {
        tag: stream.map_or(0, |stream| stream.0 + 1),
        cause: Cause::Unjoined,
        ..Finding::of_node(Rule::Protocol, last, Fix::JoinAtEnd { stream, last })
    }
}
