//! R3, unknown memory: a declared access, or a declared pointer parameter, that
//! lies in no arena and no registered buffer. Nothing keeps such memory alive
//! for the replay, and nothing else can be checked about it.
//!
//! ```text
//! breaks:  let p = allocate(n);            safe:  let p = persistent("weights", n);
//!          launch(k, (raw(p), ..));               launch(k, (&p, ..));
//!          drop(p);                               drop(p);   // the graph keeps it alive
//! ```

use streamweir_trace::{ByteRange, NodeKind, StrayMemory};

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule, stray_words};

pub(super) fn check(context: &Context<'_>, findings: &Findings) {
    for (tag, access) in (1_u32..).zip(&context.trace.unknown) {
        if access.range.is_empty() {
            continue;
        }
        let fix = Fix::Register {
            range: access.range,
        };
        findings.push(Finding {
            tag,
            cause: Cause::UnknownRange,
            modes: [Some(access.mode), None],
            bytes: access.range,
            ..Finding::of_node(Rule::UnknownMemory, access.node, fix)
        });
    }
    for &node in &context.facts.unknown_pointers {
        let NodeKind::Kernel(kernel) = &context.trace.node(node).kind else {
            continue;
        };
        for (place, param) in (0_u32..).zip(&kernel.params) {
            let unknown = param.pointer.is_some_and(|target| target.buffer.is_none());
            let address = pointer(&param.bytes);
            // A null pointer refers to nothing; optional arguments pass it.
            if !unknown || address == Some(0) {
                continue;
            }
            let bytes = address
                .and_then(|address| ByteRange::from_len(address, 1))
                .unwrap_or_default();
            // The node's pointers are told apart from its ranges by the high
            // bit, and from each other by their place.
            findings.push(Finding {
                tag: 1 << 31 | place,
                cause: Cause::UnknownPointer(place),
                bytes,
                ..Finding::of_node(Rule::UnknownMemory, node, Fix::Register { range: bytes })
            });
        }
    }
    stray_words::check(context, StrayMemory::Live, findings);
}

/// The address in an 8-byte parameter.
pub(crate) fn pointer(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}
