//! R13, read before any write: scratch, a workspace or memory that the graph
//! allocates is read where no write that happens before the read, in this replay,
//! has put anything.
//!
//! ```text
//! breaks:  main --- W a[0..64] --- R a[0..128] ---
//!
//! safe:    main --- W a[0..64] --- W a[64..128] --- R a[0..128] ---
//! ```
//!
//! Every byte of the read must be covered. A read-write or atomic access reads
//! first and counts as a write only for what comes after it. State that is
//! meant to survive a replay, such as barriers and split-K counters, is
//! declared as carried and is exempt. A workspace carries nothing, and neither does
//! what the graph allocates: the driver promises nothing about what is in it.
//!
//! A read that a join would put right, since the writes that it lacks stand before
//! it and nothing orders them, is R1's alone: one cause, one hazard.
//!
//! A write that is only possible may have put the bytes there: a read that it
//! covers is a possible hazard, not a proven one. A read that is only possible
//! is none at all.
//!
//! [`crate::sweep`] leaves the reads that no write is known to precede; each is
//! decided here.

use std::collections::HashMap;

use streamweir_trace::{BufferId, ByteRange, RangeSet, Trace};

use crate::accesses::Touch;
use crate::context::Context;
use crate::findings::{Cause, Finding, Findings};
use crate::fix::Fix;
use crate::rule::Rule;
use crate::rules::input::{Checked, Input};

pub(super) const NUMBER: &str = "R13";

/// Nothing has written the bytes.
#[derive(Debug)]
struct Unwritten;

impl Cause for Unwritten {
    fn what(&self, trace: &Trace, finding: &Finding) -> String {
        let buffer = finding.buffer(trace, 0);
        format!("\"{buffer}\" is read before anything has written it in this replay")
    }
}

/// Checks the reads that the sweep has doubts about, which come in the order of
/// the graph.
pub(super) fn check(input: &Input<'_, '_>, findings: &Findings) -> Checked {
    let Input { context, suspects } = input;
    // The writes of each buffer in the order of the graph.
    let mut writes: HashMap<BufferId, Vec<Touch>> = HashMap::new();
    let mut node = None;
    for &id in &suspects.unwritten {
        let read = context.accesses.touch(id);
        // All findings of a hazard are about one node.
        if node.replace(read.node) != Some(read.node) {
            findings.close();
        }
        let writes = writes.entry(read.buffer).or_insert_with(|| {
            let all = context.accesses.of(read.buffer);
            all.filter(|touch| touch.mode.writes()).collect()
        });
        if let Some(gap) = uncovered(context, &read, writes, findings) {
            if !uncovered_with_joins(context, &read, writes, false) {
                continue;
            }
            // Without words there is nothing that may have written it.
            let words = !context.trace.possible.is_empty();
            let surely = !words || uncovered_with_joins(context, &read, writes, true);
            findings.push(Finding {
                proven: surely,
                ..unwritten(context, &read, gap, writes)
            });
        }
    }
    Ok(())
}

/// The lowest bytes of `read` that no earlier declared write covers.
fn uncovered(
    context: &Context<'_>,
    read: &Touch,
    writes: &[Touch],
    findings: &Findings,
) -> Option<ByteRange> {
    let mut covered: Vec<ByteRange> = Vec::new();
    let here = context.graph.position(read.node);
    for write in writes {
        if context.graph.position(write.node) >= here {
            break;
        }
        if !write.declared || !write.bytes.overlaps(&read.bytes) {
            continue;
        }
        findings.compared();
        if context.reach.ends_before(write.node, read.node, read.phase) {
            if write.bytes.contains(&read.bytes) {
                return None;
            }
            covered.push(write.bytes);
        }
    }
    let covered: RangeSet = covered.into_iter().collect();
    covered.gaps(read.bytes).next()
}

/// Whether bytes of `read` stay uncovered when each declared write that stands before
/// it, and that R1 names beside it, is ordered before it. Writes that are only
/// `possible` count where they are ordered, or not at all.
fn uncovered_with_joins(
    context: &Context<'_>,
    read: &Touch,
    writes: &[Touch],
    possible: bool,
) -> bool {
    let early = writes.iter().filter(|write| {
        let joined = write.declared && write.mode.conflicts(read.mode);
        let ended = || {
            let counts = write.declared || possible;
            counts && context.reach.ends_before(write.node, read.node, read.phase)
        };
        let here = write.bytes.overlaps(&read.bytes);
        here && context.stands_before(write.node, read.node) && (joined || ended())
    });
    let covered: RangeSet = early.map(|write| write.bytes).collect();
    !covered.covers(&read.bytes)
}

fn unwritten(context: &Context<'_>, read: &Touch, gap: ByteRange, writes: &[Touch]) -> Finding {
    // A write that could have come first but need not have: a join makes it.
    let here = context.graph.position(read.node);
    let late = writes.iter().find(|write| {
        write.declared
            && write.bytes.overlaps(&gap)
            && context.graph.position(write.node) < here
            && !context.reach.ends_before(write.node, read.node, read.phase)
    });
    let base = context.trace.buffer(read.buffer).range.start;
    let fix = match late {
        Some(write) => Fix::Join {
            after: write.node,
            before: read.node,
        },
        None => Fix::WriteFirst {
            buffer: read.buffer,
            bytes: ByteRange::new(gap.start - base, gap.end - base),
            before: read.node,
        },
    };
    Finding {
        second: late.map(|write| write.node),
        modes: [Some(read.mode), late.map(|write| write.mode)],
        bytes: gap,
        ..Finding::of_touch(Rule::ReadBeforeWrite, Unwritten, read, fix)
    }
}
