//! The path of a capture to its end, good or bad.
//!
//! ```text
//! record -> rewrite -> place -> send -> read back -> judge -> instantiate
//! ```
//!
//! An [`Ending`] has taken the capture out of the recorder's cell. Each step of
//! it may fail, and an ending that is dropped before its last step leaves all as
//! it was before the capture (invariant 8).

use std::sync::Arc;

use streamweir_alloc::{Lease, PoolReport};
use streamweir_hal::driver::{DriverResult, GraphHandle, NodeHandle};
use streamweir_hal::owned::{GraphView, OwnedGraph, node_attributes};
use streamweir_trace::{BlockSync, NodeKind, Trace};
use streamweir_verify::{Report, Verdict, VerifyError, driver_trace, verify, verify_driver};

use super::open::Open;
use super::options::Verify;
use super::recorder::Recorder;
use super::sink::{self, Made, Proved, Sink, may_be_compared};
use super::strand::ORIGIN;
use super::trace::{self, LeftOver, ReadBack, Traces};
use crate::device::DeviceInner;
use crate::error::{During, EngineError, Error, Result};
use crate::graph::{About, Graph, Keep, Parts, replay_streams};
use crate::spans::span;

/// The whole path, for captures of our own.
pub(super) fn into_graph(recorder: &Recorder) -> Result<Graph> {
    let mut capture = Ending::record(recorder)?;
    capture.rewrite()?;
    capture.place()?;
    let graph = capture.send()?.graph(&capture)?;
    let read = capture.read_back(graph.view())?;
    let traces = capture.traces(&read)?;
    let judged = capture.judge(traces)?;
    capture.instantiate(graph, &read, judged)
}

/// The same path, at whose end an instantiated graph of before does what was captured.
pub(super) fn into_update(recorder: &Recorder, old: &mut Graph) -> Result<()> {
    let mut capture = Ending::record(recorder)?;
    capture.rewrite()?;
    capture.place()?;
    let graph = capture.send()?.graph(&capture)?;
    let read = capture.read_back(graph.view())?;
    let traces = capture.traces(&read)?;
    let judged = capture.judge(traces)?;
    capture.update(graph, &read, judged, old)
}

/// The path of a part in an engine's capture, which the engine instantiates.
pub(super) fn into_engine_graph(recorder: &Recorder) -> Result<(Report, Trace, PoolReport)> {
    let mut capture = Ending::record(recorder)?;
    capture.rewrite()?;
    let (graph, frontier) = capture.send()?.part(&capture)?;
    let device = recorder.device.clone();
    // SAFETY: the graph lives as long as the engine's capture, which the engine
    // cannot end while it waits for this.
    let graph = unsafe { GraphView::of_capture(&device.reclaim, graph) };
    let read = capture.read_back(graph)?;
    let mut traces = capture.part_traces(&read)?;
    traces.end_origin_at(&read, &frontier);
    let judged = capture.judge(traces)?;
    capture.tie(graph, judged)
}

/// The path of work that has run: there is no graph to be read back. Returns the proof,
/// and whether it is that of a run before.
pub(super) fn into_run(recorder: &Recorder) -> Result<(Arc<Proved>, bool, PoolReport)> {
    let mut run = Ending::record(recorder)?;
    run.rewrite()?;
    run.send()?.work(&run)?;
    let comparable = may_be_compared(&run.open.recorded);
    let before = comparable.then(|| run.open.proof_of_like()).flatten();
    let is_like = before.is_some();
    let proved = match before {
        Some(proved) => proved,
        None => run.prove()?,
    };
    let pools = run.open.recorded.pool_report();
    let keep = run.keep()?;
    // Memory of the host is in use until its copies are among the launches in flight.
    let _in_use = run.open.recorded.recording.pinned.clone();
    run.open.remember(&proved, comparable && !is_like);
    let Open { recorded, sink, .. } = &mut *run.open;
    if let Some(eager) = sink.eager() {
        let ended = eager.end_well(recorded, &proved, keep);
        ended.during(|| format!("ending eager run \"{}\"", recorder.name()))?;
    }
    Ok((proved, is_like, pools))
}

/// The path of a recording that nobody captures, as far as its pools are concerned:
/// those of a planned capture are known when it has been placed.
pub(super) fn into_size(recorder: &Recorder, is_planned: bool) -> Result<(PoolReport, Lease)> {
    let mut sized = Ending::record(recorder)?;
    sized.rewrite()?;
    if is_planned {
        sized.place()?;
    }
    let Open { recorded, sink, .. } = &mut *sized.open;
    let report = recorded.pool_report();
    let of_pools = recorded.finish_pools()?;
    let lease = match is_planned {
        true => sink.lease(of_pools)?,
        false => of_pools,
    };
    sized.well = true;
    sized.give_back();
    Ok((report, lease))
}

/// Ends a capture that has not ended well, if it has not ended.
pub(super) fn abandon(recorder: &Recorder) {
    let open = recorder.take_to_abandon();
    drop(open.map(|open| Ending { open, well: false }));
}

/// A capture on its way to its end.
struct Ending {
    open: Box<Open>,
    /// Nothing is left to be cleaned up.
    well: bool,
}

/// What the verifier says, and the trace that it says it of: what was recorded,
/// in the order that the driver has.
struct Judged {
    report: Report,
    trace: Trace,
    traces: Traces,
}

impl Ending {
    /// What has been recorded, when nothing stands against its end.
    fn record(recorder: &Recorder) -> Result<Self> {
        let open = recorder.take_to_end()?;
        Ok(Self { open, well: false })
    }

    /// What the rewrites add at the end: fills of what was dropped since the last
    /// command. Everything else was rewritten when it was recorded.
    fn rewrite(&mut self) -> Result<()> {
        self.open.fill_dropped()
    }

    /// Gives each buffer its address. In a live capture each has one.
    fn place(&mut self) -> Result<()> {
        let Open { recorded, sink, .. } = &mut *self.open;
        sink.place(recorded)
    }

    /// Sends what was not sent when it was recorded, and ends the driver's
    /// capture. Whatever comes, it is over afterwards.
    fn send(&mut self) -> Result<Made> {
        let Open { recorded, sink, .. } = &mut *self.open;
        let made = sink.end(recorded)?;
        if matches!(made, Made::Graph(_)) {
            recorded.inside = None;
            recorded.device.guards.set_all(&recorded.device.reclaim)?;
        }
        Ok(made)
    }

    /// The verifier's word on work that has run.
    fn prove(&mut self) -> Result<Arc<Proved>> {
        let mut trace = trace::declared(&self.open.recorded);
        self.show(&mut trace, &[])?;
        let report = verify(&trace).map_err(|source| self.unverifiable(source))?;
        Ok(Proved::new(trace, report))
    }

    /// The driver's graph: nodes, what they do, edges.
    fn read_back(&self, graph: GraphView<'_>) -> Result<ReadBack> {
        let reclaim = &self.open.recorded.device.reclaim;
        let read = || -> DriverResult<ReadBack> {
            let nodes = graph.nodes()?;
            let mut kinds = Vec::with_capacity(nodes.len());
            for &node in &nodes {
                // SAFETY: a node of this graph.
                let mut kind = unsafe { graph.node(node) }?;
                if let NodeKind::Kernel(kernel) = &mut kind {
                    // SAFETY: as above.
                    let attributes = unsafe { node_attributes(reclaim, node) }?;
                    if attributes.cooperative {
                        kernel.sync = BlockSync::Cooperative;
                    }
                    kernel.cluster = attributes.cluster;
                }
                kinds.push(kind);
            }
            Ok(ReadBack {
                edges: graph.edges()?,
                nodes,
                kinds,
            })
        };
        read().during(|| format!("reading graph \"{}\" back", self.open.recorded.name()))
    }

    /// What was recorded and what the driver has, where every node is ours.
    fn traces(&mut self, read: &ReadBack) -> Result<Traces> {
        let mut traces = trace::of_graph(&self.open.recorded, read);
        self.show(&mut traces.declared, &traces.left_over)?;
        Ok(traces)
    }

    /// Adds what nodes show and nobody declares, and keeps alive what is ours of it.
    fn show(&mut self, trace: &mut Trace, left_over: &[LeftOver]) -> Result<()> {
        let recorded = &mut self.open.recorded;
        for entry in trace::show(&recorded.device, trace, left_over)? {
            recorded.asked.push(entry);
        }
        Ok(())
    }

    /// The same where other nodes are the engine's. What those touch is added, as
    /// far as it can be seen.
    fn part_traces(&mut self, read: &ReadBack) -> Result<Traces> {
        let recorded = &mut self.open.recorded;
        let mut traces = trace::of_part(recorded, read);
        for entry in trace::show_part(&recorded.device, &mut traces)? {
            recorded.asked.push(entry);
        }
        Ok(traces)
    }

    /// The verifier's word. Refuses hazards when it is to.
    fn judge(&self, traces: Traces) -> Result<Judged> {
        let Traces {
            declared,
            read_back,
            matching,
            ..
        } = &traces;
        let recorded = &self.open.recorded;
        let _span = span!("proof", recorded.name());
        let unverifiable = |source| self.unverifiable(source);
        let report = verify_driver(declared, read_back, matching).map_err(unverifiable)?;
        let capture = || recorded.name().to_string();
        // What a function of the host is lent, nobody else touches: that rests on the proof.
        let lends = || recorded.recording.lends_to_the_host();
        if report.verdict == Verdict::Hazard && (recorded.verify != Verify::Report || lends()) {
            return Err(Error::Refused {
                capture: capture(),
                report: Box::new(report),
            });
        }
        if report.certificate.is_none() && recorded.verify == Verify::Prove {
            return Err(Error::Unproven {
                capture: capture(),
                report: Box::new(report),
            });
        }
        let trace = driver_trace(declared, read_back, matching).map_err(unverifiable)?;
        Ok(Judged {
            report,
            trace,
            traces,
        })
    }

    /// The refusal to end as another kind of capture does.
    fn not_of_this_kind(&self) -> Error {
        Error::Engine(EngineError::NotCapturing {
            stream: self.open.recorded.strands.get(ORIGIN).name.to_string(),
        })
    }

    fn unverifiable(&self, source: VerifyError) -> Error {
        Error::Unverifiable {
            capture: self.open.recorded.name().to_string(),
            source,
        }
    }

    fn instantiate(mut self, graph: OwnedGraph, read: &ReadBack, judged: Judged) -> Result<Graph> {
        let name = self.open.recorded.name().clone();
        let _span = span!("instantiate", name);
        let exec = graph
            .instantiate()
            .during(|| format!("instantiating graph \"{name}\""))?;
        let (parts, about) = self.parts(graph, read, judged)?;
        Ok(Graph::new(self.give_back(), exec, parts, about))
    }

    /// Makes an instantiated graph do what was captured. Where that fails it is as before.
    fn update(
        mut self,
        graph: OwnedGraph,
        read: &ReadBack,
        judged: Judged,
        old: &mut Graph,
    ) -> Result<()> {
        let _span = span!("update", self.open.recorded.name());
        // What the graph will refer to is held before it does.
        let (parts, about) = self.parts(graph, read, judged)?;
        self.give_back();
        old.renew(parts, about)
    }

    /// What a graph of ours is made of beside its instance, and what is known of it.
    fn parts(
        &mut self,
        graph: OwnedGraph,
        read: &ReadBack,
        judged: Judged,
    ) -> Result<(Parts, About)> {
        let Judged {
            report,
            trace,
            traces,
        } = judged;
        let edges = traces.read_back.edges.iter();
        let replay_streams = replay_streams(
            traces.read_back.nodes.len(),
            edges.map(|edge| (edge.from.index(), edge.to.index())),
        );
        let about = About {
            name: self.open.recorded.name().clone(),
            trace,
            report,
            pools: self.open.recorded.pool_report(),
            replay_streams,
        };
        let parts = Parts {
            graph,
            nodes: traces.handles(read),
            keep: self.keep()?,
            home: self.open.recorded.home.clone(),
        };
        Ok((parts, about))
    }

    /// Ties what our nodes refer to to the engine's graph.
    fn tie(mut self, graph: GraphView<'_>, judged: Judged) -> Result<(Report, Trace, PoolReport)> {
        let pools = self.open.recorded.pool_report();
        let keep = self.keep()?;
        sink::tie(&self.open.recorded, graph, keep)?;
        self.give_back();
        Ok((judged.report, judged.trace, pools))
    }

    /// Ends the pools well, and collects all that the nodes refer to. From here on
    /// there is nothing to be abandoned.
    fn keep(&mut self) -> Result<Keep> {
        let Open { recorded, sink, .. } = &mut *self.open;
        let lease = recorded.finish_pools()?;
        let keep = Keep {
            lease: Some(sink.lease(lease)?),
            ..recorded.keeps()
        };
        self.well = true;
        Ok(keep)
    }

    /// Puts the streams away for the next capture.
    fn give_back(&mut self) -> Arc<DeviceInner> {
        let Open { recorded, sink, .. } = &mut *self.open;
        recorded.inside = None;
        sink.emitter().give_back(&recorded.device);
        recorded.device.clone()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.well {
            return;
        }
        let open = &mut *self.open;
        for call in std::mem::take(&mut open.calls) {
            open.may_have_begun(call);
        }
        let Open { recorded, sink, .. } = open;
        sink.abandon(recorded);
        recorded.inside = None;
        // What else there was to say has been said by the failure.
        let _ = recorded.pools.free_drops();
        recorded.pools.pools.abort();
    }
}

impl Made {
    fn graph(self, ending: &Ending) -> Result<OwnedGraph> {
        match self {
            Self::Graph(graph) => Ok(graph),
            Self::Part { .. } | Self::Work => Err(ending.not_of_this_kind()),
        }
    }

    fn part(self, ending: &Ending) -> Result<(GraphHandle, Vec<NodeHandle>)> {
        match self {
            Self::Part { graph, frontier } => Ok((graph, frontier)),
            Self::Graph(_) | Self::Work => Err(ending.not_of_this_kind()),
        }
    }

    fn work(self, ending: &Ending) -> Result<()> {
        match self {
            Self::Work => Ok(()),
            Self::Graph(_) | Self::Part { .. } => Err(ending.not_of_this_kind()),
        }
    }
}
