//! The weights of a model: which there are, and their names on the hub.

use super::config::{LayerPlan, ModelConfig, Routing};
use super::error::TensorFault;
use super::matrix::Matrix;
use super::source::Source;
use super::walk::Walk;
use crate::dsv4::config::{Group, LayerKind};

/// All weights of a model, of the sizes that its configuration says.
#[derive(Debug)]
pub struct Weights {
    config: ModelConfig,
    embedding: Matrix,
    layers: Vec<LayerWeights>,
    head: HeadWeights,
}

/// From residual streams to logits.
#[derive(Debug)]
pub struct HeadWeights {
    /// The weights of the streams: `[streams, streams * hidden]`, one scale.
    pub hyper: HyperWeights,
    /// The factors of the last norm.
    pub norm: Vec<f32>,
    /// `[vocabulary, hidden]`.
    pub logits: Matrix,
}

/// One layer.
#[derive(Debug)]
pub struct LayerWeights {
    /// The connection around the attention.
    pub attention_hyper: HyperWeights,
    /// The factors of the norm before the attention.
    pub attention_norm: Vec<f32>,
    /// The attention.
    pub attention: AttentionWeights,
    /// The connection around the experts.
    pub feed_forward_hyper: HyperWeights,
    /// The factors of the norm before the experts.
    pub feed_forward_norm: Vec<f32>,
    /// The experts.
    pub feed_forward: FeedForwardWeights,
}

/// A hyper-connection, or the one before the head.
#[derive(Debug)]
pub struct HyperWeights {
    /// From all streams to the weights: `[outputs, streams * hidden]`.
    pub function: Matrix,
    /// Added to each output.
    pub base: Vec<f32>,
    /// The factors of the outputs' parts.
    pub scale: Vec<f32>,
}

/// An attention.
#[derive(Debug)]
pub struct AttentionWeights {
    /// `[q_rank, hidden]`.
    pub q_a: Matrix,
    /// Factors of the norm of the queries' rank.
    pub q_norm: Vec<f32>,
    /// `[heads * head_dim, q_rank]`.
    pub q_b: Matrix,
    /// `[head_dim, hidden]`: the latent, key and value in one.
    pub kv: Matrix,
    /// Factors of the latent's norm.
    pub kv_norm: Vec<f32>,
    /// A logit for each head that attends to nothing.
    pub sink: Vec<f32>,
    /// `[o_groups * o_rank, heads * head_dim / o_groups]`.
    pub o_a: Matrix,
    /// `[hidden, o_groups * o_rank]`.
    pub o_b: Matrix,
    /// What makes entries, in layers that have them.
    pub compressor: Option<CompressorWeights>,
    /// What selects entries, in C4 layers.
    pub indexer: Option<IndexerWeights>,
}

/// A compressor. Where groups overlap (C4) its outputs are two for each channel: the
/// first half (Ca) goes into the next group's entry, the second (Cb) into its own.
#[derive(Debug)]
pub struct CompressorWeights {
    /// `[outputs, hidden]`: what is mixed.
    pub kv: Matrix,
    /// `[outputs, hidden]`: by which scores.
    pub gate: Matrix,
    /// `[tokens of a group, outputs]`: added to the scores.
    pub position_bias: Vec<f32>,
    /// Factors of the entry's norm.
    pub norm: Vec<f32>,
}

/// An indexer.
#[derive(Debug)]
pub struct IndexerWeights {
    /// What makes its keys.
    pub compressor: CompressorWeights,
    /// `[index_heads * index_dim, q_rank]`.
    pub q_b: Matrix,
    /// `[index_heads, hidden]`.
    pub head_weights: Matrix,
}

/// The experts of a layer.
#[derive(Debug)]
pub struct FeedForwardWeights {
    /// `[experts, hidden]`: a logit for each.
    pub router: Matrix,
    /// What chooses.
    pub gate: Gate,
    /// The routed experts.
    pub experts: Vec<ExpertWeights>,
    /// The one that every token goes to.
    pub shared: ExpertWeights,
}

/// What chooses the experts of a token.
#[derive(Debug)]
pub enum Gate {
    /// A row of experts for each token.
    Hash(Vec<u32>),
    /// A bias for each expert, added to its score for the choice alone.
    Scores(Vec<f32>),
}

/// An expert.
#[derive(Debug)]
pub struct ExpertWeights {
    /// `w1`, `[expert_width, hidden]`.
    pub gate: Matrix,
    /// `w3`, `[expert_width, hidden]`.
    pub up: Matrix,
    /// `w2`, `[hidden, expert_width]`.
    pub down: Matrix,
}

impl Weights {
    /// Takes all weights of a model from a source; `asked` is called for each tensor
    /// that is asked for.
    ///
    /// # Errors
    /// The list of all tensors that are missing, or of another shape or type.
    pub fn read(
        config: &ModelConfig,
        source: &mut dyn Source,
        mut asked: impl FnMut(),
    ) -> Result<Self, Vec<TensorFault>> {
        let mut walk = Walk::new(source, config.quantisation, &mut asked);
        let (vocabulary, hidden) = (config.vocabulary, config.hidden);
        let weights = Self {
            config: config.clone(),
            embedding: walk.plain("embed.weight", vocabulary, hidden),
            layers: (config.layers.iter().enumerate())
                .map(|(number, plan)| LayerWeights::read(config, &mut walk, number, plan))
                .collect(),
            head: HeadWeights {
                hyper: HyperWeights::read(config, &mut walk, "hc_head", config.hyper.streams, 1),
                norm: walk.vector("norm.weight", hidden),
                logits: walk.plain("head.weight", vocabulary, hidden),
            },
        };
        walk.end(weights)
    }

    /// The sizes of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// A row for each token.
    pub fn embedding(&self) -> &Matrix {
        &self.embedding
    }

    /// The layers, in order.
    pub fn layers(&self) -> &[LayerWeights] {
        &self.layers
    }

    /// What makes logits of the last states.
    pub fn head(&self) -> &HeadWeights {
        &self.head
    }
}

impl LayerWeights {
    fn read(config: &ModelConfig, walk: &mut Walk<'_>, number: usize, plan: &LayerPlan) -> Self {
        let name = |part: &str| format!("layers.{number}.{part}");
        let streams = config.hyper.streams;
        let outputs = (2 + streams) * streams;
        let mut hyper = |part| HyperWeights::read(config, walk, &name(part), outputs, 3);
        let [attention_hyper, feed_forward_hyper] = ["hc_attn", "hc_ffn"].map(&mut hyper);
        let mut norm = |part| walk.vector(&name(part), config.hidden);
        let [attention_norm, feed_forward_norm] =
            ["attn_norm.weight", "ffn_norm.weight"].map(&mut norm);
        Self {
            attention_hyper,
            attention_norm,
            attention: AttentionWeights::read(config, walk, &name("attn"), plan.kind),
            feed_forward_hyper,
            feed_forward_norm,
            feed_forward: FeedForwardWeights::read(config, walk, &name("ffn"), plan.routing),
        }
    }
}

impl HyperWeights {
    fn read(
        config: &ModelConfig,
        walk: &mut Walk<'_>,
        name: &str,
        outputs: usize,
        scales: usize,
    ) -> Self {
        let width = config.hyper.streams * config.hidden;
        Self {
            function: walk.plain(&format!("{name}_fn"), outputs, width),
            base: walk.vector(&format!("{name}_base"), outputs),
            scale: walk.vector(&format!("{name}_scale"), scales),
        }
    }
}

impl AttentionWeights {
    fn read(config: &ModelConfig, walk: &mut Walk<'_>, name: &str, kind: LayerKind) -> Self {
        let part = |part: &str| format!("{name}.{part}");
        let &ModelConfig {
            hidden,
            heads,
            head_dim,
            q_rank,
            o_groups,
            o_rank,
            index_heads,
            index_dim,
            ..
        } = config;
        let query = heads * head_dim;
        Self {
            q_a: walk.linear(&part("wq_a"), q_rank, hidden),
            q_norm: walk.vector(&part("q_norm.weight"), q_rank),
            q_b: walk.linear(&part("wq_b"), query, q_rank),
            kv: walk.linear(&part("wkv"), head_dim, hidden),
            kv_norm: walk.vector(&part("kv_norm.weight"), head_dim),
            sink: walk.vector(&part("attn_sink"), heads),
            o_a: walk.linear(&part("wo_a"), o_groups * o_rank, query / o_groups),
            o_b: walk.linear(&part("wo_b"), hidden, o_groups * o_rank),
            compressor: kind.group().map(|group| {
                CompressorWeights::read(walk, &part("compressor"), group, head_dim, hidden)
            }),
            indexer: (kind == LayerKind::C4).then(|| IndexerWeights {
                compressor: CompressorWeights::read(
                    walk,
                    &part("indexer.compressor"),
                    Group::C4,
                    index_dim,
                    hidden,
                ),
                q_b: walk.linear(&part("indexer.wq_b"), index_heads * index_dim, q_rank),
                head_weights: walk.plain(&part("indexer.weights_proj.weight"), index_heads, hidden),
            }),
        }
    }
}

impl CompressorWeights {
    fn read(walk: &mut Walk<'_>, name: &str, group: Group, dim: usize, hidden: usize) -> Self {
        let outputs = group.outputs(dim);
        Self {
            kv: walk.plain(&format!("{name}.wkv.weight"), outputs, hidden),
            gate: walk.plain(&format!("{name}.wgate.weight"), outputs, hidden),
            position_bias: walk.table(&format!("{name}.ape"), group.tokens, outputs),
            norm: walk.vector(&format!("{name}.norm.weight"), dim),
        }
    }
}

impl FeedForwardWeights {
    fn read(config: &ModelConfig, walk: &mut Walk<'_>, name: &str, routing: Routing) -> Self {
        let &ModelConfig {
            experts,
            experts_per_token,
            vocabulary,
            ..
        } = config;
        Self {
            router: walk.plain(&format!("{name}.gate.weight"), experts, config.hidden),
            gate: match routing {
                Routing::Hash => {
                    let table = format!("{name}.gate.tid2eid");
                    let chosen = experts_per_token;
                    Gate::Hash(walk.experts_of_tokens(&table, vocabulary, chosen, experts))
                }
                Routing::Scores => Gate::Scores(walk.vector(&format!("{name}.gate.bias"), experts)),
            },
            experts: (0..experts)
                .map(|expert| {
                    let name = format!("{name}.experts.{expert}");
                    ExpertWeights::read(config, &name, |name, rows, columns| {
                        walk.expert(name, rows, columns)
                    })
                })
                .collect(),
            shared: ExpertWeights::read(
                config,
                &format!("{name}.shared_experts"),
                |name, rows, columns| walk.linear(name, rows, columns),
            ),
        }
    }
}

impl ExpertWeights {
    fn read(
        config: &ModelConfig,
        name: &str,
        mut matrix: impl FnMut(&str, usize, usize) -> Matrix,
    ) -> Self {
        let (width, hidden) = (config.expert_width, config.hidden);
        Self {
            gate: matrix(&format!("{name}.w1"), width, hidden),
            up: matrix(&format!("{name}.w3"), width, hidden),
            down: matrix(&format!("{name}.w2"), hidden, width),
        }
    }
}
