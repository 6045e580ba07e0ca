//! The weights of the model, random by a seed.

use half::bf16;
use streamweir::kernels::rope::Rope;
use streamweir::{Device, Persistent};

use super::config::{Config, HEAD_DIM, INDEX_DIM, LayerKind};
use super::error::Error;
use super::random::Random;

/// Everything that is not a layer's.
pub(super) struct ModelWeights {
    pub(super) embedding: Persistent<bf16>,
    pub(super) head_norm: Persistent<f32>,
    pub(super) head: Persistent<bf16>,
    /// Cosines and sines for layers without entries, and for those with.
    pub(super) rope: Persistent<f32>,
    pub(super) compressed_rope: Persistent<f32>,
    pub(super) layers: Vec<LayerWeights>,
}

/// What one layer has of its own.
pub(super) struct LayerWeights {
    pub(super) norm: Persistent<f32>,
    pub(super) qkv_a: Persistent<bf16>,
    pub(super) q_norm: Persistent<f32>,
    pub(super) q_b: Persistent<bf16>,
    pub(super) kv_norm: Persistent<f32>,
    pub(super) sink: Persistent<f32>,
    pub(super) o_a: Persistent<bf16>,
    pub(super) o_b: Persistent<bf16>,
    pub(super) compressor: Option<CompressorWeights>,
    pub(super) indexer: Option<IndexerWeights>,
}

/// A compressor: keys and scores of a token, and what turns them into entries.
pub(super) struct CompressorWeights {
    pub(super) kv_score: Persistent<bf16>,
    pub(super) ape: Persistent<f32>,
    pub(super) norm: Persistent<f32>,
}

pub(super) struct IndexerWeights {
    pub(super) compressor: CompressorWeights,
    pub(super) head_weights: Persistent<bf16>,
    pub(super) q_b: Persistent<bf16>,
}

impl ModelWeights {
    pub(super) fn new(device: &Device, config: &Config, seed: u64) -> Result<Self, Error> {
        let random = &mut Random::new(device, seed);
        let table =
            |name: &str, rope: Rope| device.persistent_from(name, &rope.table(config.max_context));
        Ok(Self {
            embedding: random.weight("embedding", config.hidden, config.vocabulary as usize)?,
            head_norm: random.norm("head norm", config.hidden)?,
            head: random.weight("head", config.hidden, config.vocabulary as usize)?,
            rope: table("rope", Rope::WINDOW)?,
            compressed_rope: table("compressed rope", Rope::COMPRESSED)?,
            layers: (0..config.layers)
                .map(|layer| LayerWeights::new(random, config, layer))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The angles of a layer: its queries, its window and its entries are rotated
    /// alike, for they meet in one product.
    pub(super) fn rope(&self, kind: LayerKind) -> &Persistent<f32> {
        match kind {
            LayerKind::Window => &self.rope,
            LayerKind::C4 | LayerKind::C128 => &self.compressed_rope,
        }
    }
}

impl ModelWeights {
    /// Bytes of all matrices but the embedding, of which a step reads a few rows.
    pub(super) fn bytes(&self) -> u64 {
        let layers = self.layers.iter().map(LayerWeights::bytes);
        self.head.range().len() + layers.sum::<u64>()
    }
}

impl LayerWeights {
    fn bytes(&self) -> u64 {
        let compressor = |of: &CompressorWeights| of.kv_score.range().len();
        let indexer = self.indexer.as_ref().map_or(0, |indexer| {
            compressor(&indexer.compressor)
                + indexer.head_weights.range().len()
                + indexer.q_b.range().len()
        });
        [&self.qkv_a, &self.q_b, &self.o_a, &self.o_b]
            .map(|weight| weight.range().len())
            .iter()
            .sum::<u64>()
            + self.compressor.as_ref().map_or(0, compressor)
            + indexer
    }

    fn new(random: &mut Random<'_>, config: &Config, layer: u32) -> Result<Self, Error> {
        let name = |what: &str| format!("layer {layer}: {what}");
        let Config {
            hidden,
            heads,
            q_lora,
            o_lora,
            o_groups,
            index_heads,
            ..
        } = *config;
        // Values and scores of the channels, which a C4 compressor has twice.
        let (values, group) = match config.kind(layer) {
            LayerKind::Window => (0, 0),
            LayerKind::C4 => (4 * HEAD_DIM, 4),
            LayerKind::C128 => (2 * HEAD_DIM, 128),
        };
        let compressor = match config.kind(layer) {
            LayerKind::Window => None,
            _ => Some(CompressorWeights {
                kv_score: random.weight(&name("compressor"), hidden, values as usize)?,
                ape: random.small(&name("compressor ape"), group * values / 2)?,
                norm: random.norm(&name("compressor norm"), HEAD_DIM)?,
            }),
        };
        let indexer = match config.kind(layer) {
            LayerKind::C4 => Some(IndexerWeights {
                compressor: CompressorWeights {
                    kv_score: random.weight(
                        &name("index compressor"),
                        hidden,
                        4 * INDEX_DIM as usize,
                    )?,
                    ape: random.small(&name("index compressor ape"), 4 * 2 * INDEX_DIM)?,
                    norm: random.norm(&name("index compressor norm"), INDEX_DIM)?,
                },
                head_weights: random.weight(
                    &name("index head weights"),
                    hidden,
                    index_heads as usize,
                )?,
                q_b: random.weight(&name("index wq_b"), q_lora, config.index_query() as usize)?,
            }),
            _ => None,
        };
        Ok(Self {
            norm: random.norm(&name("norm"), hidden)?,
            qkv_a: random.weight(&name("wqkv_a"), hidden, config.qkv() as usize)?,
            q_norm: random.norm(&name("q norm"), q_lora)?,
            q_b: random.weight(&name("wq_b"), q_lora, config.query() as usize)?,
            kv_norm: random.norm(&name("kv norm"), HEAD_DIM)?,
            sink: random.small(&name("sink"), heads)?,
            o_a: random.weight(
                &name("wo_a"),
                config.query() / o_groups,
                (o_groups * o_lora) as usize,
            )?,
            o_b: random.weight(&name("wo_b"), o_groups * o_lora, hidden as usize)?,
            compressor,
            indexer,
        })
    }
}
