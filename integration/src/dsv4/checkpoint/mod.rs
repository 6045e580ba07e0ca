//! A checkpoint of DeepSeek-V4, as it lies on the hub.
//!
//! [`Checkpoint::open`] reads `config.json` and the headers of the shards, maps the
//! files, and hands out [`Weights`]: every weight under a name of this crate, in the
//! format in which it is stored. Nothing is copied or converted but small vectors.
//! What is missing, what nobody knows, and what has another shape or type than the
//! configuration says is one error with the whole list.
//!
//! | file | what it is about |
//! | --- | --- |
//! | `config`, `hub` | sizes, layers and formats; `config.json` |
//! | `bytes`, `numbers`, `matrix` | bytes of a file, and the numbers that they stand for |
//! | `source` | where tensors come from: files, or a generator |
//! | `walk` | a tensor asked for by name, shape and type; what is wrong is noted |
//! | `weights` | which tensors a model has, and under which names |
//! | `shards` | the files |
//! | `text` | text to tokens and back (feature `tokenizers`) |
//! | `error` | what can be wrong |
//! | `inventory` | how many weights each part has, and in which formats |
//!
//! The layers for multi-token prediction, whose names begin with `mtp.`, are left out.

mod bytes;
mod config;
mod error;
mod hub;
mod inventory;
mod matrix;
mod numbers;
mod shards;
mod source;
#[cfg(feature = "tokenizers")]
mod text;
mod walk;
mod weights;

use std::path::Path;

pub use bytes::Bytes;
pub use config::{
    ExpertFormat, Hyper, LayerPlan, ModelConfig, Quantisation, RopeBase, Routing, YarnStretch,
};
pub use error::{CheckpointError, ConfigError, Refusal, TensorFault};
pub use inventory::{FormatName, Part, Share};
pub use matrix::{Matrix, Scales, Stored};
pub use safetensors::Dtype;
pub use shards::Shards;
pub use source::{Source, Tensor};
#[cfg(feature = "tokenizers")]
pub use text::{Tokenizer, TokenizerError};
pub use weights::{
    AttentionWeights, CompressorWeights, ExpertWeights, FeedForwardWeights, Gate, HeadWeights,
    HyperWeights, IndexerWeights, LayerWeights, Weights,
};

/// The name of the configuration in a checkpoint's folder.
const CONFIG: &str = "config.json";

/// How far opening a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many shards are mapped and their headers read.
    Shards {
        /// Shards.
        done: usize,
        /// All of them.
        of: usize,
    },
    /// So many tensors are checked.
    Tensors {
        /// Tensors.
        done: usize,
        /// All of them.
        of: usize,
    },
}

/// A checkpoint whose every tensor was found and has its shape and type.
#[derive(Debug)]
pub struct Checkpoint {
    /// The weights as they are stored, and the sizes of the model.
    pub weights: Weights,
    /// Tensors that were left out: those of multi-token prediction.
    pub left_out: usize,
}

impl Checkpoint {
    /// Opens the checkpoint in a folder. The files are mapped, so nobody may change
    /// them while weights of it are in use: weights would show the change.
    ///
    /// # Errors
    /// When a file cannot be read or is not what its name says, when transformers
    /// saved it under names of its own, and with the list of all tensors that are
    /// missing, unknown, or of another shape or type.
    pub fn open(
        folder: &Path,
        mut progress: impl FnMut(Progress),
    ) -> Result<Self, CheckpointError> {
        let config = ModelConfig::read(&folder.join(CONFIG))?;
        let mut shards = Shards::open(folder, |done, of| progress(Progress::Shards { done, of }))?;
        let of = shards.len();
        let mut done = 0;
        let read = Weights::read(&config, &mut shards, || {
            done += 1;
            progress(Progress::Tensors { done, of });
        });
        let rest = shards.rest();
        let (weights, mut faults) = match read {
            Ok(weights) => (Some(weights), Vec::new()),
            Err(faults) => (None, faults),
        };
        faults.extend(rest.faults);
        match weights {
            Some(weights) if faults.is_empty() => Ok(Self {
                weights,
                left_out: rest.left_out,
            }),
            _ => Err(CheckpointError::Tensors { faults }),
        }
    }
}
