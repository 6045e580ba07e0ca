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

use streamweir_trace::{ByteRange, StrayMemory};

use crate::Fix;
use crate::findings::{Cause, Finding, Findings};
use crate::rules::{Context, Rule};

/// The words that point to memory of this state: `Live` is R3, `Freed` is R4.
pub(super) fn check(context: &Context<'_>, state: StrayMemory, findings: &Findings) {
    for (at, word) in (0_u32..).zip(&context.trace.stray) {
        if word.memory != state {
            continue;
        }
        let rule = match state {
            StrayMemory::Live => Rule::UnknownMemory,
            StrayMemory::Freed => Rule::OwnerGone,
        };
        let bytes = ByteRange::from_len(word.at, 1).unwrap_or_default();
        // Told apart from the other findings of the two rules by the bit below
        // the one that pointers have.
        findings.push(Finding {
            tag: 1 << 30 | at,
            cause: Cause::StrayWord(at),
            bytes,
            proven: false,
            ..Finding::of_node(rule, word.node, Fix::Register { range: bytes })
        });
    }
}
