//! R3 and R4 where only a word of a parameter speaks of them: the word is an
//! address of memory that nothing keeps alive (R3), or of memory that had been
//! freed (R4).
//!
//! ```text
//! breaks:  let p = allocate(n);            safe:  let p = persistent("weights", n);
//!          launch_unseen(k, raw(p));              launch(k, (&p, ..));
//! ```
//!
//! Both are possible and never proven: bytes of a parameter that the kernel does
//! not use may hold an old address.

use streamweir_trace::{ByteRange, NodeKind, StrayMemory, StrayWord, Trace};

use crate::context::Context;
use crate::findings::{Cause, Finding, Findings, Subject};
use crate::fix::Fix;
use crate::rule::Rule;

/// A word of a parameter that points to memory outside of all buffers, by its
/// place among the stray words.
#[derive(Debug)]
struct Points(u32);

impl Cause for Points {
    fn what(&self, trace: &Trace, _: &Finding) -> String {
        let StrayWord {
            param,
            at,
            memory,
            name,
            ..
        } = &trace.stray[self.0 as usize];
        let memory = match (memory, name.as_str()) {
            (StrayMemory::Live, "") => "memory that nothing keeps alive".to_owned(),
            (StrayMemory::Live, name) => format!("\"{name}\", which nothing keeps alive"),
            (StrayMemory::Freed, "") => "memory that had been freed".to_owned(),
            (StrayMemory::Freed, name) => format!("\"{name}\", which had been freed"),
        };
        match trace.node(trace.stray[self.0 as usize].node).kind {
            NodeKind::Kernel(_) => {
                format!("a word of parameter {param} is the address {at:#x} of {memory}")
            }
            _ => format!("its operands reach the address {at:#x} of {memory}"),
        }
    }
}

/// Raises a hazard of `rule` for each word that points to memory of this state.
pub(super) fn check(context: &Context<'_>, rule: Rule, state: StrayMemory, findings: &Findings) {
    for (at, word) in (0_u32..).zip(&context.trace.stray) {
        if word.memory != state {
            continue;
        }
        let bytes = ByteRange::from_len(word.at, 1).unwrap_or_default();
        let fix = match state {
            StrayMemory::Live => Fix::Register { range: bytes },
            // Somebody else may have what was freed; to register it mends nothing.
            StrayMemory::Freed => Fix::KeepAlive { range: bytes },
        };
        findings.push(Finding {
            subject: Subject::StrayWord(at),
            bytes,
            proven: false,
            ..Finding::of_node(rule, Points(at), word.node, fix)
        });
    }
}
