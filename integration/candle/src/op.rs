//! The layers as an op of candle's.

use candle_core::{CpuStorage, CudaStorage, InplaceOp2, Layout};
use half::bf16;
use streamweir::verify::Verdict;
use streamweir::{Capture, CaptureOptions, Graph, Persistent, Verify};

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model::Model;

const NAME: &str = "streamweir decode layers";

/// All layers of a model over a batch, from its input tensor into its output
/// tensor: `batch.output_tensor().inplace_op2(batch.input_tensor(), &op)`.
///
/// While candle's stream is being captured the op attaches to the capture and
/// becomes a part of it; else it runs at once. Either way it is in order with
/// candle's ops before and after it.
pub struct DecodeOp<'a> {
    /// The adopted device.
    pub engine: &'a Engine,
    /// The layers.
    pub model: &'a Model,
    /// The tensors that they work on.
    pub batch: &'a Batch,
    /// Whether the indexer has a stream of its own.
    pub overlap: bool,
}

impl DecodeOp<'_> {
    /// A proved graph of our own with the same work, to be replayed on
    /// [`Engine::stream`].
    ///
    /// # Errors
    /// When the capture is refused or the driver fails.
    pub fn capture(&self, options: impl Into<CaptureOptions>) -> Result<Graph> {
        let device = self.engine.device();
        let options = options.into().verify(Verify::Prove);
        let (graph, ()) = device.capture(options, |capture| self.record(capture))?;
        Ok(graph)
    }

    fn record(&self, capture: &Capture) -> Result<()> {
        self.model.record(capture, self.batch, self.overlap)
    }

    fn run(&self) -> Result<()> {
        if self.engine.is_capturing()? {
            let options = CaptureOptions::new(NAME).verify(Verify::Prove);
            let attached = self.engine.device().attach(self.engine.stream(), options)?;
            self.record(&attached)?;
            attached.detach()?;
            return Ok(());
        }
        // An eager run has a stream of its own: events put it where candle's
        // stream stands.
        let [before, after] = &self.batch.turn;
        self.engine.stream().record(before)?;
        let (run, ()) = self.engine.device().eager(NAME, |run| -> Result<()> {
            let main = run.origin();
            main.wait_external(before)?;
            self.record(run)?;
            main.record_external(after)?;
            Ok(())
        })?;
        self.engine.stream().wait(after)?;
        if run.report().verdict == Verdict::Hazard {
            return Err(Error::Hazard {
                report: run.report().to_string(),
            });
        }
        Ok(())
    }

    /// Refuses a tensor that the batch was not made with.
    fn check(
        &self,
        role: &'static str,
        buffer: &Persistent<bf16>,
        storage: &CudaStorage,
        layout: &Layout,
    ) -> Result<()> {
        let slice = storage.as_cuda_slice::<bf16>()?;
        let called_with = self.engine.address(slice, layout.start_offset());
        let made_for = buffer.range().start;
        if called_with == made_for && layout.shape().elem_count() == buffer.len() {
            return Ok(());
        }
        Err(Error::OtherTensor {
            op: NAME,
            role,
            made_for,
            called_with,
        })
    }
}

impl InplaceOp2 for DecodeOp<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        _: &mut CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> candle_core::Result<()> {
        Err(Error::NotCuda {
            what: format!("an argument of op `{NAME}`"),
        }
        .into())
    }

    fn cuda_fwd(
        &self,
        output: &mut CudaStorage,
        output_layout: &Layout,
        input: &CudaStorage,
        input_layout: &Layout,
    ) -> candle_core::Result<()> {
        if self.engine.is_capturing()? && self.engine.tracks_events() {
            return Err(Error::EventTracking { op: NAME }.into());
        }
        self.check("output", &self.batch.output, output, output_layout)?;
        self.check("input", &self.batch.input, input, input_layout)?;
        Ok(self.run()?)
    }
}
