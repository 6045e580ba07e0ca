//! One step, as it is recorded.

use half::bf16;
use streamweir::kernels::dsv4::{argmax, embed, rms_norm};
use streamweir::{Capture, part};

use super::config::{EPSILON, Overlap};
use super::error::Error;
use super::layer::Step;
use super::metadata::Metadata;
use super::model::Model;
use super::products::Products;

impl Model {
    /// Records one step of `rows` rows, from the inputs to the chosen tokens.
    pub(super) fn record(
        &self,
        capture: &Capture,
        products: &Products,
        rows: u32,
        overlap: Overlap,
    ) -> Result<(), Error> {
        let main = capture.origin();
        let config = &self.config;
        let metadata = Metadata::record(self, &main, rows)?;
        let step = Step {
            capture,
            model: self,
            products,
            metadata: &metadata,
            rows,
            overlap,
        };
        let width = config.hidden;
        let mut x = main.scratch::<bf16>("x", step.len(width))?;
        main.scope("embedding").launch(
            &self.kernels.embed,
            embed {
                ids: &self.inputs.ids(rows)?,
                embedding: &self.weights.embedding,
                x: &x,
                faults: &self.faults,
                tokens: rows,
                width,
                vocabulary: config.vocabulary,
            },
        )?;
        for layer in 0..config.layers {
            x = step.layer(&main, layer, &x)?;
        }
        let head = main.scope("head");
        head.copy(part(&self.hidden, 0..x.len())?, &x)?;
        let h = head.scratch::<bf16>("h", step.len(width))?;
        head.launch(
            &self.kernels.rms_norm,
            rms_norm {
                x: &x,
                norm: &self.weights.head_norm,
                out: &h,
                tokens: rows,
                width,
                stride: width,
                first: 0,
                epsilon: EPSILON,
            },
        )?;
        let logits = head.scratch::<f32>("vocabulary logits", step.len(config.vocabulary))?;
        products
            .head
            .launch(&head, &h, &self.weights.head, &logits)?;
        Ok(head.launch(
            &self.kernels.argmax,
            argmax {
                logits: &logits,
                ids: &part(&self.chosen, 0..rows as usize)?,
                tokens: rows,
                vocabulary: config.vocabulary,
            },
        )?)
    }
}
