//! The head: from the streams after the last layer to logits.
//!
//! ```text
//! pre    = sigmoid(fn . rms(X_1 .. X_n) scale + base) + eps     as before a block
//! state  = rms_norm(sum_i pre_i X_i)
//! logits = W_head . state
//! ```

use super::hyper::{collapse, outputs};
use super::linear::{linear, norm_rows, sigmoid};
use super::rows::Rows;
use crate::dsv4::checkpoint::{HeadWeights, Weights};

/// The last state of each token, of which the logits of its next one are made.
#[derive(Clone, Debug)]
pub struct States<'a> {
    head: &'a HeadWeights,
    rows: Rows,
}

impl<'a> States<'a> {
    pub(super) fn new(weights: &'a Weights, streams: &Rows) -> Self {
        let (config, head) = (weights.config(), weights.head());
        let mixes = outputs(config, &head.hyper, streams);
        let states = Rows::of(streams.len(), config.hidden, |row| {
            let mixes = mixes.row(row).iter().zip(&head.hyper.base);
            let pre: Vec<f32> = mixes
                .map(|(m, base)| sigmoid(m * head.hyper.scale[0] + base) + config.hyper.eps)
                .collect();
            collapse(&pre, streams.row(row))
        });
        Self {
            head,
            rows: norm_rows(states, &head.norm, config.norm_eps),
        }
    }

    /// The states.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The logits of all tokens after each token.
    pub fn logits(&self) -> Rows {
        linear(&self.head.logits, &self.rows)
    }
}
