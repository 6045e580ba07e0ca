//! Two nodes, and the order that they lack or have.

use streamweir_trace::NodeId;

use super::pen::{Marked, Pen, skipped};
use crate::fix::Fix;
use crate::report::canvas::{Arrow, Canvas, Line};

impl Pen<'_, '_> {
    /// Two nodes, `a` earlier in the order of the graph.
    pub(super) fn pair(&self, (a, what_a): Marked, (b, what_b): Marked, fix: &Fix) -> Vec<String> {
        let reach = &self.context.reach;
        let missing = *fix
            == Fix::Join {
                after: a,
                before: b,
            };
        let [(chain_a, at_a), (chain_b, at_b)] = [reach.place(a), reach.place(b)];
        if chain_a == chain_b || !missing && self.before(a, b) {
            return self.sequence(None, (a, what_a), (b, what_b));
        }
        let mut canvas = Canvas::default();
        let [col_a, col_b] = self.columns(a, b);
        let cells = |a: String, b: String| if col_a == 0 { [a, b] } else { [b, a] };
        let to_b = |line, label| Arrow {
            to: col_b,
            line,
            label,
        };

        let fork = self.fork(a, b);
        let column = |node: NodeId| match node {
            node if self.same_line(node, a) => Some(col_a),
            node if self.same_line(node, b) => Some(col_b),
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
        let since = |chain, at: u32| {
            skipped(at.saturating_sub(self.past(a, chain).min(self.past(b, chain))))
        };
        canvas.between(cells(since(chain_a, at_a), since(chain_b, at_b)));
        canvas.node(col_a, self.node(a), None);
        canvas.note(col_a, what_a);
        let arrow = if missing {
            to_b(Line::Dashed, "missing")
        } else {
            to_b(Line::Headless, "no order")
        };
        canvas.node(col_b, self.node(b), Some(arrow));
        canvas.note(col_b, what_b);
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
}
