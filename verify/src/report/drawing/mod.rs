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
mod search;

use streamweir_trace::{AccessMode, NodeId};

use crate::Fix;
use crate::report::canvas::{Arrow, Canvas, Line, shortened};
use crate::report::text::{Count, verb};
use crate::report::{Hazard, Site};
use crate::rules::{Context, Rule};

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

struct Pen<'c, 't> {
    context: &'c Context<'t>,
}

/// A node and what it does.
type Marked = (NodeId, String);

impl Pen<'_, '_> {
    fn node(&self, id: NodeId) -> String {
        let number = id.to_string();
        let name = &self.context.trace.node(id).name;
        format!("{number} `{}`", shortened(name, number.len() + 3))
    }

    /// The node, and where it is, in a line of its own.
    fn elsewhere(&self, id: NodeId, what: &str) -> String {
        match self.context.trace.stream_of(id) {
            Some(stream) => format!("{} on \"{}\" {what}", self.node(id), shortened(stream, 9)),
            None => format!("{} {what}", self.node(id)),
        }
    }

    /// What stands above the column of `node`.
    fn header(&self, node: NodeId) -> String {
        match self.context.trace.stream_of(node) {
            Some(stream) => format!("stream \"{}\"", shortened(stream, 9)),
            None => format!("chain of {node}"),
        }
    }

    /// Whether two nodes belong into one column: a chain may lead over several
    /// streams, and a column has the name of one.
    fn same_line(&self, a: NodeId, b: NodeId) -> bool {
        let line = |node: NodeId| {
            let chain = self.context.reach.place(node).0;
            (chain, self.context.trace.node(node).stream)
        };
        line(a) == line(b)
    }

    /// Where a node is that stands in the column of another stream; empty for
    /// all others.
    fn strays(&self, node: NodeId, head: NodeId) -> String {
        let trace = self.context.trace;
        if trace.node(node).stream == trace.node(head).stream {
            return String::new();
        }
        match trace.stream_of(node) {
            Some(stream) => format!("  on \"{}\"", shortened(stream, 7)),
            None => "  on no known stream".to_owned(),
        }
    }

    /// The columns of two nodes on different chains: streams in their order.
    fn columns(&self, a: NodeId, b: NodeId) -> [usize; 2] {
        let rank = |node: NodeId| {
            let stream = self.context.trace.node(node).stream;
            (stream.is_none(), stream, self.context.reach.place(node).0)
        };
        if rank(a) <= rank(b) { [0, 1] } else { [1, 0] }
    }
}

/// A stretch of nodes that is left out; empty when there are none.
fn skipped(nodes: u32) -> String {
    match nodes {
        0 => String::new(),
        _ => format!("... {}", Count(nodes.into(), "node")),
    }
}
