//! From findings to a report: one hazard per key, the list capped, the count
//! exact.

use streamweir_trace::{AccessMode, BufferId, NodeId, Phase, Trace};

use crate::certificate::{Certificate, pointers_assumed};
use crate::findings::{Cause, Finding, Findings, Group};
use crate::report::headline::headline;
use crate::report::{BufferNote, Hazard, Report, Site, Stats, Subject, Verdict, draw};
use crate::rules::{Context, growth};
use crate::{Options, unanalysed};

/// The report of what the rules found.
pub(crate) fn assemble(context: &Context<'_>, findings: Findings, options: &Options) -> Report {
    findings.close();
    let (hazards_total, comparisons) = (findings.total(), findings.comparisons());
    let trace = context.trace;
    let verdict = match findings.proven() {
        None => Verdict::Safe,
        Some(false) => Verdict::Possible,
        Some(true) => Verdict::Hazard,
    };
    let unanalysed = unanalysed::nodes(trace, &context.facts.opaque);
    let mut report = Report {
        capture: trace.name.clone(),
        subject: Subject::Capture,
        verdict,
        hazards: findings
            .into_sorted()
            .into_iter()
            .map(|group| hazard(context, group))
            .collect(),
        hazards_total,
        assumptions: assumptions(trace),
        not_analysed: unanalysed::lines(trace, &unanalysed),
        growth: growth(context),
        stats: Stats {
            nodes: trace.nodes.len() as u64,
            edges: trace.edges.len() as u64,
            streams: trace.streams.len() as u64,
            accesses: trace.accesses.len() as u64,
            comparisons,
        },
        certificate: None,
    };
    if report.verdict == Verdict::Safe && options.certificate {
        report.certificate = Certificate::of_safe(context, unanalysed, comparisons);
    }
    report
}

/// What the verdict takes for granted: what the trace says, and, where pointers
/// stand in for declarations, that they do.
fn assumptions(trace: &Trace) -> Vec<String> {
    let mut lines = trace.assumptions.clone();
    lines.extend(pointers_assumed(trace.possible.len()));
    lines
}

fn hazard(context: &Context<'_>, group: Group) -> Hazard {
    let trace = context.trace;
    let Group { lead, buffers } = group;
    let earlier = earlier_use(context, &lead);
    let first = match (lead.first, &lead.cause) {
        (Some(node), _) => Site::of(trace, node, lead.modes[0]),
        (None, Cause::Unjoined) => Site {
            stream: lead
                .tag
                .checked_sub(1)
                .and_then(|at| trace.streams.get(at as usize))
                .map(|stream| stream.name.clone()),
            ..Site::default()
        },
        (None, Cause::Protocol(entry)) => {
            let entry = &trace.protocol[*entry as usize];
            Site {
                name: entry.call.clone(),
                stream: entry.stream.map(|id| trace.stream(id).name.clone()),
                launch: entry.line.clone(),
                ..Site::default()
            }
        }
        (None, _) => Site::default(),
    };
    let mut hazard = Hazard {
        rule: lead.rule,
        what: headline(trace, &lead),
        first,
        second: lead.second.map(|node| Site::of(trace, node, lead.modes[1])),
        buffers: buffers
            .into_iter()
            .map(|id| BufferNote::of(trace, id))
            .collect(),
        bytes: lead.bytes,
        proven: lead.proven,
        help: lead.fix.describe(trace),
        fix: lead.fix,
        drawing: Vec::new(),
    };
    let name = |id: BufferId| trace.buffer(id).name.as_str();
    let of_first = lead.buffers[0];
    let of_second = lead.buffers[1].or(of_first);
    let touched = [of_first.map(name), of_second.map(name)];
    hazard.drawing = draw(context, &hazard, touched, earlier);
    hazard
}

/// How many accesses of a buffer are gone through for a drawing.
const LOOKED_AT: usize = 4096;

/// Of a node that comes between two uses of a buffer, the last use before it:
/// what the second one is to find, and what the node destroys.
fn earlier_use(context: &Context<'_>, lead: &Finding) -> Option<(NodeId, Option<AccessMode>)> {
    let (first, buffer) = match (&lead.cause, lead.first, lead.buffers[1]) {
        (Cause::Between, Some(first), Some(buffer)) => (first, buffer),
        _ => return None,
    };
    let uses = context.accesses.of(buffer).take(LOOKED_AT);
    uses.take_while(|used| context.graph.position(used.node) < context.graph.position(first))
        .filter(|used| used.bytes.overlaps(&lead.bytes))
        .filter(|used| {
            context
                .reach
                .ends_before(used.node, first, Phase::AfterWait)
        })
        .last()
        .map(|used| (used.node, used.declared.then_some(used.mode)))
}
