//! Eager runs: the closure of a capture, straight on the device.

use std::convert::Infallible;
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
use crate::driver::DriverResult;
use crate::error::{During, Error, Result};
use crate::graph::{Footprint, Keep, Launch, in_turn};
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
    /// own, with the same forks, joins and pools as a capture, after every
    /// replay and every eager run that was enqueued before. Replays and eager
    /// runs that begin when this call has returned come after it where their
    /// bytes conflict; a replay from within `record`, or from another thread
    /// meanwhile, is not ordered with it.
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
        options.guarded = false;
        let origin = Arc::new(
            self.inner
                .take_stream(options.priorities.of(&options.origin))?,
        );
        self.inner.watch(&origin);
        let event = self.inner.take_event()?;
        let core = Core::new(&self.inner, &options, Mode::Eager, origin, event)?;
        let capture = Capture {
            core: Rc::new(core),
        };
        capture.core.follow_all()?;
        let result = record(&capture)?;
        Ok((capture.core.end_eager()?, result))
    }
}

impl Core {
    /// Orders the run after all that is in flight: what it will touch is not
    /// known yet.
    fn follow_all(&self) -> Result<()> {
        let state = self.state.borrow();
        let origin = &state.strands[0].stream;
        for last in self.device.latest_launches() {
            last.before(&self.device.reclaim, origin)
                .during(|| format!("ordering eager run \"{}\"", self.session.name))?;
        }
        Ok(())
    }

    /// Makes the run the latest launch of its own group and of all that
    /// conflict with it, whatever fails: what it enqueued runs all the same.
    /// Returns what later captures compare with, and the first failure.
    fn hand_over(&self, state: &State, trace: &Trace) -> (Arc<Footprint>, DriverResult<()>) {
        let reclaim = &self.device.reclaim;
        let origin = &state.strands[0].stream;
        let mut done = Ok(());
        // The event that others wait for is recorded on the origin, and a run
        // that failed may have streams out.
        for strand in state.strands.iter().skip(1).filter(|s| s.active) {
            done = done.and(Launch::new(&strand.stream).before(reclaim, origin));
        }
        let footprint = Arc::new(Footprint::of(trace));
        let turns = self.device.enroll(&self.home, &footprint);
        let entered: Result<_, Infallible> = in_turn(
            &turns,
            |last| {
                let after = last.before(reclaim, origin);
                done = std::mem::replace(&mut done, Ok(())).and(after);
                Ok(())
            },
            || Ok(Launch::new(origin)),
        );
        let Ok(_) = entered;
        (footprint, done)
    }

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
        let (footprint, ordered) = self.hand_over(&state, &trace);
        self.retire_run(&mut state, keep, footprint);
        ordered.during(|| format!("ending eager run \"{}\"", self.session.name))?;
        Ok(EagerRun {
            trace,
            report,
            pools,
        })
    }

    /// A run that failed half-way: what it enqueued goes on.
    pub(super) fn abandon_eager(&self, state: &mut State) {
        let trace = trace::declared(
            &self.session.name,
            &state.recording,
            &state.strands,
            &self.session.pools.buffers(),
        );
        // The caller gets the failure that ended the run.
        let (footprint, _) = self.hand_over(state, &trace);
        let mut keep = std::mem::take(&mut state.keep);
        keep.persistent.clone_from(&state.recording.persistents);
        keep.pinned = std::mem::take(&mut state.recording.pinned);
        // Committing the pools instead of aborting them holds the memory until
        // the work has ended.
        // Pools that have ended already hold nothing any more.
        keep.lease = self.session.pools.finish().ok();
        self.retire_run(state, keep, footprint);
    }

    fn retire_run(&self, state: &mut State, keep: Keep, footprint: Arc<Footprint>) {
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
        let home = (self.home.clone(), footprint);
        retire(self, fences, (modules, keep, streams, home));
    }
}
