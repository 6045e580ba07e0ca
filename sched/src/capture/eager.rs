//! Eager runs: the closure of a capture, straight on the device.

use std::fmt;
use std::sync::Arc;

use streamweir_alloc::PoolReport;
use streamweir_trace::Trace;
use streamweir_verify::Report;

use super::begin::Start;
use super::handle::Capture;
use super::options::CaptureOptions;
use super::path;
use super::sink::{AnySink, Eager};
use crate::device::Device;
use crate::error::{Error, Result};

/// What an eager run did. The work itself may still be under way; wait with
/// [`Device::synchronize`].
pub struct EagerRun {
    trace: Trace,
    report: Report,
    pools: PoolReport,
}

impl EagerRun {
    /// The record of the run.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What the verifier says of the record. There is no graph of a driver to
    /// hold it against, and what has run cannot be refused.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The use of the scratch pools at the end of the run.
    pub fn pools(&self) -> &PoolReport {
        &self.pools
    }
}

impl fmt::Debug for EagerRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EagerRun")
            .field("verdict", &self.report.verdict)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// Runs what `record` records straight on the device: on streams of its
    /// own, with the same forks, joins and pools as a capture, after every
    /// replay and every eager run that was enqueued before. Replays and eager
    /// runs that begin when this call has returned come after it where their
    /// bytes conflict; a replay from within `record`, or from another thread
    /// meanwhile, is not ordered with it.
    ///
    /// Verification follows the work, so [`Verify`](crate::Verify) decides
    /// nothing here: look at the [report](EagerRun::report).
    ///
    /// # Errors
    /// What `record` returns; an unjoined stream; a failure of the driver.
    pub fn eager<R, E: From<Error>>(
        &self,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&Capture) -> Result<R, E>,
    ) -> Result<(EagerRun, R), E> {
        self.inner.outside("Device::eager")?;
        self.collect();
        let mut options = options.into();
        // Its scratch is its own: a run is not one locked step, so it could not
        // take turns on an arena.
        options.group = None;
        options.guarded = false;
        options.check()?;
        let device = &self.inner;
        let priority = options.priorities.of(&options.origin);
        let origin = Arc::new(device.take_stream(priority)?);
        let sink = Eager::new(device, origin, device.take_event()?);
        let start = Start::new(device, options)?;
        let pools = start.scratch_pools(start.view());
        let capture = start.capture(pools, AnySink::Eager(sink))?;
        let result = record(&capture)?;
        let (report, trace, pools) = path::into_run(&capture.recorder)?;
        let run = EagerRun {
            trace,
            report,
            pools,
        };
        Ok((run, result))
    }
}
