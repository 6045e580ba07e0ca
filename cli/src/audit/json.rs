//! The answer of `audit --json`: always an array, one entry for each file in
//! the order of the command line.

use std::time::Duration;

use serde::Serialize;
use streamweir::trace::NodeId;
use streamweir::verify::audit::Audit;
use streamweir::verify::{Hazard, Rule, Site, Verdict};

use crate::audit::looked::Looked;

/// The entries so far.
#[derive(Default)]
pub(super) struct List(Vec<Entry>);

#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Verdict(Box<Answer>),
    Error { file: String, error: String },
}

#[derive(Serialize)]
struct Answer {
    file: String,
    verdict: Verdict,
    hazards: Vec<Entries>,
    hazards_total: u64,
    assumptions: Vec<String>,
    not_analysed: Vec<String>,
    undeclared: Vec<String>,
    stats: Stats,
}

/// One hazard.
#[derive(Serialize)]
struct Entries {
    rule: Rule,
    first: Place,
    second: Option<Place>,
    buffers: Vec<String>,
    /// Device addresses, `0x` and hexadecimal digits.
    bytes: [String; 2],
    proven: bool,
    fix: String,
    /// What else would mend it.
    otherwise: Vec<String>,
    /// The nodes of the other pairs that the fix mends.
    members: Vec<[Option<NodeId>; 2]>,
}

#[derive(Serialize)]
struct Place {
    node: Option<NodeId>,
    name: String,
    scope: Option<String>,
    stream: Option<String>,
}

#[derive(Serialize)]
struct Stats {
    nodes: u64,
    edges: u64,
    streams: u64,
    accesses: u64,
    comparisons: u64,
    milliseconds: f64,
}

impl List {
    pub(super) fn push(&mut self, looked: &Looked) {
        let file = looked.file.display().to_string();
        self.0.push(match &looked.outcome {
            Ok((audit, took)) => Entry::Verdict(Box::new(answer(file, audit, *took))),
            Err(error) => Entry::Error {
                file,
                error: error.clone(),
            },
        });
    }

    pub(super) fn into_text(self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.0)
    }
}

fn answer(file: String, audit: &Audit, took: Duration) -> Answer {
    let report = &audit.report;
    Answer {
        file,
        verdict: report.verdict,
        hazards: report.hazards.iter().map(entry).collect(),
        hazards_total: report.hazards_total,
        assumptions: report.assumptions.clone(),
        not_analysed: report.not_analysed.clone(),
        undeclared: report.undeclared.clone(),
        stats: Stats {
            nodes: report.stats.nodes,
            edges: report.stats.edges,
            streams: report.stats.streams,
            accesses: report.stats.accesses,
            comparisons: report.stats.comparisons,
            milliseconds: (took.as_secs_f64() * 1e6).round() / 1e3,
        },
    }
}

fn entry(hazard: &Hazard) -> Entries {
    Entries {
        rule: hazard.rule,
        first: place(&hazard.first),
        second: hazard.second.as_ref().map(place),
        buffers: (hazard.buffers.iter())
            .map(|buffer| buffer.name.clone())
            .collect(),
        bytes: [hazard.bytes.start, hazard.bytes.end].map(|bound| format!("{bound:#x}")),
        proven: hazard.proven,
        fix: hazard.help.clone(),
        otherwise: hazard.otherwise.clone(),
        members: (hazard.members.iter())
            .map(|pair| [pair.first.node, pair.second.node])
            .collect(),
    }
}

fn place(site: &Site) -> Place {
    Place {
        node: site.node,
        name: site.name.clone(),
        scope: site.scope.clone(),
        stream: site.stream.clone(),
    }
}
