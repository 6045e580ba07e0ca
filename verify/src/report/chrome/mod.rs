//! The graph as Chrome trace JSON, which Perfetto and Chrome open.
//!
//! # What is guaranteed
//! - The names are those of PyTorch's traces of graphs: the process is the device,
//!   a thread (`tid`) is a branch of the graph, categories are `kernel`,
//!   `gpu_memcpy`, `gpu_memset`, and the arguments have `stream`, `grid`, `block`,
//!   `graph node id`.
//! - An edge from one branch to another is a flow of category `join`, or
//!   `early start` where it is programmatic. An order that a hazard wants is a flow
//!   of its own, of category `missing join`. What follows in one branch has no flow;
//!   `follows` in the arguments has every edge.
//! - No time is made up: the name of the process says what the [`Axis`] means.
//!
//! Both ends of a flow lie inside of the bars that it binds to, a tenth of a bar
//! before its end and after its start: viewers drop one that begins where a bar ends.

mod axis;
mod event;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Value, json};
use streamweir_trace::{BlockSync, BufferId, EdgeKind, Node, NodeId, NodeKind, Trace};

pub use axis::Axis;

use self::axis::Places;
use self::event::{DEVICE, Event};
use super::layout::Layout;
use super::marked::missing;
use super::model::{Report, Verdict};
use crate::error::VerifyError;
use crate::fix::Fix;
use crate::site::node_title;

/// How far inside of a bar an arrow ends, as a part of the bar.
const INSIDE: f64 = 0.1;

/// The file.
#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "schemaVersion")]
    schema: u32,
    #[serde(rename = "displayTimeUnit")]
    unit: &'a str,
    streamweir: About<'a>,
    #[serde(rename = "traceEvents")]
    events: &'a [Event],
}

/// What the file is about.
#[derive(Serialize)]
struct About<'a> {
    capture: &'a str,
    axis: &'a str,
    verdict: Verdict,
    hazards_total: u64,
    assumptions: &'a [String],
    not_analysed: &'a [String],
}

/// The graph of `trace` with the hazards of `report`, for Perfetto
/// (<https://ui.perfetto.dev>) or `chrome://tracing`.
///
/// `trace` is the one that the report is about, as for [`html`](crate::html).
///
/// # Errors
/// When the tables of the trace do not fit together or its edges form a cycle, and
/// when measured times are not one for each node, finite and not negative.
pub fn chrome(trace: &Trace, report: &Report, axis: Axis<'_>) -> Result<String, VerifyError> {
    let layout = Layout::new(trace)?;
    let known = |node: &NodeId| node.index() < trace.nodes.len();
    let mut wanted = missing(report);
    wanted.retain(|(pair, _)| pair.iter().all(known));
    let pairs: Vec<[NodeId; 2]> = wanted.iter().map(|(pair, _)| *pair).collect();
    let places = Places::new(trace, &layout, &axis, &pairs)?;
    let mut drawing = Drawing {
        trace,
        report,
        layout: &layout,
        places: &places,
        events: Vec::new(),
        flows: 0,
    };
    drawing.lanes(axis.words());
    drawing.nodes();
    drawing.hazards();
    drawing.edges();
    for ([after, before], rules) in wanted {
        let name = format!("missing join ({rules})");
        drawing.arrow(&name, "missing join", after, drawing.entry(before));
    }
    drawing.unjoined();
    let file = File {
        schema: 1,
        unit: "ms",
        streamweir: About {
            capture: &trace.name,
            axis: axis.words(),
            verdict: report.verdict,
            hazards_total: report.hazards_total,
            assumptions: &report.assumptions,
            not_analysed: &report.not_analysed,
        },
        events: &drawing.events,
    };
    Ok(serde_json::to_string(&file).expect("keys are strings, and no number is out of range"))
}

/// The events so far.
struct Drawing<'a> {
    trace: &'a Trace,
    report: &'a Report,
    layout: &'a Layout,
    places: &'a Places,
    events: Vec<Event>,
    flows: u64,
}

impl Drawing<'_> {
    fn lane(&self, node: NodeId) -> u32 {
        self.layout.lane[node.index()]
    }

    /// Where an arrow leaves a node.
    fn exit(&self, node: NodeId) -> (u32, f64) {
        let at = node.index();
        let ts = self.places.start[at] + (1.0 - INSIDE) * self.places.length[at];
        (self.lane(node), ts)
    }

    /// Where an arrow reaches a node.
    fn entry(&self, node: NodeId) -> (u32, f64) {
        let at = node.index();
        let ts = self.places.start[at] + INSIDE * self.places.length[at];
        (self.lane(node), ts)
    }

    fn arrow(&mut self, name: &str, cat: &'static str, from: NodeId, to: (u32, f64)) {
        let mut exit = self.exit(from);
        // Two that nothing orders may stand above each other.
        if exit.1 > to.1 {
            exit.1 = self.entry(from).1.min(to.1);
        }
        self.flows += 1;
        self.events
            .extend(Event::flow(name, cat, self.flows, exit, to));
    }

    fn lanes(&mut self, axis: &str) {
        let [subject, _] = self.report.subject.words();
        let name = format!("{subject} \"{}\" ({axis})", self.trace.name);
        self.events.extend([
            Event::metadata("process_name", 0, json!({ "name": name })),
            Event::metadata(
                "process_labels",
                0,
                json!({ "labels": self.report.verdict }),
            ),
            Event::metadata("process_sort_index", 0, json!({ "sort_index": 0 })),
        ]);
        for (tid, lane) in (0..).zip(&self.layout.lanes) {
            let name = match lane.tag.as_str() {
                "" => lane.name.clone(),
                tag if tag == lane.name => format!("stream {tag}"),
                tag => format!("stream {}, pool {tag}", lane.name),
            };
            self.events.extend([
                Event::metadata("thread_name", tid, json!({ "name": name })),
                Event::metadata("thread_sort_index", tid, json!({ "sort_index": tid })),
            ]);
        }
    }

    fn nodes(&mut self) {
        let trace = self.trace;
        let mut follows: Vec<Vec<String>> = vec![Vec::new(); trace.nodes.len()];
        for edge in &trace.edges {
            follows[edge.to.index()].push(edge.from.to_string());
        }
        let names = names(trace);
        let mut touches: BTreeMap<NodeId, Vec<Value>> = BTreeMap::new();
        let declared = (trace.accesses.iter())
            .map(|access| (access.node, access.buffer, access.bytes, access.mode.word()));
        let possible = (trace.possible.iter())
            .map(|access| (access.node, access.buffer, access.bytes, "possible"));
        for (node, buffer, bytes, mode) in declared.chain(possible) {
            let from = trace.buffer(buffer).range.start;
            let bytes = bytes.shifted(from).unwrap_or(bytes).to_string();
            let touch = json!({ "buffer": names[buffer.index()], "mode": mode, "bytes": bytes });
            touches.entry(node).or_default().push(touch);
        }
        let marked = self.report.marked();
        for &id in &self.layout.order {
            let node = trace.node(id);
            let mut args = shape(node);
            let lane = self.lane(id);
            args["device"] = DEVICE.into();
            args["stream"] = lane.into();
            args["graph node id"] = id.0.into();
            args["node"] = id.to_string().into();
            args["follows"] = std::mem::take(&mut follows[id.index()]).into();
            if let Some(touches) = touches.remove(&id) {
                args["touches"] = touches.into();
            }
            if let Some(scope) = trace.scope_of(id) {
                args["scope"] = scope.into();
            }
            if let Some(launch) = &node.launch {
                args["launch"] = launch.to_string().into();
            }
            if !node.analysed {
                args["analysed"] = false.into();
            }
            let at = id.index();
            let place = [self.places.start[at], self.places.length[at]];
            let mut bar = Event::bar(node_title(trace, id), category(node), lane, place, args);
            bar.cname = marked.contains(&id).then_some("terrible");
            self.events.push(bar);
        }
    }

    /// A mark for each hazard, at its first node.
    fn hazards(&mut self) {
        for hazard in &self.report.hazards {
            let known = |node: &NodeId| node.index() < self.trace.nodes.len();
            let sites = [Some(&hazard.first), hazard.second.as_ref()];
            let nodes: Vec<NodeId> = (sites.into_iter().flatten())
                .filter_map(|site| site.node)
                .filter(known)
                .collect();
            let (lane, ts) = match nodes.first() {
                Some(&node) => (self.lane(node), self.places.start[node.index()]),
                None => (0, 0.0),
            };
            let word = if hazard.proven { "hazard" } else { "possible" };
            let args = json!({
                "what": hazard.what,
                "help": hazard.help,
                "nodes": nodes.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "buffers": hazard.buffers.iter().map(|note| &note.name).collect::<Vec<_>>(),
                "bytes": hazard.bytes.to_string(),
            });
            let name = format!("{word}[{}]", hazard.rule.code());
            self.events
                .push(Event::mark(name, "hazard", lane, ts, args));
        }
    }

    fn edges(&mut self) {
        for edge in &self.trace.edges {
            if self.lane(edge.from) == self.lane(edge.to) {
                continue;
            }
            let cat = match edge.kind {
                EdgeKind::Full => "join",
                EdgeKind::Programmatic => "early start",
            };
            self.arrow(cat, cat, edge.from, self.entry(edge.to));
        }
    }

    /// Streams that are not joined at the end: there is no node that ought to wait,
    /// so the end gets a bar of its own.
    fn unjoined(&mut self) {
        let ends: BTreeSet<(NodeId, &str)> = (self.report.hazards.iter())
            .filter_map(|hazard| match hazard.fix {
                Fix::JoinAtEnd {
                    last: Some(last), ..
                } if last.index() < self.trace.nodes.len() => Some((last, hazard.rule.code())),
                _ => None,
            })
            .collect();
        let Some(longest) = self.places.length.iter().copied().reduce(f64::max) else {
            return;
        };
        if ends.is_empty() {
            return;
        }
        let origin = self.trace.streams.iter().position(|s| s.parent.is_none());
        let lane = origin.unwrap_or(0) as u32;
        let start = self.places.end;
        let args = json!({ "is": "where the capture ends, which is no node" });
        self.events.push(Event::bar(
            "end of the capture",
            "capture end",
            lane,
            [start, longest],
            args,
        ));
        for (last, rule) in ends {
            let name = format!("missing join ({rule})");
            self.arrow(
                &name,
                "missing join",
                last,
                (lane, start + INSIDE * longest),
            );
        }
    }
}

/// What every buffer is called, as in a report.
fn names(trace: &Trace) -> Vec<String> {
    let mut same: HashMap<&str, u32> = HashMap::new();
    for buffer in &trace.buffers {
        *same.entry(&buffer.name).or_default() += 1;
    }
    (0..)
        .zip(&trace.buffers)
        .map(|(at, buffer)| match same[buffer.name.as_str()] {
            1 => buffer.name.clone(),
            _ => format!("{} ({})", buffer.name, BufferId(at)),
        })
        .collect()
}

/// What PyTorch's traces call a node of this kind.
fn category(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Kernel(_) => "kernel",
        NodeKind::Memcpy(_) => "gpu_memcpy",
        NodeKind::Memset(_) => "gpu_memset",
        NodeKind::EventRecord | NodeKind::EventWait => "graph_event_node",
        NodeKind::Host => "graph_host_node",
        _ => "graph_node",
    }
}

/// What the node says of its launch.
fn shape(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Kernel(kernel) => {
            let mut args = json!({
                "function": kernel.function,
                "grid": kernel.grid,
                "block": kernel.block,
                "shared memory": kernel.shared_bytes,
            });
            if kernel.cluster != [0; 3] {
                args["cluster"] = json!(kernel.cluster);
            }
            if kernel.sync != BlockSync::Independent {
                args["sync"] = json!(kernel.sync);
            }
            args
        }
        NodeKind::Memcpy(copy) => json!({ "bytes": copy.bytes.saturating_mul(copy.rows) }),
        NodeKind::Memset(fill) => {
            json!({ "bytes": fill.bytes.saturating_mul(fill.rows), "value": fill.value })
        }
        other => json!({ "kind": other.word() }),
    }
}
