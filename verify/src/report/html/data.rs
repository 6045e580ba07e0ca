//! What the page is drawn from: the trace and the report, without what a
//! picture does not need.
//!
//! Nodes, edges and accesses are flat arrays of numbers, and each text is
//! written once, so that a graph of 5,000 nodes is a file of some hundred
//! kilobytes. Device addresses are texts: a number of the page's language does
//! not hold every 64-bit address.

use std::collections::HashMap;

use serde::Serialize;
use streamweir_trace::{AccessMode, BufferKind, ByteRange, EdgeKind, NodeId, Trace};

use super::space::Space;
use crate::fix::Fix;
use crate::report::layout::Layout;
use crate::report::model::{Hazard, RULES, Report};
use crate::site::Site;

/// The place of a missing thing in a table.
const NONE: i64 = -1;

/// Everything the page knows.
#[derive(Debug, Serialize)]
pub(super) struct Data<'a> {
    capture: &'a str,
    report: &'a Report,
    docs: String,
    columns: u32,
    height: u32,
    lanes: Vec<[&'a str; 2]>,
    texts: Vec<String>,
    /// Name, lane, column, scope, kind, launch line, analysed.
    nodes: Vec<[i64; 7]>,
    /// From, to, programmatic.
    edges: Vec<[u32; 3]>,
    /// Name, kind, lane of the owner, first and last column, low and high.
    buffers: Vec<[i64; 7]>,
    /// The addresses and the length of each buffer.
    ranges: Vec<[String; 2]>,
    /// Node, buffer, mode, low, high; the addresses stand in `bytes`.
    accesses: Vec<[u32; 5]>,
    /// The bytes of each access, as a text.
    bytes: Vec<i64>,
    marks: Vec<Mark>,
}

/// How a hazard is marked in the picture. The rest of it is in the report.
#[derive(Debug, Serialize)]
struct Mark {
    /// The nodes it names.
    nodes: Vec<u32>,
    /// The order that is missing, from and to; -1 for the end of the origin.
    missing: Option<[i64; 2]>,
    buffers: Vec<u32>,
    /// Low and high of its bytes.
    span: Option<[u32; 2]>,
}

/// Texts by the place where they stand.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, i64>,
}

impl Texts {
    fn put(&mut self, text: String) -> i64 {
        if let Some(&at) = self.known.get(&text) {
            return at;
        }
        let at = self.all.len() as i64;
        self.all.push(text.clone());
        self.known.insert(text, at);
        at
    }
}

impl<'a> Data<'a> {
    pub(super) fn new(trace: &'a Trace, report: &'a Report, layout: &'a Layout) -> Self {
        let space = Space::new(trace);
        let mut texts = Texts::default();
        let nodes = (0..)
            .zip(&trace.nodes)
            .map(|(at, node)| {
                let id = NodeId(at);
                let launch = node.launch.as_ref().map(ToString::to_string);
                [
                    texts.put(node.name.clone()),
                    layout.lane[id.index()].into(),
                    layout.column[id.index()].into(),
                    trace
                        .scope_of(id)
                        .map_or(NONE, |scope| texts.put(scope.to_owned())),
                    texts.put(node.kind.word().to_owned()),
                    launch.map_or(NONE, |line| texts.put(line)),
                    node.analysed.into(),
                ]
            })
            .collect();
        let buffers = buffers(trace, layout, &space, &mut texts);
        let touched = touched(trace);
        let accesses = touched
            .iter()
            .map(|touch| {
                let [low, high] = space.span(touch.range);
                [touch.node, touch.buffer, touch.mode, low, high]
            })
            .collect();
        let bytes = touched
            .iter()
            .map(|touch| texts.put(touch.range.to_string()))
            .collect();
        Self {
            capture: &trace.name,
            report,
            docs: RULES.to_owned(),
            columns: layout.columns,
            height: space.total(),
            lanes: layout
                .lanes
                .iter()
                .map(|lane| [lane.name.as_str(), lane.tag.as_str()])
                .collect(),
            nodes,
            edges: trace
                .edges
                .iter()
                .map(|edge| {
                    let programmatic = edge.kind == EdgeKind::Programmatic;
                    [edge.from.0, edge.to.0, programmatic.into()]
                })
                .collect(),
            buffers,
            ranges: trace
                .buffers
                .iter()
                .map(|buffer| [buffer.range.to_string(), size(buffer.range.len())])
                .collect(),
            accesses,
            bytes,
            marks: report
                .hazards
                .iter()
                .map(|hazard| mark(trace, &space, hazard))
                .collect(),
            texts: texts.all,
        }
    }
}

/// One access of a buffer, declared or possible.
struct Touched {
    node: u32,
    buffer: u32,
    /// Read, write, both, atomic, possible.
    mode: u32,
    /// Device addresses.
    range: ByteRange,
}

fn touched(trace: &Trace) -> Vec<Touched> {
    let declared = trace.accesses.iter().map(|access| {
        let mode = match access.mode {
            AccessMode::Read => 0,
            AccessMode::Write => 1,
            AccessMode::ReadWrite => 2,
            AccessMode::Atomic => 3,
        };
        (access.node, access.buffer, access.bytes, mode)
    });
    let possible = trace
        .possible
        .iter()
        .map(|access| (access.node, access.buffer, access.bytes, 4));
    declared
        .chain(possible)
        .map(|(node, buffer, bytes, mode)| {
            let range = trace.buffer(buffer).range;
            Touched {
                node: node.0,
                buffer: buffer.0,
                mode,
                range: bytes.shifted(range.start).unwrap_or(range),
            }
        })
        .collect()
}

/// The bars of the memory pane. A bar spans what uses the buffer; one that
/// outlives the graph spans all of it.
fn buffers(trace: &Trace, layout: &Layout, space: &Space, texts: &mut Texts) -> Vec<[i64; 7]> {
    let mut life: Vec<Option<(u32, u32)>> = vec![None; trace.buffers.len()];
    let mut lives = |buffer: usize, node: NodeId| {
        let column = layout.column[node.index()];
        let (first, last) = life[buffer].get_or_insert((column, column));
        (*first, *last) = ((*first).min(column), (*last).max(column));
    };
    for access in &trace.accesses {
        lives(access.buffer.index(), access.node);
    }
    for access in &trace.possible {
        lives(access.buffer.index(), access.node);
    }
    let whole = (0, layout.columns.saturating_sub(1));
    trace
        .buffers
        .iter()
        .enumerate()
        .map(|(at, buffer)| {
            let node = |id: NodeId| layout.column.get(id.index()).copied();
            let (first, last) = match buffer.kind {
                BufferKind::Persistent
                | BufferKind::Workspace { .. }
                | BufferKind::Foreign { .. } => whole,
                BufferKind::Graph { alloc, free } => (
                    node(alloc).unwrap_or(0),
                    free.and_then(node).unwrap_or(whole.1),
                ),
                BufferKind::Scratch { .. } => life[at].unwrap_or((0, 0)),
            };
            let [low, high] = space.span(buffer.range);
            let owner = buffer.stream().map_or(NONE, |stream| stream.0.into());
            [
                texts.put(buffer.name.clone()),
                texts.put(buffer.kind.word().to_owned()),
                owner,
                first.into(),
                last.into(),
                low.into(),
                high.into(),
            ]
        })
        .collect()
}

fn mark(trace: &Trace, space: &Space, hazard: &Hazard) -> Mark {
    // A report of another trace draws nothing, and its words still stand.
    let known = |node: &NodeId| node.index() < trace.nodes.len();
    let sites = [Some(&hazard.first), hazard.second.as_ref()];
    let missing = match hazard.fix {
        Fix::Join { after, before } if known(&after) && known(&before) => {
            Some([after.0.into(), before.0.into()])
        }
        Fix::JoinAtEnd {
            last: Some(last), ..
        } if known(&last) => Some([last.0.into(), NONE]),
        _ => None,
    };
    Mark {
        nodes: sites
            .into_iter()
            .flatten()
            .filter_map(|site: &Site| site.node)
            .filter(known)
            .map(|node| node.0)
            .collect(),
        missing,
        buffers: hazard
            .buffers
            .iter()
            .map(|note| note.id.0)
            .filter(|&id| (id as usize) < trace.buffers.len())
            .collect(),
        span: (!hazard.bytes.is_empty()).then(|| space.span(hazard.bytes)),
    }
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = None;
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(next);
    }
    match unit {
        None => format!("{bytes} B"),
        Some(unit) => format!("{value:.1} {unit}"),
    }
}
