//! What can be wrong with a checkpoint.

use std::fmt;
use std::io;
use std::path::PathBuf;

use safetensors::{Dtype, SafeTensorError};
use thiserror::Error;

/// A checkpoint that cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration is not one that this crate has a model for.
    #[error("{}: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// The list of shards cannot be understood.
    #[error("{}: {source}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The list of shards names a file outside of the folder.
    #[error(
        "{} names the shard \"{shard}\", which is not the plain name of a file beside it",
        path.display()
    )]
    ShardName {
        /// The list.
        path: PathBuf,
        /// The name.
        shard: String,
    },
    /// A shard is not a file of tensors.
    #[error("{} is no file of tensors: {source}", path.display())]
    Shard {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SafeTensorError,
    },
    /// The shards were saved by transformers, under names of its own and without
    /// scales.
    #[error(
        "{} has \"{name}\": transformers saved it, under names of its own and without the scales of \
         quantised weights; take the checkpoint as it is on the hub",
        path.display()
    )]
    SavedByTransformers {
        /// The shard.
        path: PathBuf,
        /// The first such name.
        name: String,
    },
    /// Tensors are missing, unknown, or of another shape or type.
    #[error("{}", list(faults, "the tensors are not those of the configuration"))]
    Tensors {
        /// All of them.
        faults: Vec<TensorFault>,
    },
}

/// A configuration that this crate has no model for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not JSON, or lacks a field.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Fields have values that this crate has no model for.
    #[error("{}", list(.0, "there is no model for this configuration"))]
    Refused(Vec<Refusal>),
}

/// A field whose value is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} is {found}; it has to be {wanted}")]
pub struct Refusal {
    /// The field.
    pub field: &'static str,
    /// What it is.
    pub found: String,
    /// What it has to be.
    pub wanted: String,
}

/// What is wrong with a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorFault {
    /// The model has it, and no shard.
    #[error("{name} is missing")]
    Missing {
        /// The tensor.
        name: String,
    },
    /// A shard has it, and not the model.
    #[error("{name} is in {shard}, and the model has no such tensor")]
    Extra {
        /// The tensor.
        name: String,
        /// The shard.
        shard: String,
    },
    /// Two shards have it.
    #[error("{name} is in {} and in {}", shards[0], shards[1])]
    Twice {
        /// The tensor.
        name: String,
        /// The shards.
        shards: [String; 2],
    },
    /// The list of shards says that it is where it is not.
    #[error("{name} is not in {shard}, where the list of shards has it")]
    Misplaced {
        /// The tensor.
        name: String,
        /// The shard.
        shard: String,
    },
    /// It has another shape.
    #[error("{name} has the shape {found:?}; by the configuration it is {wanted:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that it has to have.
        wanted: Vec<usize>,
    },
    /// It has another type.
    #[error("{name} is {found}; by the configuration it is {}", or(wanted))]
    Type {
        /// The tensor.
        name: String,
        /// Its type.
        found: Dtype,
        /// The types that it may have.
        wanted: Vec<Dtype>,
    },
    /// Its bytes are not as many as shape and type say.
    #[error("{name} has {found} bytes of {wanted}")]
    Bytes {
        /// The tensor.
        name: String,
        /// Its bytes.
        found: usize,
        /// Those of its shape and type.
        wanted: usize,
    },
    /// Blocks of 128 by 128 do not cover it evenly.
    #[error("{name} is {shape:?} in e4m3: a size above 128 has to be a multiple of 128")]
    Blocks {
        /// The tensor.
        name: String,
        /// Its shape.
        shape: [usize; 2],
    },
    /// Groups of 32 do not cover its rows.
    #[error("{name} has {columns} columns in e2m1, which is no multiple of 32")]
    Groups {
        /// The tensor.
        name: String,
        /// Its columns.
        columns: usize,
    },
    /// A token's experts are not different ones of the layer.
    #[error(
        "{name} has {expert} for token {token}, twice or not one of the layer's {experts} experts"
    )]
    Expert {
        /// The table.
        name: String,
        /// The token.
        token: usize,
        /// The expert.
        expert: i64,
        /// Experts of the layer.
        experts: usize,
    },
}

fn list(items: &[impl fmt::Display], about: &str) -> String {
    items
        .iter()
        .fold(about.to_owned(), |text, item| format!("{text}\n  {item}"))
}

fn or(dtypes: &[Dtype]) -> String {
    let words: Vec<String> = dtypes.iter().map(Dtype::to_string).collect();
    words.join(" or ")
}
