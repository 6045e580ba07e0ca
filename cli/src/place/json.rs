//! The answer of `place --json`: always an array, one entry for each file in the
//! order of the command line.

use serde::Serialize;

use super::judge::{Placed, Refused};

/// The entries so far.
#[derive(Default)]
pub(super) struct List(Vec<Entry>);

#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Placed(Answer),
    Error { file: String, error: String },
}

#[derive(Serialize)]
struct Answer {
    file: String,
    kind: &'static str,
    mode: &'static str,
    policy: &'static str,
    buffers: usize,
    streams: u32,
    height: u64,
    floor: u64,
    floor_kind: String,
    ratio: f64,
    valid: bool,
    hazards: u64,
    /// Buffers that no kernel touches, and the bytes asked for them.
    untouched: [u64; 2],
    milliseconds: f64,
    ns_per_op: f64,
}

impl List {
    pub(super) fn push(&mut self, file: String, outcome: Result<Placed, Refused>) {
        self.0.push(match outcome {
            Ok(placed) => Entry::Placed(answer(file, &placed)),
            Err(error) => Entry::Error {
                file,
                error: error.to_string(),
            },
        });
    }

    pub(super) fn into_text(self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.0)
    }
}

fn answer(file: String, placed: &Placed) -> Answer {
    Answer {
        file,
        kind: placed.kind.word(),
        mode: placed.mode.word(),
        policy: placed.policy.word(),
        buffers: placed.buffers.len(),
        streams: placed.streams,
        height: placed.height,
        floor: placed.floor.bytes,
        floor_kind: placed.floor_kind(),
        ratio: rounded(placed.ratio(), 1e6),
        valid: placed.valid,
        hazards: placed.hazards,
        untouched: [placed.untouched.buffers, placed.untouched.bytes],
        milliseconds: rounded(placed.took.as_secs_f64() * 1e3, 1e3),
        ns_per_op: rounded(placed.ns_per_op(), 1e1),
    }
}

fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}
