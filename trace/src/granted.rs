//! What a verdict about a trace takes for granted, in words.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::buffer::{BufferKind, Keeper};
use crate::id::{NodeId, StreamId};
use crate::model::Trace;
use crate::node::{NodeKind, SourceLine};
use crate::promise::{Promise, Promised};
use crate::range_set::RangeSet;
use crate::stream::Stream;
use crate::text::{Count, clipped};

impl Promise {
    /// The promise as one line, with the names that `trace` gives.
    ///
    /// # Panics
    /// When the promise is of another trace.
    pub fn line(&self, trace: &Trace) -> String {
        let Self {
            of,
            nodes,
            what,
            line,
        } = self;
        let mut text = format!("`{of}`");
        if let Some(line) = line {
            text += &format!(" at {line}");
        }
        if nodes.len() != 1 {
            text += &format!(", {} nodes", nodes.len());
        }
        text + ": " + &Said { what, trace }.to_string()
    }
}

struct Said<'a> {
    what: &'a Promised,
    trace: &'a Trace,
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Promised::Touches => f.write_str(
                "touches what it declares, what its operands and parameters show, and nothing else",
            ),
            Promised::Unchecked => f.write_str(
                "launched without its check: so launched it touches what it declares and nothing else",
            ),
            Promised::Waits => {
                f.write_str("waits on all paths for what it follows before it touches memory")
            }
            Promised::Narrowed => f.write_str(
                "touches no more of its buffers than the ranges that it was launched with",
            ),
            Promised::LeftOver {
                words,
                buffers,
                reason,
            } => {
                let words = Count::of(*words, "word");
                write!(f, "{words} of its parameters left over")?;
                let mut before = ", pointing into ";
                for &buffer in buffers {
                    write!(
                        f,
                        "{before}\"{}\"",
                        clipped(&self.trace.buffer(buffer).name)
                    )?;
                    before = ", ";
                }
                write!(f, " ({reason})")
            }
            Promised::Keeps { name, range, owner } => {
                write!(f, "{owner} keeps \"{name}\" at {range} alive")
            }
        }
    }
}

/// How many pieces of memory a line names.
const NAMED: usize = 4;

impl Trace {
    /// What a verdict about this trace takes for granted, one line for each
    /// thing: its assumptions, who frees what the graph leaves, that its end was
    /// in order where it is not known, its promises, and who keeps memory that
    /// only the driver knows.
    ///
    /// # Panics
    /// When [`check`](Self::check) refuses the trace.
    pub fn taken_for_granted(&self) -> Vec<String> {
        let mut lines = self.assumptions.clone();
        lines.extend(self.unfreed.assumption().map(str::to_owned));
        if self.has_unknown_end() {
            lines.push(
                "all work leads to where the capture ended, which the trace does not say"
                    .to_owned(),
            );
        }
        lines.extend(self.copies_outside());
        lines.extend(self.promised());
        for keeper in [Keeper::Call, Keeper::Engine] {
            let kept = self
                .buffers
                .iter()
                .filter(|buffer| buffer.kind == BufferKind::Foreign { keeper });
            let names: Vec<String> = kept
                .map(|buffer| format!("\"{}\"", clipped(&buffer.name)))
                .collect();
            if !names.is_empty() {
                let more = if names.len() > NAMED { ", ..." } else { "" };
                lines.push(format!(
                    "{} keeps memory alive that only the driver knows ({}{more})",
                    keeper.word(),
                    names[..names.len().min(NAMED)].join(", ")
                ));
            }
        }
        lines
    }

    /// The promises, one line for those that somebody makes of the same thing at the
    /// same place, with how many nodes it is about.
    fn promised(&self) -> Vec<String> {
        let mut alike: Vec<Promise> = Vec::new();
        let mut place: HashMap<(&str, Option<&SourceLine>, String), usize> = HashMap::new();
        for promise in &self.promises {
            let said = Said {
                what: &promise.what,
                trace: self,
            };
            let key = (promise.of.as_str(), promise.line.as_ref(), said.to_string());
            match place.entry(key) {
                Entry::Occupied(known) => {
                    alike[*known.get()].nodes.extend(&promise.nodes);
                }
                Entry::Vacant(free) => {
                    free.insert(alike.len());
                    alike.push(promise.clone());
                }
            }
        }
        alike.iter().map(|promise| promise.line(self)).collect()
    }

    /// What is to be said of copies whose operands lie in no buffer: the other side
    /// of a copy may be the host's, and a trace does not tell.
    fn copies_outside(&self) -> Option<String> {
        let mut known: Option<RangeSet> = None;
        let mut outside = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let NodeKind::Memcpy(copy) = &node.kind else {
                continue;
            };
            let operands = [copy.written(), copy.read()].into_iter().flatten();
            let mut named = operands.filter(|range| range.start != 0 && !range.is_empty());
            let known = known.get_or_insert_with(|| {
                let buffers = self.buffers.iter().map(|buffer| buffer.range);
                let unknown = self.unknown.iter().map(|access| access.range);
                let made = self.nodes.iter().filter_map(|node| match &node.kind {
                    NodeKind::MemAlloc(alloc) => crate::ByteRange::from_len(alloc.at, alloc.bytes),
                    _ => None,
                });
                buffers.chain(unknown).chain(made).collect()
            });
            if named.any(|range| !known.overlaps(&range)) {
                outside.push(format!("{} `{}`", NodeId::at(at), node.name));
            }
        }
        let more = if outside.len() > NAMED { ", ..." } else { "" };
        (!outside.is_empty()).then(|| {
            format!(
                "memory outside of all buffers that copies touch is kept alive, and nothing else touches it meanwhile ({}{more})",
                outside[..outside.len().min(NAMED)].join(", ")
            )
        })
    }

    /// Whether there is work to be joined and the trace does not say where the
    /// capture ended: the origin has no frontier, and a node is on another stream
    /// than the origin, or on none.
    pub fn has_unknown_end(&self) -> bool {
        let origin = StreamId(0);
        let unknown = |origin: &Stream| origin.end.frontier.is_empty();
        match self.streams.first() {
            Some(first) => {
                unknown(first) && self.nodes.iter().any(|node| node.stream != Some(origin))
            }
            // One node is the end, wherever it is.
            None => self.nodes.len() > 1,
        }
    }
}
