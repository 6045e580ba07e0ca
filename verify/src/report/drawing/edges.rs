//! What is at fault at the edge of a capture or of a buffer's life.

use streamweir_trace::{BufferId, BufferKind, NodeId};

use super::pen::{Marked, Pen, skipped};
use crate::report::canvas::{Arrow, Canvas, Line, shortened};

impl Pen<'_, '_> {
    /// A stream whose work does not lead to the end of the origin.
    pub(super) fn unjoined(&self, last: NodeId) -> Vec<String> {
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
    pub(super) fn after_free(&self, buffer: BufferId, (node, what): Marked) -> Vec<String> {
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
