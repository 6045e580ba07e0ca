//! Eager runs: the closure of a capture, straight on the device.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use streamweir_alloc::PoolReport;
use streamweir_trace::Trace;
use streamweir_verify::{Report, verify};

use super::Capture;
use super::finish::retire;
use super::options::CaptureOptions;
use super::session::{Core, Mode, State};
use super::trace;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::{Keep, Launch};
use crate::owned::{Fence, OwnedStream};

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
    /// own, with the same forks, joins and pools as a capture, after all
    /// conflicting launches of its replay group.
    ///
    /// Verification follows the work, so [`Verify`](super::Verify) decides
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
        let origin = Arc::new(self.inner.take_stream(options.priority)?);
        self.inner.watch(&origin);
        let event = self.inner.take_event()?;
        let core = Core::new(&self.inner, &options, Mode::Eager, origin, event)?;
        let capture = Capture {
            core: Rc::new(core),
        };
        let result = record(&capture)?;
        Ok((capture.core.end_eager()?, result))
    }
}

impl Core {
    fn end_eager(&self) -> Result<EagerRun> {
        self.check_end()?;
        let pools = self.session.pools.report();
        let trace = {
            let state = self.state.borrow();
            trace::declared(
                &self.session.name,
                &state.recording,
                &state.strands,
                &self.blocks(),
            )
        };
        let report = verify(&trace).map_err(|source| Error::Unverifiable {
            capture: self.name(),
            source,
        })?;
        let keep = self.keep()?;
        let mut state = self.state.borrow_mut();
        self.retire_run(&mut state, keep);
        Ok(EagerRun {
            trace,
            report,
            pools,
        })
    }

    /// A run that failed half-way: what it enqueued goes on.
    pub(super) fn abandon_eager(&self, state: &mut State) {
        let mut keep = std::mem::take(&mut state.keep);
        keep.persistent.clone_from(&state.recording.persistents);
        keep.pinned = std::mem::take(&mut state.recording.pinned);
        // Committing the pools instead of aborting them holds the memory until
        // the work has ended.
        keep.lease = self.session.pools.finish().ok();
        self.retire_run(state, keep);
    }

    fn retire_run(&self, state: &mut State, keep: Keep) {
        let reclaim = &self.device.reclaim;
        let streams: Vec<Arc<OwnedStream>> = state
            .strands
            .drain(..)
            .map(|strand| strand.stream)
            .collect();
        let fences: Vec<Fence> = streams
            .iter()
            .map(|stream| Launch::new(stream).fence(reclaim))
            .collect();
        let commands = std::mem::take(&mut state.recording.commands);
        let modules: Vec<_> = commands.into_iter().map(|command| command.what).collect();
        retire(self, fences, (modules, keep, streams, self.home.clone()));
    }
}
