//! From what the checker found about the lowered trace to hazards of a session.

use streamweir_trace::session::{Session, Step, Use};
use streamweir_trace::{AccessMode, BufferId, ByteRange, NodeId, StepId, Trace, clipped};

use super::fix::read_earlier;
use super::outputs::{Lost, LostOutputs};
use super::regions::addresses;
use crate::context::Context;
use crate::fix::Fix;
use crate::report::{Hazard, Report, Verdict, draw};
use crate::rule::Rule;
use crate::rules::{r05_in_flight as in_flight, r12_external as external};
use crate::site::{BufferNote, Site};

/// The report of the session, from that of its lowered trace.
pub(super) fn put_into_words(
    session: &Session,
    context: &Context<'_>,
    found: Report,
    found_lost: &LostOutputs,
    limit: usize,
) -> Report {
    let trace = context.trace;
    let mut report = found;
    for hazard in &mut report.hazards {
        if hazard.rule == Rule::UnorderedConflict {
            conflict(session, hazard);
        }
    }
    report.hazards_total += found_lost.total;
    if found_lost.more {
        report.not_analysed.push(format!(
            "more steps may not find what they are to read: {} such hazards were counted, and the rest was not looked at",
            found_lost.total
        ));
    }
    let lost = found_lost.first.values();
    report
        .hazards
        .extend(lost.map(|lost| not_found(session, trace, lost)));
    report.hazards.sort_by_key(|hazard| {
        let second = hazard.second.as_ref().and_then(|site| site.node);
        (hazard.rule, hazard.first.node, second)
    });
    report.hazards.truncate(limit);
    for hazard in &mut report.hazards {
        let buffer = hazard.buffers.first().map(|note| note.name.clone());
        let second = hazard.second.as_ref().and_then(|site| site.node);
        let lost = hazard.first.node.zip(second).and_then(|(by, reader)| {
            let key = (hazard.rule, StepId(by.0), StepId(reader.0));
            let lost = found_lost.first.get(&key).filter(|lost| lost.surely)?;
            Some((NodeId(lost.source.0), Some(AccessMode::Write)))
        });
        hazard.drawing = draw(context, hazard, [buffer.as_deref(); 2], lost);
    }
    if report.hazards_total > 0 {
        report.verdict = Verdict::Hazard;
    }
    for graph in &session.graphs {
        let named = |line: &String| format!("graph \"{}\": {line}", graph.name);
        report
            .not_analysed
            .extend(graph.not_analysed.iter().map(named));
    }
    report.stats.streams = session.streams.len() as u64;
    report
}

/// Puts an unordered conflict of two steps into the words of R5 or R12.
fn conflict(session: &Session, hazard: &mut Hazard) {
    let second = hazard.second.as_ref().and_then(|site| site.node);
    let (Some(first), Some(then)) = (hazard.first.node, second) else {
        return;
    };
    let (first, then) = (StepId(first.0), StepId(then.0));
    let steps = [session.step(first), session.step(then)];
    hazard.rule = rule(session, steps);
    let names = touched(session, &[first, then], hazard.bytes);
    hazard.buffers = notes(session, &names);
    let buffer = names
        .first()
        .map_or("?".into(), |&id| clipped(&session.buffer(id).name));
    let modes = [
        hazard.first.access,
        hazard.second.as_ref().and_then(|site| site.access),
    ];
    hazard.what = if hazard.rule == Rule::External {
        external::headline(session, steps, modes, &buffer)
    } else {
        in_flight::headline(steps, &buffer)
    };
    // Where the later step is to find an output that the earlier one spoils, an
    // order between the two would only make the loss certain.
    let spoils = modes[0].is_some_and(|mode| mode.writes())
        && steps[1].reads_from.iter().any(|&source| source < first)
        && !steps[1].reads_from.contains(&first);
    if spoils && let Some(fix) = read_earlier(session, then, first) {
        hazard.fix = fix;
    }
    hazard.help = describe(session, &hazard.fix);
    hazard.otherwise.clear();
}

/// The rule that an output which may not be found breaks: R12 where its reader
/// does not wait for it.
pub(super) fn rule_of(session: &Session, lost: &Lost) -> Rule {
    match lost.by {
        Some(by) => rule(session, [session.step(by); 2]),
        None => Rule::External,
    }
}

/// A step that may not find what it is to read.
fn not_found(session: &Session, trace: &Trace, lost: &Lost) -> Hazard {
    let named = |id: StepId| format!("{id} `{}`", clipped(&session.step(id).name));
    let (first, reader) = lost.pair();
    let names = touched(session, &[lost.source, first, reader], lost.bytes);
    let buffer = names.first().copied().unwrap_or_default();
    let bytes_of = clipped(&session.buffer(buffer).name);
    let (at_fault, waits, source) = (named(first), named(reader), named(lost.source));
    let join = |after: StepId, before: StepId| Fix::Join {
        after: NodeId(after.0),
        before: NodeId(before.0),
    };
    let (what, fix) = match lost.by {
        None => (
            format!("{waits} may run before {source}, from which it is to read \"{bytes_of}\""),
            join(lost.source, reader),
        ),
        Some(by) => (
            format!(
                "{at_fault} {} \"{bytes_of}\" before {waits} has read there what {source} wrote",
                if lost.surely {
                    "overwrites"
                } else {
                    "may overwrite"
                },
            ),
            // An order that the calls allow comes first.
            if by > reader {
                join(reader, by)
            } else if by < lost.source {
                join(by, lost.source)
            } else {
                read_earlier(session, reader, by).unwrap_or(Fix::Separate { buffer })
            },
        ),
    };
    let mode = |id: StepId| {
        let uses = session.uses(session.step(id)).into_iter();
        let mut here = uses.filter(|used| {
            let bytes = addresses(session, used);
            bytes.is_some_and(|bytes| bytes.overlaps(&lost.bytes))
                && match id == first {
                    true => used.mode.writes(),
                    false => used.mode.reads(),
                }
        });
        here.next().map(|used| used.mode)
    };
    Hazard {
        rule: rule_of(session, lost),
        what,
        first: Site::of(trace, NodeId(first.0), mode(first)),
        second: Some(Site::of(trace, NodeId(reader.0), mode(reader))),
        buffers: notes(session, &names),
        bytes: lost.bytes,
        proven: true,
        help: describe(session, &fix),
        otherwise: Vec::new(),
        members: Vec::new(),
        fix,
        drawing: Vec::new(),
    }
}

/// R12 when one side is a copy, the host or the work of others; else R5.
fn rule(session: &Session, steps: [&Step; 2]) -> Rule {
    let outside = |step: &&Step| external::is_outside(session, step);
    if steps.iter().any(outside) {
        Rule::External
    } else {
        Rule::InFlight
    }
}

/// The buffers through which these steps touch these bytes.
fn touched(session: &Session, steps: &[StepId], bytes: ByteRange) -> Vec<BufferId> {
    let mut buffers: Vec<BufferId> = steps
        .iter()
        .flat_map(|&step| session.uses(session.step(step)))
        .filter(|used: &Use| addresses(session, used).is_some_and(|range| range.overlaps(&bytes)))
        .map(|used| used.buffer)
        .collect();
    buffers.sort_unstable();
    buffers.dedup();
    buffers
}

fn notes(session: &Session, buffers: &[BufferId]) -> Vec<BufferNote> {
    let note = |&id: &BufferId| {
        let buffer = session.buffer(id);
        BufferNote {
            id,
            name: clipped(&buffer.name).into_owned(),
            kind: if buffer.host {
                "host memory"
            } else {
                "device memory"
            }
            .to_owned(),
            tag: None,
            range: buffer.range,
        }
    };
    buffers.iter().map(note).collect()
}

/// A fix in the words of a session.
fn describe(session: &Session, fix: &Fix) -> String {
    let step = |id: NodeId| {
        let id = StepId(id.0);
        format!("{id} `{}`", clipped(&session.step(id).name))
    };
    let stream = |id: NodeId| {
        let stream = session.step(StepId(id.0)).stream();
        stream.map(|stream| clipped(&session.streams[stream.index()].name))
    };
    match fix {
        Fix::Join { after, before } => match (stream(*after), stream(*before)) {
            (Some(from), Some(into)) => format!(
                "record an event on stream \"{from}\" behind {}, and let stream \"{into}\" wait \
                 for it in front of {}",
                step(*after),
                step(*before)
            ),
            (Some(from), None) => format!(
                "record an event on stream \"{from}\" behind {}, and let the host wait for it \
                 before {}",
                step(*after),
                step(*before)
            ),
            (None, _) => format!("make {} wait for {}", step(*before), step(*after)),
        },
        Fix::ReadEarlier { reader, before } => {
            format!("move {} in front of {}", step(*reader), step(*before))
        }
        Fix::Separate { buffer } => format!(
            "give the later output another place than \"{}\", or copy the earlier one away first",
            clipped(&session.buffer(*buffer).name)
        ),
        _ => "change the order of the steps".to_owned(),
    }
}
