//! Nodes that stand in order, and are at fault all the same.

use streamweir_trace::NodeId;

use super::pen::{Marked, Pen, skipped};
use super::search::first_from;
use crate::report::canvas::{Arrow, Canvas, Line};

impl Pen<'_, '_> {
    /// Two nodes of one chain, or two of which one ends before the other starts;
    /// and what comes `earlier` than both.
    pub(super) fn sequence(&self, earlier: Option<Marked>, a: Marked, b: Marked) -> Vec<String> {
        let chain = |node: NodeId| self.context.reach.place(node).0;
        let [on_a, on_b] = [a.0, b.0].map(chain);
        let mut canvas = Canvas::default();
        let mut steps = vec![a, b];
        match earlier {
            // There are two columns, and both are taken.
            Some((node, what)) if on_a != on_b && ![on_a, on_b].contains(&chain(node)) => {
                canvas.whole(self.elsewhere(node, "comes first"));
                canvas.whole(what);
            }
            earlier => steps.splice(..0, earlier).for_each(drop),
        }
        let start = steps[0].0;
        match steps.iter().find(|step| chain(step.0) != chain(start)) {
            None => self.list(&mut canvas, steps),
            Some(&(other, _)) => self.side_by_side(&mut canvas, steps, [start, other]),
        }
        canvas.finish()
    }

    /// Nodes of one chain.
    fn list(&self, canvas: &mut Canvas, steps: Vec<Marked>) {
        let head = steps[0].0;
        canvas.whole(self.header(head));
        let mut last = None;
        for (node, what) in steps {
            let at = self.context.reach.place(node).1;
            if let Some(before) = last.replace(at) {
                canvas.whole(skipped((at - before).saturating_sub(1)));
            }
            canvas.whole(self.node(node));
            canvas.whole(self.strays(node, head));
            canvas.whole(what);
        }
    }

    /// Nodes of the two chains that `heads` are on.
    fn side_by_side(&self, canvas: &mut Canvas, steps: Vec<Marked>, heads: [NodeId; 2]) {
        let reach = &self.context.reach;
        let columns = self.columns(heads[0], heads[1]);
        let column = |node: NodeId| match reach.place(node).0 == reach.place(heads[0]).0 {
            true => columns[0],
            false => columns[1],
        };
        let mut headers = heads.map(|node| self.header(node));
        if columns[0] == 1 {
            headers.reverse();
        }
        canvas.cells(headers, None);
        let mut last: Option<NodeId> = None;
        for (node, what) in steps {
            let to = column(node);
            let mut arrow = None;
            if let Some(before) = last.replace(node) {
                let mut left_out = [String::new(), String::new()];
                let (chain, at) = reach.place(node);
                let (chain_before, at_before) = reach.place(before);
                if column(before) == to {
                    left_out[to] = skipped((at - at_before).saturating_sub(1));
                } else {
                    // Where the order comes over, and what is left out up to there.
                    let nodes = &reach.chains()[chain as usize];
                    let from = self.past(before, chain) as usize;
                    let met = first_from(nodes, from, |met| self.before(before, met));
                    let met = met.unwrap_or(node);
                    left_out[to] = skipped(at.saturating_sub(reach.place(met).1));
                    left_out[1 - to] =
                        skipped(self.past(node, chain_before).saturating_sub(at_before + 1));
                    arrow = Some(Arrow {
                        to,
                        line: Line::Solid,
                        label: "before",
                    });
                }
                canvas.between(left_out);
            }
            canvas.node(to, self.node(node), arrow);
            let head = if column(heads[0]) == to {
                heads[0]
            } else {
                heads[1]
            };
            canvas.note(to, self.strays(node, head));
            canvas.note(to, what);
        }
    }
}
