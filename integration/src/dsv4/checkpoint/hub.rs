//! `config.json` as it is on the hub.

use serde::Deserialize;

use super::config::{
    ExpertFormat, Hyper, LayerPlan, ModelConfig, Quantisation, RopeBase, Routing, YarnStretch,
};
use super::error::{ConfigError, Refusal};
use crate::dsv4::config::LayerKind;

impl ModelConfig {
    /// Reads and checks the text of a `config.json`.
    ///
    /// # Errors
    /// When it is not JSON or lacks a field, and with the list of all that this crate
    /// has no model for.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let raw: Raw = serde_json::from_str(text)?;
        let mut refused = Refusals::default();
        let layers = raw.layers(&mut refused);
        let quantisation = raw.quantisation(&mut refused);
        let entry_yarn = raw.yarn(&mut refused);
        raw.check(&mut refused);
        if !refused.0.is_empty() {
            return Err(ConfigError::Refused(refused.0));
        }
        Ok(Self {
            vocabulary: raw.vocab_size,
            hidden: raw.hidden_size,
            layers,
            heads: raw.num_attention_heads,
            head_dim: raw.head_dim,
            rope_dim: raw.qk_rope_head_dim,
            q_rank: raw.q_lora_rank,
            o_groups: raw.o_groups,
            o_rank: raw.o_lora_rank,
            window: raw.sliding_window,
            index_heads: raw.index_n_heads,
            index_dim: raw.index_head_dim,
            index_top_k: raw.index_topk,
            experts: raw.n_routed_experts,
            experts_per_token: raw.num_experts_per_tok,
            expert_width: raw.moe_intermediate_size,
            routed_scale: raw.routed_scaling_factor,
            swiglu_limit: raw.swiglu_limit,
            hyper: Hyper {
                streams: raw.hc_mult,
                rounds: raw.hc_sinkhorn_iters,
                eps: raw.hc_eps,
            },
            norm_eps: raw.rms_norm_eps,
            window_rope: RopeBase {
                theta: raw.rope_theta,
                yarn: None,
            },
            entry_rope: RopeBase {
                theta: raw.compress_rope_theta,
                yarn: entry_yarn,
            },
            quantisation,
            end_of_text: match raw.eos_token_id {
                None => Vec::new(),
                Some(OneOrMore::One(token)) => vec![token],
                Some(OneOrMore::More(tokens)) => tokens,
            },
        })
    }
}

/// The fields as the hub has them.
#[derive(Deserialize)]
struct Raw {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default = "one")]
    num_key_value_heads: usize,
    head_dim: usize,
    qk_rope_head_dim: usize,
    q_lora_rank: usize,
    o_groups: usize,
    o_lora_rank: usize,
    sliding_window: usize,
    index_n_heads: usize,
    index_head_dim: usize,
    index_topk: usize,
    n_routed_experts: usize,
    num_experts_per_tok: usize,
    #[serde(default = "one")]
    n_shared_experts: usize,
    moe_intermediate_size: usize,
    routed_scaling_factor: f32,
    swiglu_limit: f32,
    #[serde(default)]
    scoring_func: Option<String>,
    #[serde(default = "yes")]
    norm_topk_prob: bool,
    #[serde(default)]
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    tie_word_embeddings: bool,
    hc_mult: usize,
    hc_sinkhorn_iters: usize,
    hc_eps: f32,
    rms_norm_eps: f32,
    rope_theta: f64,
    compress_rope_theta: f64,
    #[serde(default, alias = "rope_parameters")]
    rope_scaling: Option<serde_json::Value>,
    #[serde(default)]
    compress_ratios: Option<Vec<u32>>,
    #[serde(default)]
    layer_types: Option<Vec<String>>,
    #[serde(default)]
    num_hash_layers: Option<usize>,
    #[serde(default)]
    mlp_layer_types: Option<Vec<String>>,
    #[serde(default)]
    expert_dtype: Option<String>,
    #[serde(default)]
    quantization_config: Option<RawQuantisation>,
    #[serde(default)]
    eos_token_id: Option<OneOrMore>,
}

/// A token, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(u32),
    More(Vec<u32>),
}

#[derive(Deserialize)]
struct RawQuantisation {
    quant_method: String,
    #[serde(default)]
    fmt: Option<String>,
    #[serde(default)]
    weight_block_size: Option<[usize; 2]>,
    #[serde(default)]
    expert_dtype: Option<String>,
}

const fn one() -> usize {
    1
}

const fn yes() -> bool {
    true
}

/// What was refused so far.
#[derive(Default)]
struct Refusals(Vec<Refusal>);

impl Refusals {
    fn refuse(&mut self, field: &'static str, found: impl ToString, wanted: impl Into<String>) {
        self.0.push(Refusal {
            field,
            found: found.to_string(),
            wanted: wanted.into(),
        });
    }

    /// A field that has one value in all models that there are.
    fn only<T: PartialEq + ToString>(&mut self, field: &'static str, found: T, wanted: T) {
        if found != wanted {
            self.refuse(field, found.to_string(), wanted.to_string());
        }
    }
}

impl Raw {
    /// The layers: from `compress_ratios`, whose entries beyond the last layer are
    /// those of multi-token prediction, or from `layer_types`.
    fn layers(&self, refused: &mut Refusals) -> Vec<LayerPlan> {
        let kinds: Vec<Option<LayerKind>> = match (&self.compress_ratios, &self.layer_types) {
            (Some(ratios), _) => ratios.iter().map(|&ratio| kind_of_ratio(ratio)).collect(),
            (None, Some(types)) => types.iter().map(|word| kind_of_word(word)).collect(),
            (None, None) => {
                let wanted = "a kind for each layer, here or in layer_types";
                refused.refuse("compress_ratios", "nothing", wanted);
                return Vec::new();
            }
        };
        let field = match self.compress_ratios {
            Some(_) => "compress_ratios",
            None => "layer_types",
        };
        let layers = self.num_hidden_layers;
        if kinds.len() < layers {
            let wanted = format!("one for each of {layers} layers");
            refused.refuse(field, format!("{} layers", kinds.len()), wanted);
        }
        let routings = self.routings(refused);
        let plans = kinds.into_iter().take(layers).zip(routings);
        let mut found = Vec::with_capacity(layers);
        for (number, (kind, routing)) in plans.enumerate() {
            match kind {
                Some(kind) => found.push(LayerPlan { kind, routing }),
                None => refused.refuse(
                    field,
                    format!("another word at layer {number}"),
                    "0, 4 or 128; sliding_, compressed_sparse_ or heavily_compressed_attention",
                ),
            }
        }
        found
    }

    fn routings(&self, refused: &mut Refusals) -> Vec<Routing> {
        let layers = self.num_hidden_layers;
        let Some(types) = &self.mlp_layer_types else {
            let hashed = self.num_hash_layers.unwrap_or(3);
            let routing = |layer| match layer < hashed {
                true => Routing::Hash,
                false => Routing::Scores,
            };
            return (0..layers).map(routing).collect();
        };
        let mut routings = Vec::with_capacity(layers);
        for word in types {
            match word.as_str() {
                "hash_moe" => routings.push(Routing::Hash),
                "moe" => routings.push(Routing::Scores),
                _ => refused.refuse("mlp_layer_types", word, "hash_moe or moe"),
            }
        }
        if types.len() != layers {
            let wanted = format!("one for each of {layers} layers");
            refused.refuse("mlp_layer_types", types.len(), wanted);
        }
        routings
    }

    fn quantisation(&self, refused: &mut Refusals) -> Option<Quantisation> {
        let found = self.quantization_config.as_ref()?;
        refused.only("quant_method", found.quant_method.as_str(), "fp8");
        refused.only("fmt", found.fmt.as_deref().unwrap_or("e4m3"), "e4m3");
        if found.weight_block_size.unwrap_or([128; 2]) != [128; 2] {
            let size = format!("{:?}", found.weight_block_size);
            refused.refuse("weight_block_size", size, "[128, 128]");
        }
        let (outer, inner) = (&self.expert_dtype, &found.expert_dtype);
        if let (Some(outer), Some(inner)) = (outer, inner)
            && outer != inner
        {
            let wanted = format!("{inner}, as in quantization_config");
            refused.refuse("expert_dtype", outer, wanted);
        }
        let experts = match inner.as_ref().or(outer.as_ref()).map(String::as_str) {
            Some("fp4") => ExpertFormat::Fp4,
            Some("fp8") | None => ExpertFormat::Fp8,
            Some(other) => {
                refused.refuse("expert_dtype", other, "fp4 or fp8");
                return None;
            }
        };
        Some(Quantisation { experts })
    }

    /// The stretch: beside the others' fields, or in a part of its own, `compress`.
    fn yarn(&self, refused: &mut Refusals) -> Option<YarnStretch> {
        let scaling = self.rope_scaling.as_ref()?;
        let scaling = scaling.get("compress").unwrap_or(scaling);
        let word = scaling.get("rope_type").or_else(|| scaling.get("type"));
        match word.and_then(|word| word.as_str()) {
            Some("default") | None => return None,
            Some("yarn") => {}
            Some(other) => {
                refused.refuse("rope_scaling", other, "yarn or default");
                return None;
            }
        }
        let factor = scaling.get("attention_factor");
        if factor.is_some_and(|factor| !factor.is_null() && factor.as_f64() != Some(1.0)) {
            refused.refuse("attention_factor", "another", "1: nothing is scaled");
        }
        match YarnStretch::deserialize(scaling) {
            Ok(yarn) => Some(yarn),
            Err(error) => {
                refused.refuse("rope_scaling", error, "the fields of yarn");
                None
            }
        }
    }

    /// What all models have in common, and what sizes have to do with each other.
    fn check(&self, refused: &mut Refusals) {
        refused.only("model_type", self.model_type.as_str(), "deepseek_v4");
        let word = |found: &Option<String>, only: &str| found.clone().unwrap_or(only.to_owned());
        let scores = word(&self.scoring_func, "sqrtsoftplus");
        refused.only("scoring_func", scores.as_str(), "sqrtsoftplus");
        refused.only(
            "hidden_act",
            word(&self.hidden_act, "silu").as_str(),
            "silu",
        );
        refused.only("num_key_value_heads", self.num_key_value_heads, 1);
        refused.only("n_shared_experts", self.n_shared_experts, 1);
        refused.only("norm_topk_prob", self.norm_topk_prob, true);
        refused.only("attention_bias", self.attention_bias, false);
        refused.only("tie_word_embeddings", self.tie_word_embeddings, false);
        for (field, size) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("head_dim", self.head_dim),
            ("q_lora_rank", self.q_lora_rank),
            ("o_groups", self.o_groups),
            ("o_lora_rank", self.o_lora_rank),
            ("sliding_window", self.sliding_window),
            ("index_n_heads", self.index_n_heads),
            ("index_head_dim", self.index_head_dim),
            ("index_topk", self.index_topk),
            ("n_routed_experts", self.n_routed_experts),
            ("num_experts_per_tok", self.num_experts_per_tok),
            ("moe_intermediate_size", self.moe_intermediate_size),
            ("hc_mult", self.hc_mult),
            ("hc_sinkhorn_iters", self.hc_sinkhorn_iters),
        ] {
            // Products of three sizes are bytes that a file could have.
            if size == 0 || size > 1 << 20 {
                refused.refuse(field, size, "a number from 1 to 1048576");
            }
        }
        let dims = self.head_dim.min(self.index_head_dim);
        if !self.qk_rope_head_dim.is_multiple_of(2) || self.qk_rope_head_dim > dims {
            let wanted = format!("an even number up to {dims}");
            refused.refuse("qk_rope_head_dim", self.qk_rope_head_dim, wanted);
        }
        if !self
            .num_attention_heads
            .is_multiple_of(self.o_groups.max(1))
        {
            let wanted = format!("a divisor of {} heads", self.num_attention_heads);
            refused.refuse("o_groups", self.o_groups, wanted);
        }
        if self.num_experts_per_tok > self.n_routed_experts {
            let wanted = format!("at most the {} experts", self.n_routed_experts);
            refused.refuse("num_experts_per_tok", self.num_experts_per_tok, wanted);
        }
    }
}

const fn kind_of_ratio(ratio: u32) -> Option<LayerKind> {
    match ratio {
        0 => Some(LayerKind::Window),
        4 => Some(LayerKind::C4),
        128 => Some(LayerKind::C128),
        _ => None,
    }
}

fn kind_of_word(word: &str) -> Option<LayerKind> {
    match word {
        "sliding_attention" => Some(LayerKind::Window),
        "compressed_sparse_attention" => Some(LayerKind::C4),
        "heavily_compressed_attention" => Some(LayerKind::C128),
        _ => None,
    }
}
