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

use streamweir_trace::{BufferId, BufferKind, NodeId, Phase};

use crate::Fix;
use crate::report::canvas::{Arrow, Canvas, Line, shortened};
use crate::report::text::{Count, verb};
use crate::report::{Hazard, Site};
use crate::rules::{Context, Rule};

#[cfg(doc)]
use crate::report::canvas::WIDTH;

/// With more chains than these, forks and joins are looked for on the two
/// chains of a hazard alone.
const MANY_CHAINS: usize = 64;

/// The drawing of `hazard`, empty where one would say nothing. `touched` names
/// the buffers that its two nodes touch.
pub(crate) fn draw(
    context: &Context<'_>,
    hazard: &Hazard,
    touched: [Option<&str>; 2],
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
    let Some(buffer) = buffer else {
        return String::new();
    };
    let (before, after) = match (site.access, rule) {
        (Some(mode), _) => (verb(mode), ""),
        (None, Rule::OwnerGone) if !leads => ("here", " is taken"),
        (None, Rule::FreeTooEarly) if !leads => ("frees", ""),
        (None, _) => ("may touch", ""),
    };
    let spent = before.len() + after.len() + 5;
    format!("  {before} \"{}\"{after}", shortened(buffer, spent))
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

    /// The columns of two nodes on different chains: streams in their order.
    fn columns(&self, a: NodeId, b: NodeId) -> [usize; 2] {
        let rank = |node: NodeId| {
            let stream = self.context.trace.node(node).stream;
            (stream.is_none(), stream, self.context.reach.place(node).0)
        };
        if rank(a) <= rank(b) { [0, 1] } else { [1, 0] }
    }

    fn before(&self, first: NodeId, then: NodeId) -> bool {
        let reach = &self.context.reach;
        reach.ends_before(first, then, Phase::AfterWait)
    }

    /// How many nodes of `chain` have ended before `node` starts.
    fn past(&self, node: NodeId, chain: u32) -> u32 {
        let clock = self.context.reach.clock(node, Phase::BeforeWait);
        clock.get(chain as usize).copied().unwrap_or(0)
    }

    /// The chains on which forks and joins of these two are looked for.
    fn chains(&self, a: NodeId, b: NodeId) -> Vec<u32> {
        let reach = &self.context.reach;
        let all = reach.chains().len();
        if all <= MANY_CHAINS {
            (0..all as u32).collect()
        } else {
            vec![reach.place(a).0, reach.place(b).0]
        }
    }

    /// The latest node before both.
    fn fork(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let common = self.chains(a, b).into_iter().filter_map(|chain| {
            let ended = self.past(a, chain).min(self.past(b, chain));
            let last = ended.checked_sub(1)?;
            Some(self.context.reach.chains()[chain as usize][last as usize])
        });
        common.max_by_key(|&node| self.context.graph.position(node))
    }

    /// The earliest node after both.
    fn join(&self, a: NodeId, b: NodeId) -> Option<NodeId> {
        let found = self.chains(a, b).into_iter().filter_map(|chain| {
            let nodes = &self.context.reach.chains()[chain as usize];
            let from = self.past(a, chain).max(self.past(b, chain)) as usize;
            first_from(nodes, from, |node| {
                self.before(a, node) && self.before(b, node)
            })
        });
        found.min_by_key(|&node| self.context.graph.position(node))
    }

    /// Two nodes, `a` earlier in the order of the graph.
    fn pair(&self, (a, what_a): Marked, (b, what_b): Marked, fix: &Fix) -> Vec<String> {
        let reach = &self.context.reach;
        let missing = *fix
            == Fix::Join {
                after: a,
                before: b,
            };
        let ordered = !missing && self.before(a, b);
        let [(chain_a, at_a), (chain_b, at_b)] = [reach.place(a), reach.place(b)];
        let mut canvas = Canvas::default();
        if chain_a == chain_b {
            canvas.whole(self.header(a));
            canvas.whole(self.node(a));
            canvas.whole(what_a);
            canvas.whole(skipped((at_b - at_a).saturating_sub(1)));
            canvas.whole(self.node(b));
            canvas.whole(what_b);
            return canvas.finish();
        }
        let [col_a, col_b] = self.columns(a, b);
        let cells = |a: String, b: String| if col_a == 0 { [a, b] } else { [b, a] };
        let to_b = |line, label| Arrow {
            to: col_b,
            line,
            label,
        };

        let fork = if ordered { None } else { self.fork(a, b) };
        let column = |node: NodeId| match reach.place(node).0 {
            chain if chain == chain_a => Some(col_a),
            chain if chain == chain_b => Some(col_b),
            _ => None,
        };
        if let Some(fork) = fork.filter(|&fork| column(fork).is_none()) {
            canvas.whole(self.elsewhere(fork, "is before both:"));
        }
        canvas.cells(cells(self.header(a), self.header(b)), None);
        if let Some((fork, at)) = fork.and_then(|fork| Some((fork, column(fork)?))) {
            let arrow = Arrow {
                to: 1 - at,
                line: Line::Solid,
                label: "fork",
            };
            canvas.node(at, self.node(fork), Some(arrow));
        }
        if !ordered {
            let since = |chain, at: u32| {
                skipped(at.saturating_sub(self.past(a, chain).min(self.past(b, chain))))
            };
            canvas.between(cells(since(chain_a, at_a), since(chain_b, at_b)));
        }
        canvas.node(col_a, self.node(a), None);
        canvas.note(col_a, what_a);
        let arrow = if ordered {
            let nodes = &reach.chains()[chain_b as usize];
            let from = self.past(a, chain_b) as usize;
            let met = first_from(nodes, from, |node| self.before(a, node)).unwrap_or(b);
            let on_a = self.past(b, chain_a).saturating_sub(at_a + 1);
            let on_b = at_b.saturating_sub(reach.place(met).1);
            canvas.between(cells(skipped(on_a), skipped(on_b)));
            to_b(Line::Solid, "before")
        } else if missing {
            to_b(Line::Dashed, "missing")
        } else {
            to_b(Line::Headless, "no order")
        };
        canvas.node(col_b, self.node(b), Some(arrow));
        canvas.note(col_b, what_b);
        if ordered {
            return canvas.finish();
        }
        let Some(join) = self.join(a, b) else {
            canvas.whole("no later node is after both".to_owned());
            return canvas.finish();
        };
        let until = |chain, at: u32| skipped(self.past(join, chain).saturating_sub(at + 1));
        canvas.between(cells(until(chain_a, at_a), until(chain_b, at_b)));
        match column(join) {
            Some(at) => {
                let arrow = Arrow {
                    to: at,
                    line: Line::Solid,
                    label: "join",
                };
                canvas.node(at, self.node(join), Some(arrow));
            }
            None => canvas.whole(self.elsewhere(join, "is after both")),
        }
        canvas.finish()
    }

    /// A stream whose work does not lead to the end of the origin.
    fn unjoined(&self, last: NodeId) -> Vec<String> {
        let reach = &self.context.reach;
        let Some(origin) = self.context.trace.streams.first() else {
            return Vec::new();
        };
        let mut canvas = Canvas::default();
        let headers = [
            format!("stream \"{}\"", shortened(&origin.name, 9)),
            self.header(last),
        ];
        let end = origin.end.frontier.iter().copied();
        let end = end.max_by_key(|&node| self.context.graph.position(node));
        let (chain, at) = reach.place(last);
        canvas.cells(headers, None);
        let mut on_origin = 0;
        let mut since = 0;
        if let Some(end) = end.filter(|&end| reach.place(end).0 != chain) {
            let (main, until) = reach.place(end);
            let ended = self.past(last, main);
            on_origin = (until + 1).saturating_sub(ended);
            since = self.past(end, chain);
            if let Some(fork) = ended.checked_sub(1) {
                let fork = reach.chains()[main as usize][fork as usize];
                let arrow = Arrow {
                    to: 1,
                    line: Line::Solid,
                    label: "fork",
                };
                canvas.node(0, self.node(fork), Some(arrow));
            }
        }
        canvas.between([skipped(on_origin), skipped(at.saturating_sub(since))]);
        canvas.node(1, self.node(last), None);
        let arrow = Arrow {
            to: 0,
            line: Line::Dashed,
            label: "missing",
        };
        canvas.node(0, "end of the capture".to_owned(), Some(arrow));
        canvas.finish()
    }

    /// A use recorded after the free of its buffer: a matter of record order,
    /// which is that of ids.
    fn after_free(&self, buffer: BufferId, (node, what): Marked) -> Vec<String> {
        let buffer = self.context.trace.buffer(buffer);
        let BufferKind::Scratch {
            freed_before: Some(freed),
            ..
        } = buffer.kind
        else {
            return Vec::new();
        };
        let mut canvas = Canvas::default();
        canvas.whole("in the order of recording".to_owned());
        if let Some(last) = freed.0.checked_sub(1) {
            canvas.whole(self.node(NodeId(last)));
        }
        canvas.whole(format!("  \"{}\" is freed", shortened(&buffer.name, 13)));
        canvas.whole(skipped(node.0.saturating_sub(freed.0)));
        canvas.whole(self.node(node));
        canvas.whole(what);
        canvas.finish()
    }
}

/// A stretch of nodes that is left out; empty when there are none.
fn skipped(nodes: u32) -> String {
    match nodes {
        0 => String::new(),
        _ => format!("... {}", Count(nodes.into(), "node")),
    }
}

/// The first of `nodes` at or behind `from` for which `after` holds, given that
/// it holds for all behind that one. Looks near first: forks and joins are near.
fn first_from(nodes: &[NodeId], from: usize, after: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let (mut low, mut step) = (from, 1);
    while low + step <= nodes.len() && !after(nodes[low + step - 1]) {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(nodes.len());
    let rest = nodes.get(low..high)?;
    let at = low + rest.partition_point(|&node| !after(node));
    nodes.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_from_everywhere_before_it() {
        let nodes: Vec<NodeId> = (0..40).map(NodeId).collect();
        for wanted in 0..=40 {
            for from in 0..=wanted {
                let found = first_from(&nodes, from as usize, |node| node.0 >= wanted);
                assert_eq!(
                    found,
                    (wanted < 40).then_some(NodeId(wanted)),
                    "from {from}"
                );
            }
        }
    }
}
