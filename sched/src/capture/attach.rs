//! Attaching to a capture that an engine began.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use streamweir_alloc::PoolReport;
use streamweir_hal::driver::CaptureStatus;
use streamweir_trace::Trace;
use streamweir_verify::Report;

use super::begin::Start;
use super::handle::Capture;
use super::options::{CaptureOptions, Placement};
use super::path;
use super::sink::{self, AnySink};
use crate::device::{Device, DeviceStream};
use crate::error::{EngineError, Error, Result};

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
    /// scratch is of an arena of its own, for the engine's replays take no turns: a
    /// group in the options is refused unless
    /// [`replays_take_turns`](CaptureOptions::replays_take_turns) vouches for them. To
    /// order them against graphs and eager runs on the same persistent buffers is up to
    /// the engine.
    ///
    /// A branch of the engine that is open at `detach` is the engine's to join; that it
    /// does is an assumption of the report until the engine's capture has ended, which
    /// the driver refuses otherwise.
    ///
    /// # Errors
    /// When the stream is not capturing, its capture is broken already, it is of
    /// another device, the options ask for a planned capture or a group whose turns
    /// nobody vouches for, or the calling
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
                return Err(Error::Engine(EngineError::NotCapturing {
                    stream: stream.name().to_owned(),
                }));
            }
        }
        options.origin = stream.name().to_owned();
        // The engine replays when it likes, which no group would know of.
        if let Some(group) = &options.group
            && !options.turns_are_vouched_for
        {
            return Err(Error::Engine(EngineError::InGroup {
                stream: options.origin,
                group: group.name().to_owned(),
            }));
        }
        options.check()?;
        let device = &self.inner;
        let sink = sink::Attached::new(stream.stream.clone(), device.take_event()?);
        let start = Start::new(device, options)?;
        let pools = start.scratch_pools(start.view());
        let capture = start.capture(pools, AnySink::Attached(sink))?;
        Ok(Attached { capture })
    }
}

impl Attached {
    /// Ends our part: ties what our nodes refer to to the engine's graph, and
    /// verifies the graph as it stands. The engine's capture goes on.
    ///
    /// # Errors
    /// When the engine has broken its capture ([`EngineError::CaptureBroken`](crate::EngineError::CaptureBroken)
    /// says which slices' events may have done it), a forked stream is not
    /// joined, there are hazards and the attachment refuses them, or the driver
    /// fails. What our nodes refer to is tied to
    /// the graph all the same, as far as the driver allows.
    pub fn detach(self) -> Result<Detached> {
        let (report, trace, pools) = path::into_engine_graph(&self.capture.recorder)?;
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
