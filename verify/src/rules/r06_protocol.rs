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

use streamweir_trace::{NodeId, ProtocolBreak, StreamId, Trace};

use crate::findings::{self, Finding, Findings, Subject};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};
use crate::site::Site;

pub(super) const NUMBER: &str = "R6";

/// What the capture did not keep to.
#[derive(Debug)]
enum Cause {
    /// Work of a stream, or of no known one, does not reach the end of the
    /// origin.
    Unjoined(Option<StreamId>),
    /// An entry of the trace's protocol table.
    Broken(u32),
}

impl Cause {
    fn entry<'t>(&self, trace: &'t Trace) -> Option<&'t ProtocolBreak> {
        match self {
            Self::Broken(at) => trace.protocol.get(*at as usize),
            Self::Unjoined(_) => None,
        }
    }
}

impl findings::Cause for Cause {
    fn what(&self, trace: &Trace, _: &Finding) -> String {
        match (self, self.entry(trace)) {
            (_, Some(entry)) => format!("`{}`: {}", entry.call, entry.what),
            (Self::Unjoined(Some(stream)), _) => {
                let name = &trace.stream(*stream).name;
                format!("the work of stream \"{name}\" is not joined")
            }
            _ => "work on no known stream is not joined".to_owned(),
        }
    }

    fn place(&self, trace: &Trace) -> Site {
        let name = |stream: StreamId| trace.stream(stream).name.clone();
        match (self, self.entry(trace)) {
            (_, Some(entry)) => Site {
                name: entry.call.clone(),
                stream: entry.stream.map(name),
                launch: entry.line.clone(),
                ..Site::default()
            },
            (Self::Unjoined(stream), _) => Site {
                stream: stream.map(name),
                ..Site::default()
            },
            _ => Site::default(),
        }
    }
}

pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, .. } = input;
    let trace = context.trace;
    for (at, entry) in (0_u32..).zip(&trace.protocol) {
        let fix = Fix::Withdraw { entry: at };
        findings.push(Finding {
            subject: Subject::Protocol(at),
            ..Finding::of_node(Rule::Protocol, Cause::Broken(at), entry.node, fix)
        });
    }
    let Some(origin) = trace.streams.first() else {
        return Ok(());
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
    Ok(())
}

fn unjoined_work(stream: Option<StreamId>, last: Option<NodeId>) -> Finding {
    let fix = Fix::JoinAtEnd { stream, last };
    Finding {
        subject: Subject::Stream(stream),
        ..Finding::of_node(Rule::Protocol, Cause::Unjoined(stream), last, fix)
    }
}
