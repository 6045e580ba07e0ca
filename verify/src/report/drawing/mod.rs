//! The few nodes that a hazard is about, drawn: streams side by side, time
//! running down, and the order that is missing between them.
//!
//! # What is guaranteed
//! - The drawing is text, made while the trace is at hand. A report needs no
//!   trace to show it.
//! - Every order drawn with a solid line is forced by the edges; a dashed line
//!   is one that they lack.
//! - No line is wider than [`WIDTH`] columns. Names are shortened in the middle,
//!   since both ends of a kernel's name tell kernels apart.
//! - A drawing costs a few look-ups in the clocks, whatever the size of the
//!   graph: the nearest fork is the latest node in the clocks of both, and the
//!   nearest join is searched for in steps that double.
//!
//! ```text
//! stream "main"                 stream "side"
//! n0 `project` ----- fork ----> |
//! |                             n1 `logits`
//! |                               reads "scores"
//! n2 `attend` <- -  missing  - - |
//!   writes "query"              |
//! n3 `add` <------ join ------- |
//! ```

mod edges;
mod order;
mod pair;
mod pen;
mod search;

use streamweir_trace::{AccessMode, NodeId};

use self::pen::Pen;
use crate::context::Context;
use crate::fix::Fix;
use crate::report::canvas::shortened;
use crate::report::model::Hazard;
use crate::report::text::verb;
use crate::rule::Rule;
use crate::site::Site;

#[cfg(doc)]
use crate::report::canvas::WIDTH;

/// The drawing of `hazard`, empty where one would say nothing. `touched` names
/// the buffers that its two nodes touch. Where the first node destroys what lies
/// before it, `earlier` is that: a use of the second one's buffer, and how.
pub(crate) fn draw(
    context: &Context<'_>,
    hazard: &Hazard,
    touched: [Option<&str>; 2],
    earlier: Option<(NodeId, Option<AccessMode>)>,
) -> Vec<String> {
    let pen = Pen { context };
    let second = hazard
        .second
        .as_ref()
        .and_then(|site| site.node.zip(Some(site)));
    match (hazard.first.node, second, &hazard.fix) {
        (Some(first), Some((second, site)), _) if first != second => {
            let first = (first, note(hazard.rule, &hazard.first, touched[0], true));
            let second = (second, note(hazard.rule, site, touched[1], false));
            let position = |node| context.graph.position(node);
            if let Some((earlier, mode)) = earlier {
                return pen.sequence(Some((earlier, does(mode, touched[1]))), first, second);
            }
            if position(first.0) < position(second.0) {
                pen.pair(first, second, &hazard.fix)
            } else {
                pen.pair(second, first, &hazard.fix)
            }
        }
        (
            _,
            None,
            Fix::JoinAtEnd {
                last: Some(last), ..
            },
        ) => pen.unjoined(*last),
        (Some(node), None, Fix::KeepUntil { buffer, .. }) => {
            let what = note(hazard.rule, &hazard.first, touched[0], true);
            pen.after_free(*buffer, (node, what))
        }
        _ => Vec::new(),
    }
}

/// What a node does with the bytes, in a few words; empty when it does nothing.
fn note(rule: Rule, site: &Site, buffer: Option<&str>, leads: bool) -> String {
    match (site.access, rule) {
        (None, Rule::OwnerGone) if !leads => words("here", buffer, " is taken"),
        (None, Rule::FreeTooEarly) if !leads => words("frees", buffer, ""),
        (mode, _) => does(mode, buffer),
    }
}

fn does(mode: Option<AccessMode>, buffer: Option<&str>) -> String {
    words(mode.map_or("may touch", verb), buffer, "")
}

/// The words around the name of a buffer, as far as a cell has room for it.
fn words(before: &str, buffer: Option<&str>, after: &str) -> String {
    buffer.map_or_else(String::new, |buffer| {
        let spent = before.len() + after.len() + 5;
        format!("  {before} \"{}\"{after}", shortened(buffer, spent))
    })
}
