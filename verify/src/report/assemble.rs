//! From findings to a report: one hazard per key, the list capped, the count
//! exact.

use streamweir_trace::{AccessMode, BufferId, NodeId, Phase, Trace};

use super::drawing::draw;
use super::fold::{Folded, fold};
use super::model::{Hazard, Member, Report, Stats, Subject, Verdict};
use super::{remedy, undeclared};
use crate::certificate;
use crate::context::Context;
use crate::findings::{Finding, Findings, Group};
use crate::options::Options;
use crate::rules::{r09_growth, r10_not_analysed};
use crate::site::{BufferNote, Site};

/// The report of what the rules found.
pub(crate) fn assemble(
    context: &Context<'_>,
    findings: Findings,
    options: &Options,
    subject: Subject,
) -> Report {
    findings.close();
    let (hazards_total, comparisons) = (findings.total(), findings.comparisons());
    let trace = context.trace;
    let verdict = match findings.proven() {
        None => Verdict::Safe,
        Some(false) => Verdict::Possible,
        Some(true) => Verdict::Hazard,
    };
    let unanalysed = context.facts.unanalysed(trace);
    let groups = findings.into_sorted();
    let folded = match subject {
        Subject::Capture => fold(context, groups),
        // Two steps of a session are one cause each.
        Subject::Session => groups.into_iter().map(Folded::from).collect(),
    };
    let members: usize = folded.iter().map(|folded| folded.members.len()).sum();
    let mut report = Report {
        capture: trace.name.clone(),
        subject,
        verdict,
        hazards: folded
            .into_iter()
            .map(|folded| hazard(context, folded))
            .collect(),
        hazards_total: hazards_total - members as u64,
        assumptions: assumptions(context),
        not_analysed: r10_not_analysed::lines(trace, &unanalysed),
        undeclared: undeclared::lines(context),
        growth: r09_growth::growth(context),
        stats: Stats {
            nodes: trace.nodes.len() as u64,
            edges: trace.edges.len() as u64,
            streams: trace.streams.len() as u64,
            accesses: context.given.accesses.len() as u64,
            comparisons,
        },
        certificate: None,
    };
    if report.verdict == Verdict::Safe && options.certificate {
        report.certificate = certificate::of_safe(context, unanalysed, comparisons);
    }
    report
}

/// What the verdict takes for granted: what the trace says, and, where pointers
/// stand in for declarations, that they do.
fn assumptions(context: &Context<'_>) -> Vec<String> {
    let mut lines = context.given.taken_for_granted();
    lines.extend(pointers_assumed(context.trace.possible.len()));
    lines
}

fn hazard(context: &Context<'_>, folded: Folded) -> Hazard {
    let trace = context.trace;
    let Folded { group, members } = folded;
    let otherwise = remedy::otherwise(context, &group);
    let Group { lead, buffers } = group;
    let earlier = earlier_use(context, &lead);
    let first = match lead.first {
        Some(node) => Site::of(trace, node, lead.modes[0]),
        None => lead.cause.place(trace),
    };
    let mut hazard = Hazard {
        rule: lead.rule,
        what: lead.cause.what(trace, &lead),
        first,
        second: lead.second.map(|node| Site::of(trace, node, lead.modes[1])),
        buffers: buffers
            .into_iter()
            .map(|id| BufferNote::of(trace, id))
            .collect(),
        bytes: lead.bytes,
        proven: lead.proven,
        help: remedy::help(context, &lead),
        otherwise,
        members: members
            .into_iter()
            .map(|pair| member(trace, &lead, pair))
            .collect(),
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

fn member(trace: &Trace, lead: &Finding, (first, second): (NodeId, NodeId)) -> Member {
    // How the lead's own nodes touch the bytes is known; of the others the trace
    // says it.
    let mode = |node: NodeId| {
        let own = [lead.first, lead.second]
            .iter()
            .position(|own| *own == Some(node));
        own.and_then(|at| lead.modes[at])
    };
    Member {
        first: Site::of(trace, first, mode(first)),
        second: Site::of(trace, second, mode(second)),
    }
}

/// How many accesses of a buffer are gone through for a drawing.
const LOOKED_AT: usize = 4096;

/// Of a node that comes between two uses of a buffer, the last use before it:
/// what the second one is to find, and what the node destroys.
fn earlier_use(context: &Context<'_>, lead: &Finding) -> Option<(NodeId, Option<AccessMode>)> {
    let (first, buffer) = match (lead.first, lead.buffers[1]) {
        (Some(first), Some(buffer)) if lead.cause.comes_between() => (first, buffer),
        _ => return None,
    };
    let uses = context.accesses.of(buffer).take(LOOKED_AT);
    uses.take_while(|used| context.stands_before(used.node, first))
        .filter(|used| used.bytes.overlaps(&lead.bytes))
        .filter(|used| {
            context
                .reach
                .ends_before(used.node, first, Phase::AfterWait)
        })
        .last()
        .map(|used| (used.node, used.declared.then_some(used.mode)))
}

/// What a verdict takes for granted when there are words of parameters that may
/// be pointers and that nothing declares.
fn pointers_assumed(words: usize) -> Option<String> {
    (words > 0).then(|| {
        let plural = if words == 1 { "" } else { "s" };
        format!(
            "kernels touch no known memory but what is declared or what {words} word{plural} of their parameters point{} to",
            if words == 1 { "s" } else { "" }
        )
    })
}
