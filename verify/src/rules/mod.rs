//! The rules, one file each. Each file says what its rule demands, and draws
//! the smallest capture that breaks it and the nearest one that is safe; it has
//! the rule's number, its check, the ways in which it can be broken and the
//! words for them. The list of all is in `rule.rs`.
//!
//! In the drawings time runs to the right, a line is a stream, `W a` writes and
//! `R a` reads buffer `a`, and `\` and `/` are fork and join points.

mod graph_bytes;
mod input;
mod pairs;
pub(crate) mod r09_growth;
pub(crate) mod r10_not_analysed;
mod stray_words;

use std::fmt;

use crate::context::Context;
use crate::error::VerifyError;
use crate::findings::Findings;
use crate::rule::{Rule, for_each_rule};
use crate::sweep;

use self::input::{Checked, Input};

/// Looks for broken rules. What is found and not closed is closed behind it.
type Check = fn(&Input<'_, '_>, &Findings) -> Checked;

macro_rules! declare {
    ($($file:ident $rule:ident $level:ident $forbids:literal;)*) => {
        $(pub(crate) mod $file;)*

        impl Rule {
            /// The rule's number, as reports and files print it.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$rule => $file::NUMBER,)*
                }
            }
        }

        /// The checks that are made of a graph, in the order of the rules.
        const CHECKS: &[Option<Check>] = &[$(check!($level $file)),*];
    };
}

/// The check of a rule that is decided in a graph.
macro_rules! check {
    (graph $file:ident) => {
        Some($file::check)
    };
    ($level:ident $file:ident) => {
        None
    };
}

for_each_rule!(declare);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Runs every rule, and keeps at most `limit` hazards.
///
/// # Errors
/// When it would take too long.
pub(crate) fn run(context: &Context<'_>, limit: usize) -> Result<Findings, VerifyError> {
    let findings = Findings::new(limit);
    let suspects = sweep::suspects(context)?;
    findings.compared_times(suspects.compared);
    let input = Input { context, suspects };
    for check in CHECKS.iter().flatten() {
        check(&input, &findings)?;
        findings.close();
    }
    Ok(findings)
}
