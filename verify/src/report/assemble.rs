//! From findings to a report: one hazard per key, the list capped, the count
//! exact.

use streamweir_trace::BufferId;

use crate::findings::{Cause, Finding, Findings};
use crate::report::headline::headline;
use crate::report::{BufferNote, Hazard, Report, Site, Stats, Verdict};
use crate::rules::{Context, growth};
use crate::{Certificate, Options, unanalysed};

/// The report of what the rules found.
pub(crate) fn assemble(context: &Context<'_>, findings: Findings, options: &Options) -> Report {
    let comparisons = findings.comparisons();
    let findings = findings.into_sorted();
    let trace = context.trace;
    let groups = || findings.chunk_by(|a, b| a.key() == b.key());
    let verdict = match findings.iter().map(|finding| finding.proven).max() {
        None => Verdict::Safe,
        Some(false) => Verdict::Possible,
        Some(true) => Verdict::Hazard,
    };
    let unanalysed = unanalysed::nodes(trace);
    let mut report = Report {
        capture: trace.name.clone(),
        verdict,
        hazards: groups()
            .take(options.limit)
            .map(|group| hazard(context, group))
            .collect(),
        hazards_total: groups().count() as u64,
        assumptions: trace.assumptions.clone(),
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
        report.certificate = Some(Certificate::new(context, &report, unanalysed));
    }
    report
}

fn hazard(context: &Context<'_>, group: &[Finding]) -> Hazard {
    let trace = context.trace;
    let lead = &group[0];
    let mut buffers: Vec<BufferId> = group.iter().flat_map(|f| f.buffers).flatten().collect();
    buffers.sort_unstable();
    buffers.dedup();
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
    Hazard {
        rule: lead.rule,
        what: headline(trace, lead),
        first,
        second: lead.second.map(|node| Site::of(trace, node, lead.modes[1])),
        buffers: buffers
            .into_iter()
            .map(|id| BufferNote::of(trace, id))
            .collect(),
        bytes: lead.bytes,
        proven: group.iter().any(|finding| finding.proven),
        fix: lead.fix.clone(),
        help: lead.fix.describe(trace),
    }
}
