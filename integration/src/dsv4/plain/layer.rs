//! One layer: attention and experts, each inside a hyper-connection and behind a norm.

use super::attention::{Attention, Cache};
use super::formulas::Formulas;
use super::hyper::{Mixing, collapse, mixings};
use super::linear::norm_rows;
use super::rope::Rope;
use super::rows::Rows;
use super::{experts, router};
use crate::dsv4::checkpoint::{HyperWeights, LayerPlan, LayerWeights, ModelConfig};

/// What a layer does, for who compares it with another.
#[derive(Debug)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// The streams that the layer takes in, side by side.
    Streams(&'a Rows),
    /// What the attention puts out.
    Attention(&'a Rows),
    /// The entries that each row sees, in a layer with an indexer.
    Selected(&'a [Vec<usize>]),
    /// The experts of each row and their weights.
    Chosen(&'a [Vec<(usize, f32)>]),
    /// What the experts put out, the shared one included.
    Experts(&'a Rows),
    /// The streams that the layer gives on.
    After(&'a Rows),
}

/// Told what each layer does, by its number.
pub type Watch<'a> = &'a mut dyn FnMut(usize, Seen<'_>);

/// A layer at work.
pub(super) struct Layer<'a> {
    pub(super) number: usize,
    pub(super) plan: LayerPlan,
    pub(super) weights: &'a LayerWeights,
    pub(super) config: &'a ModelConfig,
    pub(super) rope: &'a Rope,
    pub(super) formulas: &'a Formulas,
}

impl Layer<'_> {
    pub(super) fn run(
        &self,
        cache: &mut Cache,
        tokens: &[u32],
        streams: &Rows,
        watch: Watch<'_>,
    ) -> Rows {
        let weights = self.weights;
        watch(self.number, Seen::Streams(streams));
        let attention = Attention {
            weights: &weights.attention,
            config: self.config,
            rope: self.rope,
            formulas: self.formulas,
            kind: self.plan.kind,
        };
        let streams = self.inside(
            &weights.attention_hyper,
            &weights.attention_norm,
            streams,
            |x| {
                let attended = attention.run(cache, x);
                watch(self.number, Seen::Attention(&attended.output));
                if let Some(selected) = &attended.selected {
                    watch(self.number, Seen::Selected(selected));
                }
                attended.output
            },
        );
        let (hyper, norm) = (&weights.feed_forward_hyper, &weights.feed_forward_norm);
        let after = self.inside(hyper, norm, &streams, |x| {
            let weights = &weights.feed_forward;
            let routed = router::route(self.config, weights, self.formulas, x, tokens);
            watch(self.number, Seen::Chosen(&routed));
            let output = experts::run(weights, self.config.swiglu_limit, x, &routed);
            watch(self.number, Seen::Experts(&output));
            output
        });
        watch(self.number, Seen::After(&after));
        after
    }

    /// A block inside its hyper-connection.
    fn inside(
        &self,
        hyper: &HyperWeights,
        norm: &[f32],
        streams: &Rows,
        block: impl FnOnce(&Rows) -> Rows,
    ) -> Rows {
        let mixings = mixings(self.config, hyper, streams);
        let input = Rows::of(streams.len(), self.config.hidden, |row| {
            collapse(&mixings[row].pre, streams.row(row))
        });
        let output = block(&norm_rows(input, norm, self.config.norm_eps));
        Rows::of(streams.len(), streams.width(), |row| {
            let Mixing { post, comb, .. } = &mixings[row];
            (self.formulas.expand)(post, comb, streams.row(row), output.row(row))
        })
    }
}
