//! The sizes of a model, its layers and formats.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::error::CheckpointError;
use crate::dsv4::config::LayerKind;

/// The sizes of a model, its layers, and the formats of its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Tokens that there are.
    pub vocabulary: usize,
    /// Width of a residual stream.
    pub hidden: usize,
    /// The layers, in order.
    pub layers: Vec<LayerPlan>,
    /// Heads of the attention.
    pub heads: usize,
    /// Dimensions of a head, which are those of a latent.
    pub head_dim: usize,
    /// The last dimensions of a head, a latent or an index key, which are rotated.
    pub rope_dim: usize,
    /// Rank of the queries.
    pub q_rank: usize,
    /// Groups of heads with an output projection of their own.
    pub o_groups: usize,
    /// Rank of the output, for each group.
    pub o_rank: usize,
    /// Tokens that a query sees one by one, its own included.
    pub window: usize,
    /// Heads of the indexer.
    pub index_heads: usize,
    /// Dimensions of an index key.
    pub index_dim: usize,
    /// Entries that the indexer selects.
    pub index_top_k: usize,
    /// Routed experts of a layer.
    pub experts: usize,
    /// Experts that a token is routed to.
    pub experts_per_token: usize,
    /// Inner width of an expert.
    pub expert_width: usize,
    /// What the weights of a token's experts add up to.
    pub routed_scale: f32,
    /// Where the products inside an expert are cut off.
    pub swiglu_limit: f32,
    /// The hyper-connections.
    pub hyper: Hyper,
    /// Added to the mean square in every norm.
    pub norm_eps: f32,
    /// Rotation in layers of the window alone.
    pub window_rope: RopeBase,
    /// Rotation in layers with entries: of queries, window and entries alike.
    pub entry_rope: RopeBase,
    /// How weights are quantised, if they are.
    pub quantisation: Option<Quantisation>,
    /// The tokens that end a text.
    pub end_of_text: Vec<u32>,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerPlan {
    /// What it attends to beside the window.
    pub kind: LayerKind,
    /// How its experts are chosen.
    pub routing: Routing,
}

/// How the experts of a token are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// By a table from token ids.
    Hash,
    /// By their scores.
    Scores,
}

/// The hyper-connections (mHC) between layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyper {
    /// Residual streams.
    pub streams: usize,
    /// Rounds of Sinkhorn-Knopp.
    pub rounds: usize,
    /// Added to weights and to sums.
    pub eps: f32,
}

/// The frequencies of a rotary embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeBase {
    /// The base.
    pub theta: f64,
    /// The stretch for long contexts.
    pub yarn: Option<YarnStretch>,
}

/// YaRN; cosines and sines are not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct YarnStretch {
    /// The factor of pairs that turn slowly.
    pub factor: f64,
    /// The length that the model was first trained for.
    #[serde(rename = "original_max_position_embeddings")]
    pub original_length: f64,
    /// Turns within that length from which on a pair is kept.
    #[serde(rename = "beta_fast", default = "beta_fast")]
    pub fast: f64,
    /// Turns within that length up to which a pair is slowed down.
    #[serde(rename = "beta_slow", default = "beta_slow")]
    pub slow: f64,
}

/// A checkpoint whose projections are e4m3 in blocks of 128 by 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantisation {
    /// The format of the routed experts.
    pub experts: ExpertFormat,
}

/// The format of routed experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertFormat {
    /// e4m3 in blocks, as the projections.
    Fp8,
    /// e2m1 in groups of 32.
    Fp4,
}

const fn beta_fast() -> f64 {
    32.0
}

const fn beta_slow() -> f64 {
    1.0
}

impl ModelConfig {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// When the file cannot be read, and as [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        let text = fs::read_to_string(path).map_err(|source| CheckpointError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|source| CheckpointError::Config {
            path: path.to_owned(),
            source,
        })
    }
}
