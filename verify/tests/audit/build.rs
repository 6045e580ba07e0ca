//! Dumps made by hand.

use std::fmt::Write as _;

use streamweir_trace::Dump;
use streamweir_verify::audit::{Audited, Mode};
use streamweir_verify::{Options, Report};

pub(crate) const MAIN: u64 = 10;
pub(crate) const SIDE: u64 = 20;

/// A kernel's parameters: one word each.
pub(crate) fn kernel(words: &[u64]) -> String {
    let params: Vec<String> = words
        .iter()
        .enumerate()
        .map(|(at, word)| {
            let hex = word
                .to_le_bytes()
                .iter()
                .fold(String::new(), |mut hex, byte| {
                    let _ = write!(hex, "{byte:02x}");
                    hex
                });
            format!(r#"{{"offset":{},"size":8,"hex":"{hex}"}}"#, at * 8)
        })
        .collect();
    format!(r#""type":0,"kernel":"k","params":[{}]"#, params.join(","))
}

/// A tensor that is its whole storage.
pub(crate) fn tensor(start: u64, len: u64, written: bool) -> String {
    view(start, len, start, len, written)
}

/// A tensor inside a storage.
pub(crate) fn view(first: u64, extent: u64, start: u64, len: u64, written: bool) -> String {
    format!("[{first},{extent},{start},{len},{written}]")
}

/// A dump as it grows.
#[derive(Default)]
pub(crate) struct Dumped {
    nodes: Vec<String>,
    edges: Vec<String>,
    events: Vec<String>,
    blocks: Vec<String>,
    ops: Vec<String>,
}

impl Dumped {
    /// Blocks that were held before the capture and to its end.
    pub(crate) fn held(mut self, blocks: &[(u64, u64)]) -> Self {
        for (start, len) in blocks {
            self.blocks
                .push(format!(r#"[{start},{len},"active_allocated"]"#));
        }
        self
    }

    pub(crate) fn event(mut self, action: &str, start: u64, len: u64, stream: u64) -> Self {
        self.events.push(format!(
            r#"{{"action":"{action}","addr":{start},"size":{len},"stream":{stream}}}"#
        ));
        self
    }

    pub(crate) fn alloc(self, start: u64, len: u64) -> Self {
        self.event("alloc", start, len, MAIN)
    }

    pub(crate) fn free(self, start: u64, len: u64) -> Self {
        self.event("free_requested", start, len, MAIN)
            .event("free_completed", start, len, MAIN)
    }

    /// An operator that records `nodes`.
    pub(crate) fn op(
        mut self,
        name: &str,
        stream: u64,
        nodes: &[String],
        tensors: &[String],
    ) -> Self {
        let from = self.nodes.len();
        for node in nodes {
            self.nodes
                .push(format!(r#"{{"id":{},{node}}}"#, self.nodes.len()));
        }
        let to = self.nodes.len();
        self.ops.push(format!(
            r#"{{"op":"{name}","stream":{stream},"nodes":[{from},{to}],"tensors":[{}]}}"#,
            tensors.join(",")
        ));
        self
    }

    pub(crate) fn edges(mut self, edges: &[(u32, u32)]) -> Self {
        self.edges
            .extend(edges.iter().map(|(from, to)| format!("[{from},{to}]")));
        self
    }

    pub(crate) fn json(&self) -> String {
        format!(
            r#"{{"format":"capture-dump-1","name":"by hand","nodes":[{}],"edges":[{}],"alloc_trace":[{}],"segments":[{{"address":4096,"size":1048576,"stream":{MAIN},"pool":[1,0],"blocks":[{}]}}],"ops":[{}]}}"#,
            self.nodes.join(","),
            self.edges.join(","),
            self.events.join(","),
            self.blocks.join(","),
            self.ops.join(",")
        )
    }

    pub(crate) fn audit(&self, mode: Mode) -> (Audited, Report) {
        let dump = Dump::from_json(self.json().as_bytes()).expect("a dump");
        let audited = Audited::new(dump, mode).expect("a trace");
        let report = audited.verify(&Options::default()).expect("a verdict");
        (audited, report)
    }
}
