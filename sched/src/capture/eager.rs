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
use super::sink::{AnySink, Eager, Home, Proved};
use crate::device::Device;
use crate::error::{Error, Result};

/// What an eager run did. The work itself may still be under way; wait with
/// [`Device::synchronize`].
pub struct EagerRun {
    proved: Arc<Proved>,
    is_like: bool,
    pools: PoolReport,
}

impl EagerRun {
    /// The record of the run.
    pub fn trace(&self) -> &Trace {
        &self.proved.trace
    }

    /// What the verifier says of the record. There is no graph of a driver to
    /// hold it against, and what has run cannot be refused.
    pub fn report(&self) -> &Report {
        &self.proved.report
    }

    /// Whether it was the run of this name that was proved last once more, command by
    /// command and byte by byte. Then record and report are those of that one.
    pub fn is_like_the_last(&self) -> bool {
        self.is_like
    }

    /// The use of the scratch pools at the end of the run.
    pub fn pools(&self) -> &PoolReport {
        &self.pools
    }
}

impl fmt::Debug for EagerRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EagerRun")
            .field("verdict", &self.report().verdict)
            .field("is_like_the_last", &self.is_like)
            .finish_non_exhaustive()
    }
}

impl Device {
    /// Runs what `record` records straight on the device: on streams of its
    /// own, with the same forks, joins and pools as a capture. When a command first
    /// touches a buffer, it comes after every replay and every copy that was enqueued
    /// before the run began and conflicts there; what conflicts with nothing in
    /// flight waits for nothing. The run comes after all eager runs before it.
    /// Replays and eager
    /// runs that begin when this call has returned come after it where their
    /// bytes conflict; a replay from within `record`, or from another thread
    /// meanwhile, is not ordered with it.
    ///
    /// Verification follows the work, so [`Verify`](crate::Verify) decides
    /// nothing here: look at the [report](EagerRun::report). A run that is the one of
    /// its name before over again is not proved again
    /// ([`EagerRun::is_like_the_last`]).
    ///
    /// Streams and scratch memory stay for the next run, until
    /// [`trim_eager`](Self::trim_eager).
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
        // A run is not one locked step, so it could not take turns on the arena of a
        // group of graphs.
        options.group = None;
        options.guarded = false;
        options.check()?;
        let device = &self.inner;
        let home = Home::take(device, options.arena)?;
        let group = home.group().clone();
        let sink = Eager::new(device, home, options.priorities.of(&options.origin))?;
        let start = Start::in_home(device, options, group);
        let pools = start.scratch_pools(start.view());
        let capture = start.capture(pools, AnySink::Eager(sink))?;
        let result = record(&capture)?;
        let (proved, is_like, pools) = path::into_run(&capture.recorder)?;
        let run = EagerRun {
            proved,
            is_like,
            pools,
        };
        Ok((run, result))
    }

    /// Gives back what eager runs have left for the next one: streams, what is known of
    /// former runs, and scratch memory as far as no run is under way in it. Returns the
    /// bytes of scratch memory that are given back now; what is in use follows when its
    /// run has ended.
    pub fn trim_eager(&self) -> u64 {
        self.collect();
        Home::trim_all(&self.inner)
    }
}
