//! The decoder: embedding, layers, head.

use thiserror::Error;

use super::attention::Cache;
use super::formulas::Formulas;
use super::hyper::{collapse, outputs};
use super::layer::{Layer, Seen, Watch};
use super::linear::{linear, norm_rows, sigmoid};
use super::rope::Rope;
use super::rows::Rows;
use crate::dsv4::checkpoint::{ModelConfig, Weights};
use crate::dsv4::config::LayerKind;

/// The model of a checkpoint.
#[derive(Debug)]
pub struct PlainModel<'a> {
    config: &'a ModelConfig,
    weights: &'a Weights,
    formulas: Formulas,
    window_rope: Rope,
    entry_rope: Rope,
}

/// The state of a sequence: what its layers keep of its tokens.
#[derive(Clone, Debug)]
pub struct Sequence {
    caches: Vec<Cache>,
    tokens: usize,
}

/// A token that the model does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("token {token} of row {row} is none of the model's {vocabulary}")]
pub struct TokenError {
    /// The row.
    pub row: usize,
    /// The token.
    pub token: u32,
    /// Tokens that there are.
    pub vocabulary: usize,
}

impl Sequence {
    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.tokens
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }
}

impl<'a> PlainModel<'a> {
    /// The model with these weights.
    pub fn new(weights: &'a Weights) -> Self {
        Self::with_formulas(weights, Formulas::DSV4)
    }

    /// The same with other formulas: a model with mistakes, for tests.
    pub fn with_formulas(weights: &'a Weights, formulas: Formulas) -> Self {
        let config = weights.config();
        Self {
            config,
            weights,
            formulas,
            window_rope: Rope::new(&config.window_rope, config.rope_dim),
            entry_rope: Rope::new(&config.entry_rope, config.rope_dim),
        }
    }

    /// A sequence without tokens.
    pub fn begin(&self) -> Sequence {
        Sequence {
            caches: vec![Cache::default(); self.config.layers.len()],
            tokens: 0,
        }
    }

    /// Takes in the next tokens of a sequence. Gives the last state of each, which
    /// [`logits`](Self::logits) makes the next token's logits of.
    ///
    /// # Errors
    /// When the model has no such token; the sequence is as before.
    pub fn extend(&self, sequence: &mut Sequence, tokens: &[u32]) -> Result<Rows, TokenError> {
        self.extend_watched(sequence, tokens, &mut |_, _: Seen<'_>| {})
    }

    /// As [`extend`](Self::extend), telling what each layer does.
    ///
    /// # Errors
    /// As there.
    pub fn extend_watched(
        &self,
        sequence: &mut Sequence,
        tokens: &[u32],
        watch: Watch<'_>,
    ) -> Result<Rows, TokenError> {
        let mut streams = self.embed(tokens)?;
        for (number, weights) in self.weights.layers().iter().enumerate() {
            let plan = self.config.layers[number];
            let layer = Layer {
                number,
                plan,
                weights,
                config: self.config,
                rope: match plan.kind {
                    LayerKind::Window => &self.window_rope,
                    LayerKind::C4 | LayerKind::C128 => &self.entry_rope,
                },
                formulas: &self.formulas,
            };
            streams = layer.run(&mut sequence.caches[number], tokens, &streams, watch);
        }
        sequence.tokens += tokens.len();
        Ok(self.last_states(&streams))
    }

    /// The logits of all tokens after each row of [`extend`](Self::extend):
    /// `W_head . x`.
    pub fn logits(&self, states: &Rows) -> Rows {
        linear(&self.weights.head().logits, states)
    }

    /// Every stream begins as the token's embedding.
    fn embed(&self, tokens: &[u32]) -> Result<Rows, TokenError> {
        let vocabulary = self.config.vocabulary;
        let (hidden, streams) = (self.config.hidden, self.config.hyper.streams);
        let unknown = tokens
            .iter()
            .position(|&token| token as usize >= vocabulary);
        if let Some(row) = unknown {
            return Err(TokenError {
                row,
                token: tokens[row],
                vocabulary,
            });
        }
        Ok(Rows::of(tokens.len(), streams * hidden, |row| {
            let mut embedding = vec![0.0; hidden];
            self.weights
                .embedding()
                .row(tokens[row] as usize, &mut embedding);
            embedding.repeat(streams)
        }))
    }

    /// The streams become one as before a block, with `pre` alone:
    /// `pre = sigmoid(fn . rms(X) scale + base) + eps`; then the last norm.
    fn last_states(&self, streams: &Rows) -> Rows {
        let (config, head) = (self.config, self.weights.head());
        let mixes = outputs(config, &head.hyper, streams);
        let states = Rows::of(streams.len(), config.hidden, |row| {
            let mixes = mixes.row(row).iter().zip(&head.hyper.base);
            let pre: Vec<f32> = mixes
                .map(|(m, base)| sigmoid(m * head.hyper.scale[0] + base) + config.hyper.eps)
                .collect();
            collapse(&pre, streams.row(row))
        });
        norm_rows(states, &head.norm, config.norm_eps)
    }
}
