//! The decoder: embedding and layers.

use thiserror::Error;

use super::attention::Cache;
use super::formulas::Formulas;
use super::head::States;
use super::layer::{Layer, Seen, Watch};
use super::rope::Rope;
use super::rows::Rows;
use super::{hyper, rope, router};
use crate::dsv4::checkpoint::{ModelConfig, Weights};
use crate::dsv4::config::LayerKind;

impl Formulas {
    /// Those of the model.
    pub const DSV4: Self = Self {
        rotate: rope::rotate,
        choose: router::choose,
        expand: hyper::expand,
    };
}

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
pub struct Sequence<'a> {
    /// Those of its model.
    weights: &'a Weights,
    caches: Vec<Cache>,
    tokens: usize,
}

/// Tokens that a sequence cannot be extended by. It is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The model has no such token.
    #[error("token {token} of row {row} is none of the model's {vocabulary}")]
    Token {
        /// The row.
        row: usize,
        /// The token.
        token: u32,
        /// Tokens that there are.
        vocabulary: usize,
    },
    /// The sequence was begun by a model with other weights.
    #[error("the sequence of {tokens} tokens is another model's; begin one with this model")]
    OtherModel {
        /// Its tokens.
        tokens: usize,
    },
}

impl Sequence<'_> {
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
    pub fn begin(&self) -> Sequence<'a> {
        Sequence {
            weights: self.weights,
            caches: vec![Cache::default(); self.config.layers.len()],
            tokens: 0,
        }
    }

    /// Takes in the next tokens of a sequence, and gives the last state of each.
    ///
    /// # Errors
    /// When the model has no such token, or the sequence is another model's.
    pub fn extend(
        &self,
        sequence: &mut Sequence<'a>,
        tokens: &[u32],
    ) -> Result<States<'a>, ExtendError> {
        self.extend_watched(sequence, tokens, &mut |_, _: Seen<'_>| {})
    }

    /// As [`extend`](Self::extend), telling what each layer does.
    ///
    /// # Errors
    /// As there.
    pub fn extend_watched(
        &self,
        sequence: &mut Sequence<'a>,
        tokens: &[u32],
        watch: Watch<'_>,
    ) -> Result<States<'a>, ExtendError> {
        if !std::ptr::eq(sequence.weights, self.weights) {
            return Err(ExtendError::OtherModel {
                tokens: sequence.tokens,
            });
        }
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
        Ok(States::new(self.weights, &streams))
    }

    /// Every stream begins as the token's embedding.
    fn embed(&self, tokens: &[u32]) -> Result<Rows, ExtendError> {
        let vocabulary = self.config.vocabulary;
        let (hidden, streams) = (self.config.hidden, self.config.hyper.streams);
        let unknown = tokens
            .iter()
            .position(|&token| token as usize >= vocabulary);
        if let Some(row) = unknown {
            return Err(ExtendError::Token {
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
}
