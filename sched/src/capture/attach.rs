//! Attaching to a capture that an engine began.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use streamweir_alloc::PoolReport;
use streamweir_base::inside::Inside;
use streamweir_trace::{NodeId, Trace};
use streamweir_verify::Report;

use super::Capture;
use super::options::{CaptureOptions, Placement};
use super::session::{Core, Mode, State};
use super::trace::Traces;
use crate::audit::{Unnamed, attribute};
use crate::device::{Device, DeviceStream};
use crate::driver::CaptureStatus;
use crate::error::{During, Error, Result};
use crate::graph::{GroupInner, Keep};
use crate::owned::{GraphView, Reclaim};

/// Our part in a capture that an engine began: a [`Capture`] that ends with
/// [`detach`](Self::detach) and whose origin is the engine's stream.
pub struct Attached {
    capture: Capture,
}

/// What was found at the end of an attachment.
pub struct Detached {
    trace: Trace,
    report: Report,
    pools: PoolReport,
}

impl Device {
    /// Takes part in the capture that is in progress on `stream`, from here to
    /// [`Attached::detach`]. The engine ends the capture, instantiates the graph
    /// and replays it; the graph keeps alive what our nodes refer to.
    ///
    /// Nodes that the engine records are part of the order, and are judged as
    /// [`audit`](crate::audit) judges a graph of any origin: copies, fills and
    /// allocations by their operands, kernels by the words of their parameters,
    /// which are reported as not analysed. Memory that the engine uses and has
    /// not named is its own affair, as long as its own nodes are in order. The
    /// scratch is of an arena of its own, and a group in the options is not used: the engine's replays take no turns. Ordering them
    /// against graphs and eager runs on the same persistent buffers is the
    /// engine's.
    ///
    /// # Errors
    /// When the stream is not capturing, its capture is broken already, it is of
    /// another device, the options ask for a planned capture, or the calling
    /// thread is inside a capture of streamweir.
    pub fn attach(
        &self,
        stream: &DeviceStream,
        options: impl Into<CaptureOptions>,
    ) -> Result<Attached> {
        self.inner.outside("Device::attach")?;
        if !Arc::ptr_eq(&stream.device, &self.inner) {
            return Err(Error::OtherDevice {
                what: format!("stream \"{}\"", stream.name()),
                used_on: self.info().name.clone(),
            });
        }
        let mut options = options.into();
        if options.placement == Placement::Planned {
            return Err(Error::Unplannable {
                what: format!("attaching to stream \"{}\"", stream.name()),
                capture: options.name,
                instead: "the nodes of the engine stand in record order: attach live",
            });
        }
        match stream.capture_status()? {
            CaptureStatus::Active => {}
            CaptureStatus::Invalidated => {
                return Err(self.inner.engine_capture_broken(stream.name()));
            }
            CaptureStatus::None => {
                return Err(Error::NotCapturing {
                    stream: stream.name().to_owned(),
                });
            }
        }
        options.origin = stream.name().to_owned();
        // The engine replays when it likes, which no group would know of.
        options.group = None;
        let event = self.inner.take_event()?;
        let core = Core::new(
            &self.inner,
            &options,
            Mode::Attached,
            stream.stream.clone(),
            event,
        )?;
        let inside = Inside::enter(core.session.name.clone());
        core.state.borrow_mut().inside = Some(inside);
        Ok(Attached {
            capture: Capture {
                core: Rc::new(core),
            },
        })
    }
}

impl Attached {
    /// Ends our part: ties what our nodes refer to to the engine's graph, and
    /// verifies the graph as it stands. The engine's capture goes on.
    ///
    /// # Errors
    /// When the engine has broken its capture ([`Error::EngineCaptureBroken`]
    /// says which slices' events may have done it), a forked stream is not
    /// joined, there are hazards and the attachment refuses them, or the driver
    /// fails. What our nodes refer to is tied to
    /// the graph all the same, as far as the driver allows.
    pub fn detach(self) -> Result<Detached> {
        let core = self.capture.core.clone();
        core.engine_still_captures()?;
        core.check_end()?;
        let graph = core.graph_in_progress()?;
        let read = core.read_back(graph)?;
        let mut traces = core.traces(&read, false);
        traces.end_origin_at(&read, &core.state.borrow().looked);
        let Traces {
            declared, theirs, ..
        } = &mut traces;
        // What the engine's own nodes touch, as far as it can be seen.
        let of_engine = |node: NodeId| theirs.contains(&node);
        let unnamed = Unnamed::IsTheEngines;
        attribute(
            &core.device,
            declared,
            Vec::new(),
            unnamed,
            of_engine,
            of_engine,
        )?;
        let judged = core.judge(&traces);
        let pools = core.session.pools.report();
        let keep = core.keep()?;
        core.tie(graph, keep)?;
        core.state.borrow_mut().inside = None;
        core.release_strands();
        let (report, trace) = judged?;
        Ok(Detached {
            trace,
            report,
            pools,
        })
    }
}

impl Deref for Attached {
    type Target = Capture;

    fn deref(&self) -> &Capture {
        &self.capture
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attached").field(&self.capture).finish()
    }
}

impl Detached {
    /// What the verifier found.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The record of our part, and the engine's nodes as the driver has them.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The use of the scratch pools at the end.
    pub fn pools(&self) -> &PoolReport {
        &self.pools
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached")
            .field("verdict", &self.report.verdict)
            .finish_non_exhaustive()
    }
}

impl Core {
    /// Refuses when the engine has broken its capture since `attach`.
    fn engine_still_captures(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State {
            strands, looked, ..
        } = &mut *state;
        let origin = &strands[0];
        let info = origin
            .stream
            .capture_info(looked)
            .during(|| format!("looking at the capture of stream \"{}\"", origin.name))?;
        if info.status == CaptureStatus::Invalidated {
            return Err(self.device.engine_capture_broken(&origin.name));
        }
        Ok(())
    }

    /// The graph that the engine's capture is making.
    fn graph_in_progress(&self) -> Result<GraphView<'_>> {
        let mut state = self.state.borrow_mut();
        let State {
            strands, looked, ..
        } = &mut *state;
        let origin = &strands[0];
        let info = origin
            .stream
            .capture_info(looked)
            .during(|| format!("looking at the capture of stream \"{}\"", origin.name))?;
        match (info.status, info.graph) {
            // SAFETY: the graph lives as long as the engine's capture, which
            // the engine cannot end while it waits for `detach`.
            (CaptureStatus::Active, Some(graph)) => unsafe {
                Ok(GraphView::of_capture(&self.device.reclaim, graph))
            },
            _ => Err(Error::NotCapturing {
                stream: origin.name.to_string(),
            }),
        }
    }

    /// Ties what our nodes refer to to the life of the engine's graph.
    fn tie(&self, graph: GraphView<'_>, keep: Keep) -> Result<()> {
        let keep = Tied {
            reclaim: Arc::downgrade(&self.device.reclaim),
            kept: Some((keep, self.home.clone())),
        };
        graph.retain(Box::new(keep)).during(|| {
            format!(
                "tying the buffers of \"{}\" to the engine's graph",
                self.session.name
            )
        })
    }

    /// An attachment that did not end well: the engine may replay what was
    /// recorded all the same, so it is kept.
    pub(super) fn leave_engine(&self, state: &mut State) {
        let mut keep = std::mem::take(&mut state.keep);
        keep.persistent.clone_from(&state.recording.persistents);
        keep.pinned = std::mem::take(&mut state.recording.pinned);
        // Pools that have ended already hold nothing any more.
        keep.lease = self.session.pools.finish().ok();
        let modules: Vec<Arc<dyn Any + Send + Sync>> =
            std::mem::take(&mut state.recording.commands)
                .into_iter()
                .filter_map(|command| match command.what {
                    super::record::What::Kernel { info, .. } => {
                        Some(info as Arc<dyn Any + Send + Sync>)
                    }
                    super::record::What::EventRecord(event)
                    | super::record::What::EventWait(event) => {
                        Some(event as Arc<dyn Any + Send + Sync>)
                    }
                    _ => None,
                })
                .collect();
        keep.foreign.extend(modules);
        let info = state.strands[0].stream.capture_info(&mut state.looked);
        // An invalidated capture has no graph, and nothing of it will run: then
        // `keep` goes at once.
        if let Ok(info) = info
            && let Some(graph) = info.graph
        {
            // SAFETY: the engine's capture is in progress and cannot end here.
            let graph = unsafe { GraphView::of_capture(&self.device.reclaim, graph) };
            if self.tie(graph, keep).is_err() {
                state
                    .broken
                    .get_or_insert_with(|| "the engine's graph could not be tied".into());
            }
        }
    }
}

/// What the driver holds for an engine's graph.
///
/// The driver may drop it on a thread where no driver call is allowed, so it
/// only moves what it kept to the reclaimer. When the device is gone by then,
/// nobody is left who could release it, and it is leaked rather than released
/// where that is forbidden.
struct Tied {
    reclaim: Weak<Reclaim>,
    kept: Option<(Keep, Arc<GroupInner>)>,
}

impl Drop for Tied {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        match self.reclaim.upgrade() {
            Some(reclaim) => reclaim.retire(Vec::new(), Box::new(kept)),
            None => std::mem::forget(kept),
        }
    }
}
