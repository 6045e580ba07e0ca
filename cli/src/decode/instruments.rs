//! What the runs are watched with, on the command line and in JSON.

use std::str::FromStr;

use serde::Serialize;
use streamweir_integration::dsv4::{self, Findings, UnknownInstrument};

/// Words with commas between them; nothing for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice(pub(super) dsv4::Instruments);

impl FromStr for Choice {
    type Err = UnknownInstrument;

    fn from_str(words: &str) -> Result<Self, UnknownInstrument> {
        match words {
            "" => Ok(Self(dsv4::Instruments::default())),
            words => words.parse().map(Self),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Instruments {
    /// Buffers whose guards were looked at.
    guards: Option<usize>,
    damaged: Vec<String>,
    /// Steps that were compared with the reference.
    steps: Option<u64>,
    first: Option<First>,
}

#[derive(Serialize)]
struct First {
    step: u64,
    rows: u32,
    buffer: String,
    kernel: String,
    written: bool,
    stream: String,
    scope: Option<String>,
    element: usize,
    expected: String,
    found: String,
    named_by_verifier: bool,
    differing: usize,
    compared: usize,
}

impl Instruments {
    pub(super) fn of(found: &Findings) -> Option<Self> {
        let (guards, compared) = (found.guards.as_ref(), found.compared.as_ref());
        if guards.is_none() && compared.is_none() {
            return None;
        }
        let first = compared.and_then(|compared| compared.first.as_ref());
        Some(Self {
            guards: guards.map(|guards| guards.checked),
            damaged: guards.map_or_else(Vec::new, |guards| {
                guards.damaged.iter().map(ToString::to_string).collect()
            }),
            steps: compared.map(|compared| compared.steps),
            first: first.and_then(|first| {
                let difference = first.differential.first()?.clone();
                Some(First {
                    step: first.step,
                    rows: first.rows,
                    buffer: difference.buffer,
                    kernel: difference.kernel,
                    written: difference.written,
                    stream: difference.stream,
                    scope: difference.scope,
                    element: difference.element,
                    expected: difference.expected,
                    found: difference.found,
                    named_by_verifier: first.named,
                    differing: first.differential.differing,
                    compared: first.differential.compared,
                })
            }),
        })
    }
}
