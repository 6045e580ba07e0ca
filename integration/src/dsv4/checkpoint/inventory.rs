//! How many weights each part of a model has, and in which formats.

use std::collections::BTreeSet;
use std::fmt;

use super::matrix::{Matrix, Stored};
use super::weights::{CompressorWeights, ExpertWeights, HyperWeights, LayerWeights, Weights};

/// A part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A row for each token.
    Embedding,
    /// Queries, latents and outputs of all layers.
    Attention,
    /// Compressors of latents.
    Compressors,
    /// Indexers, with their compressors.
    Indexers,
    /// Routers and routed experts.
    RoutedExperts,
    /// The experts that every token goes to.
    SharedExperts,
    /// Hyper-connections.
    HyperConnections,
    /// Logits.
    Head,
}

/// The format of a matrix, without its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FormatName {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// e4m3 in blocks.
    E4m3,
    /// e2m1 in groups.
    E2m1,
}

/// What the matrices of a part come to. Vectors, which are small, are not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The part.
    pub part: Part,
    /// Weights.
    pub weights: u64,
    /// Bytes, with scales.
    pub bytes: u64,
    /// The formats.
    pub formats: BTreeSet<FormatName>,
}

impl Part {
    /// All of them, in the order of a step.
    pub const ALL: [Self; 8] = [
        Self::Embedding,
        Self::Attention,
        Self::Compressors,
        Self::Indexers,
        Self::RoutedExperts,
        Self::SharedExperts,
        Self::HyperConnections,
        Self::Head,
    ];

    /// The words in reports.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Attention => "attention",
            Self::Compressors => "compressors",
            Self::Indexers => "indexers",
            Self::RoutedExperts => "routed experts",
            Self::SharedExperts => "shared experts",
            Self::HyperConnections => "hyper-connections",
            Self::Head => "head",
        }
    }
}

impl fmt::Display for FormatName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::E4m3 => "e4m3",
            Self::E2m1 => "e2m1",
        })
    }
}

impl Stored {
    /// The format alone.
    pub const fn name(&self) -> FormatName {
        match self {
            Self::F32 => FormatName::F32,
            Self::Bf16 => FormatName::Bf16,
            Self::E4m3(_) => FormatName::E4m3,
            Self::E2m1(_) => FormatName::E2m1,
        }
    }
}

impl Weights {
    /// What each part comes to.
    pub fn inventory(&self) -> [Share; Part::ALL.len()] {
        Part::ALL.map(|part| {
            let mut share = Share {
                part,
                weights: 0,
                bytes: 0,
                formats: BTreeSet::new(),
            };
            for matrix in self.matrices(part) {
                share.weights += matrix.rows() as u64 * matrix.columns() as u64;
                share.bytes += matrix.stored_bytes();
                share.formats.insert(matrix.stored().name());
            }
            share
        })
    }

    fn matrices(&self, part: Part) -> Vec<&Matrix> {
        let layers = self.layers().iter();
        match part {
            Part::Embedding => vec![self.embedding()],
            Part::Head => vec![&self.head().logits],
            Part::HyperConnections => layers
                .flat_map(|layer| [&layer.attention_hyper, &layer.feed_forward_hyper])
                .chain([&self.head().hyper])
                .map(|HyperWeights { function, .. }| function)
                .collect(),
            _ => layers.flat_map(|layer| layer.matrices(part)).collect(),
        }
    }
}

impl LayerWeights {
    fn matrices(&self, part: Part) -> Vec<&Matrix> {
        let (attention, feed_forward) = (&self.attention, &self.feed_forward);
        match part {
            Part::Attention => vec![
                &attention.q_a,
                &attention.q_b,
                &attention.kv,
                &attention.o_a,
                &attention.o_b,
            ],
            Part::Compressors => attention
                .compressor
                .iter()
                .flat_map(of_compressor)
                .collect(),
            Part::Indexers => attention
                .indexer
                .iter()
                .flat_map(|indexer| {
                    let own = [&indexer.q_b, &indexer.head_weights];
                    own.into_iter().chain(of_compressor(&indexer.compressor))
                })
                .collect(),
            Part::RoutedExperts => feed_forward
                .experts
                .iter()
                .flat_map(of_expert)
                .chain([&feed_forward.router])
                .collect(),
            Part::SharedExperts => of_expert(&feed_forward.shared).to_vec(),
            Part::Embedding | Part::HyperConnections | Part::Head => Vec::new(),
        }
    }
}

fn of_compressor(weights: &CompressorWeights) -> [&Matrix; 2] {
    [&weights.kv, &weights.gate]
}

fn of_expert(weights: &ExpertWeights) -> [&Matrix; 3] {
    [&weights.gate, &weights.up, &weights.down]
}
