//! `streamweir checkpoint`: whether a checkpoint is whole, and what is in it.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use streamweir::trace::shown;
use streamweir_integration::dsv4::LayerKind;
use streamweir_integration::dsv4::checkpoint::{Checkpoint, CheckpointError, Progress, Routing};

use crate::exit::{self, Failure};

/// Say whether a checkpoint of DeepSeek-V4 is whole, and what is in it
///
/// DIR is a folder as it is on the hub: config.json, and safetensors in one file or in
/// shards with their list. Every tensor that the configuration asks for has to be there,
/// in its shape and type, and no other. The files are mapped, and but for their headers
/// hardly read.
///
/// Exits with 0 when it is whole, 1 with the list of all that is missing, unknown or
/// otherwise wrong, and 2 when it cannot be read.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let bar = Bar::new();
    let opened = Checkpoint::open(&options.folder, |step| bar.show(step));
    bar.bar.finish_and_clear();
    let checkpoint = opened.map_err(|error| match error {
        CheckpointError::Tensors { .. } | CheckpointError::SavedByTransformers { .. } => {
            Failure::not_clean(error)
        }
        _ => Failure::from(error),
    })?;
    let found = Contents::of(&checkpoint);
    if options.json {
        exit::print(exit::plain_json(&serde_json::to_string_pretty(&found)?))?;
    } else {
        let name = shown(options.folder.display());
        exit::print(format_args!("{name}: {found}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How far it is, on standard error, where that is a terminal.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{msg:<8} {bar:40} {pos}/{len}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    fn show(&self, step: Progress) {
        let (what, done, of) = match step {
            Progress::Shards { done, of } => ("shards", done, of),
            Progress::Tensors { done, of } => ("tensors", done, of),
        };
        self.bar.set_message(what);
        self.bar.set_length(of as u64);
        self.bar.set_position(done as u64);
    }
}

#[derive(Serialize)]
struct Contents {
    layers: Layers,
    parts: Vec<Part>,
    weights: u64,
    bytes: u64,
    left_out_tensors: usize,
}

#[derive(Serialize)]
struct Layers {
    window: usize,
    c4: usize,
    c128: usize,
    /// Of these, layers whose experts are chosen by a table.
    hash: usize,
}

#[derive(Serialize)]
struct Part {
    part: &'static str,
    weights: u64,
    bytes: u64,
    formats: Vec<String>,
}

impl Contents {
    fn of(checkpoint: &Checkpoint) -> Self {
        let layers = &checkpoint.weights.config().layers;
        let count = |kind| layers.iter().filter(|layer| layer.kind == kind).count();
        let hashed = layers.iter().filter(|layer| layer.routing == Routing::Hash);
        let parts = checkpoint.weights.inventory().map(|share| Part {
            part: share.part.words(),
            weights: share.weights,
            bytes: share.bytes,
            formats: share.formats.iter().map(ToString::to_string).collect(),
        });
        Self {
            layers: Layers {
                window: count(LayerKind::Window),
                c4: count(LayerKind::C4),
                c128: count(LayerKind::C128),
                hash: hashed.count(),
            },
            weights: parts.iter().map(|part| part.weights).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            parts: parts.into(),
            left_out_tensors: checkpoint.left_out,
        }
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Layers {
            window,
            c4,
            c128,
            hash,
        } = self.layers;
        writeln!(
            f,
            "whole; {} layers: {window} window, {c4} C4, {c128} C128; experts by token id in {hash}",
            window + c4 + c128
        )?;
        writeln!(
            f,
            "  {:<18} {:>16} {:>16}  formats",
            "part", "weights", "bytes"
        )?;
        for Part {
            part,
            weights,
            bytes,
            formats,
        } in &self.parts
        {
            let formats = formats.join(", ");
            writeln!(f, "  {part:<18} {weights:>16} {bytes:>16}  {formats}")?;
        }
        write!(f, "  {:<18} {:>16} {:>16}", "all", self.weights, self.bytes)?;
        match self.left_out_tensors {
            0 => Ok(()),
            left_out => write!(
                f,
                "\ntensors of multi-token prediction left out: {left_out}"
            ),
        }
    }
}
