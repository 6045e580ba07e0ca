//! R13, read before any write: scratch is read where no write that happens
//! before the read, in this replay, has put anything.
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
//! declared as carried and is exempt; so are workspaces, whose contents are
//! their library's affair.

use streamweir_trace::{BufferKind, ByteRange};

use crate::Fix;
use crate::accesses::Touch;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};
use crate::sweep::first_gap;

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    for touches in context.accesses.all().chunk_by(|a, b| a.buffer == b.buffer) {
        let buffer = context.trace.buffer(touches[0].buffer);
        if buffer.carried || !matches!(buffer.kind, BufferKind::Scratch { .. }) {
            continue;
        }
        let position = |touch: &Touch| context.graph.position(touch.node);
        let mut writes: Vec<&Touch> = touches.iter().filter(|touch| touch.mode.writes()).collect();
        writes.sort_by_key(|touch| position(touch));
        for read in touches.iter().filter(|touch| touch.mode.reads()) {
            if let Some(gap) = uncovered(context, read, &writes, findings) {
                findings.push(unwritten(context, read, gap, &writes, buffer.range.start));
            }
        }
    }
}

/// The lowest bytes of `read` that no earlier write covers.
fn uncovered(
    context: &Context<'_>,
    read: &Touch,
    writes: &[&Touch],
    findings: &Findings,
) -> Option<ByteRange> {
    let mut covered: Vec<ByteRange> = Vec::new();
    let here = context.graph.position(read.node);
    for write in writes {
        if context.graph.position(write.node) >= here {
            break;
        }
        if !write.bytes.overlaps(&read.bytes) {
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
    first_gap(read.bytes, &mut covered)
}

fn unwritten(
    context: &Context<'_>,
    read: &Touch,
    gap: ByteRange,
    writes: &[&Touch],
    buffer_start: u64,
) -> Finding {
    // A write that could have come first but need not have: a join makes it.
    let here = context.graph.position(read.node);
    let late = writes.iter().find(|write| {
        write.bytes.overlaps(&gap)
            && context.graph.position(write.node) < here
            && !context.reach.ends_before(write.node, read.node, read.phase)
    });
    let fix = match late {
        Some(write) => Fix::Join {
            after: write.node,
            before: read.node,
        },
        None => Fix::WriteFirst {
            buffer: read.buffer,
            bytes: ByteRange::new(gap.start - buffer_start, gap.end - buffer_start),
            before: read.node,
        },
    };
    Finding {
        second: late.map(|write| write.node),
        modes: [Some(read.mode), late.map(|write| write.mode)],
        bytes: gap,
        ..Finding::of_touch(Rule::ReadBeforeWrite, Cause::Unwritten, read, fix)
    }
}
