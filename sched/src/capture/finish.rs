//! The end of a capture, good or bad.

use std::sync::Arc;

use streamweir_alloc::BlockKind;
use streamweir_trace::{ByteRange, Reserved, Trace};
use streamweir_verify::{Report, Verdict, VerifyError, driver_trace, verify_driver};

use super::record::What;
use super::session::{Core, Mode, State};
use super::trace::{self, ReadBack, Traces};
use super::{Capture, Verify};
use crate::driver::CaptureStatus;
use crate::error::{During, Error, Result};
use crate::graph::{Graph, Keep, Parts, replay_lanes};
use crate::owned::{GraphView, OwnedGraph, OwnedStream};

impl Capture {
    /// Ends the capture: reads the driver's graph back, verifies it against
    /// what was recorded, and instantiates it.
    ///
    /// # Errors
    /// When a forked stream is not joined; when there are hazards and the
    /// capture refuses them; when the driver fails. All is left as before then.
    pub fn end(self) -> Result<Graph> {
        let core = self.core.clone();
        // The drop of `self` cleans up after every early return below; after a
        // success it finds the capture ended.
        core.check_end()?;
        if !core.emits_at_once() {
            core.place_and_emit()?;
        }
        let graph = core.end_capture()?;
        core.device.guards.set_all(&core.device.reclaim)?;
        let read = core.read_back(graph.view())?;
        let traces = core.traces(&read, true);
        let (report, trace) = core.judge(&traces)?;
        let edges = traces.read_back.edges.iter();
        let lanes = replay_lanes(
            traces.read_back.nodes.len(),
            edges.map(|edge| (edge.from.index(), edge.to.index())),
        );
        let exec = graph
            .instantiate()
            .during(|| format!("instantiating graph \"{}\"", core.session.name))?;
        let pools = core.pool_report();
        let keep = core.keep()?;
        let parts = Parts {
            exec,
            graph,
            nodes: traces.handles(&read),
            keep,
            home: core.home.clone(),
        };
        core.release_strands();
        Ok(Graph::new(
            core.session.name.clone(),
            core.device.clone(),
            parts,
            trace,
            report,
            pools,
            lanes,
        ))
    }
}

impl Core {
    /// Refuses to end a capture that is over, broken, or has a stream out.
    pub(super) fn check_end(&self) -> Result<()> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        self.open(state, || format!("capture \"{}\"", self.session.name))?;
        self.settle_drops(state)?;
        let Some(strand) = state.unjoined() else {
            return Ok(());
        };
        let commands = &state.recording.commands;
        let last = commands
            .iter()
            .rev()
            .find(|c| state.strands[c.stream.index()].name == strand.name);
        let last = match last.map(|c| (&c.what, c.line)) {
            None => "none".to_owned(),
            Some((What::Kernel { info, .. }, line)) => {
                format!("`{}` at {line}", info.signature.symbol)
            }
            Some((What::Foreign { name, .. }, line)) => format!("\"{name}\" at {line}"),
            Some((_, line)) => format!("recorded at {line}"),
        };
        Err(Error::Unjoined {
            capture: self.name(),
            stream: strand.name.to_string(),
            last,
        })
    }

    /// Ends the driver's capture. Whatever comes, it is over afterwards.
    fn end_capture(&self) -> Result<OwnedGraph> {
        let mut state = self.state.borrow_mut();
        let graph = state.strands[0]
            .stream
            .end_capture()
            .during(|| format!("ending capture \"{}\"", self.session.name));
        state.inside = None;
        graph.inspect_err(|error| state.break_with(error))
    }

    pub(super) fn read_back(&self, graph: GraphView<'_>) -> Result<ReadBack> {
        let read = || -> crate::driver::DriverResult<ReadBack> {
            let nodes = graph.nodes()?;
            let kinds = nodes
                .iter()
                // SAFETY: a node of this graph.
                .map(|&node| unsafe { graph.node(node) })
                .collect::<Result<_, _>>()?;
            Ok(ReadBack {
                edges: graph.edges()?,
                nodes,
                kinds,
            })
        };
        read().during(|| format!("reading graph \"{}\" back", self.session.name))
    }

    pub(super) fn traces(&self, read: &ReadBack, own_all: bool) -> Traces {
        let state = self.state.borrow();
        let name = &self.session.name;
        let mut traces = trace::both(
            name,
            &state.recording,
            &state.strands,
            &self.blocks(),
            read,
            own_all,
        );
        traces.declared.reserved = self.held_for_scratch();
        traces
    }

    /// The memory that the pools hold for scratch, used or not. A workspace lies
    /// in a pool, too, but is no scratch that could have been packed closer.
    fn held_for_scratch(&self) -> Vec<Reserved> {
        let held = match self.emits_at_once() {
            true => {
                let pools = self.session.pools.reserved().into_iter();
                pools
                    .map(|(stream, range)| Reserved { stream, range })
                    .collect()
            }
            false => self.reserved(),
        };
        let mut workspaces: Vec<ByteRange> = (self.blocks().into_iter())
            .filter(|block| block.kind == BlockKind::Workspace)
            .map(|block| block.range)
            .collect();
        workspaces.sort_unstable();
        let mut scratch = Vec::with_capacity(held.len());
        for Reserved { stream, range } in held {
            let mut from = range.start;
            let inside = workspaces.iter().filter(|other| other.overlaps(&range));
            let end = ByteRange::new(range.end, range.end);
            for workspace in inside.chain([&end]) {
                if from < workspace.start {
                    let range = ByteRange::new(from, workspace.start);
                    scratch.push(Reserved { stream, range });
                }
                from = from.max(workspace.end);
            }
        }
        scratch
    }

    /// The verifier's word, and the trace that it is about: what was recorded,
    /// in the order that the driver has.
    pub(super) fn judge(&self, traces: &Traces) -> Result<(Report, Trace)> {
        let Traces {
            declared,
            read_back,
            matching,
            ..
        } = traces;
        let unverifiable = |source: VerifyError| Error::Unverifiable {
            capture: self.name(),
            source,
        };
        let report = verify_driver(declared, read_back, matching).map_err(unverifiable)?;
        if report.verdict == Verdict::Hazard && self.verify == Verify::Refuse {
            return Err(Error::Refused {
                capture: self.name(),
                report: Box::new(report),
            });
        }
        let trace = driver_trace(declared, read_back, matching).map_err(unverifiable)?;
        Ok((report, trace))
    }

    /// Ends the pools well, and collects all that the graph refers to.
    pub(super) fn keep(&self) -> Result<Keep> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let mut keep = std::mem::take(&mut state.keep);
        for command in &state.recording.commands {
            match &command.what {
                What::Kernel { info, .. } => {
                    let module = info.function.module();
                    if !keep.modules.iter().any(|m| Arc::ptr_eq(m, module)) {
                        keep.modules.push(module.clone());
                    }
                }
                What::EventRecord(event) | What::EventWait(event) => {
                    if !keep.events.iter().any(|e| Arc::ptr_eq(e, event)) {
                        keep.events.push(event.clone());
                    }
                }
                What::Copy { .. } | What::Fill { .. } | What::Foreign { .. } => {}
            }
        }
        keep.persistent.clone_from(&state.recording.persistents);
        keep.pinned = std::mem::take(&mut state.recording.pinned);
        self.session.dropped.close(&self.session.pools)?;
        let lease = self.session.pools.finish()?;
        keep.lease = Some(match &state.ground {
            None => lease,
            // That one was of paper.
            Some(ground) => ground.finish()?,
        });
        state.ended = true;
        Ok(keep)
    }

    /// Puts the streams of a capture that has ended away for the next one.
    pub(super) fn release_strands(&self) {
        let mut state = self.state.borrow_mut();
        for strand in state.strands.drain(..) {
            // An engine's stream stays the engine's.
            if let Ok(stream) = Arc::<OwnedStream>::try_unwrap(strand.stream)
                && stream.is_ours()
            {
                self.device.give_stream(stream);
            }
        }
    }

    /// Ends a capture that has not ended well.
    fn abandon(&self) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if state.ended {
            return;
        }
        state.ended = true;
        match self.mode {
            Mode::Captured | Mode::Planned => self.abandon_capture(state),
            // The engine's capture is the engine's to end. What was recorded in
            // it may still be replayed, so the graph keeps what it refers to.
            Mode::Attached => self.leave_engine(state),
            // Work of the failed run may be under way on every stream.
            Mode::Eager => self.abandon_eager(state),
        }
        state.inside = None;
        // What else there was to say has been said by the failure.
        let _ = self.session.dropped.close(&self.session.pools);
        self.session.pools.abort();
        state.ground = None;
        state.strands.clear();
    }

    fn abandon_capture(&self, state: &mut State) {
        let capturing = state.look(streamweir_trace::StreamId(0));
        // The graph of a failed capture goes at once. That the driver reports
        // the very failure that brought us here once more says nothing new, and
        // a capture that has ended already has no status.
        if !matches!(capturing, Ok(CaptureStatus::None))
            && let Ok(graph) = state.strands[0].stream.end_capture()
        {
            drop(graph);
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // `end` and the like hold a second handle while this runs.
        self.core.abandon();
    }
}

/// Hands what a failed run may still use to the reclaimer.
pub(super) fn retire(core: &Core, fences: crate::owned::Fences, keep: impl Send + Sync + 'static) {
    core.device.reclaim.retire(fences, Box::new(keep));
}
