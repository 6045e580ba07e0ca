//! The sink of a capture.

use streamweir_alloc::Lease;
use streamweir_hal::driver::DriverResult;
use streamweir_trace::StreamId;

use super::attached::Attached;
use super::contract::{Frontier, Made, Sink};
use super::eager::Eager;
use super::emit::{Emitter, SendError};
use super::live::Live;
use super::planned::Planned;
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::What;
use crate::device::DeviceInner;
use crate::error::Result;

/// One of the four. An enum, so that recording calls through no table.
pub(in crate::capture) enum AnySink {
    Live(Live),
    Planned(Planned),
    Attached(Attached),
    Eager(Eager),
}

macro_rules! each {
    ($any:expr, $sink:ident => $call:expr) => {
        match $any {
            AnySink::Live($sink) => $call,
            AnySink::Planned($sink) => $call,
            AnySink::Attached($sink) => $call,
            AnySink::Eager($sink) => $call,
        }
    };
}

impl AnySink {
    /// Whether it makes a graph of our own.
    pub(in crate::capture) fn makes_our_graph(&self) -> bool {
        matches!(self, Self::Live(_) | Self::Planned(_))
    }

    /// Whether the thread is inside a capture while this is open.
    pub(in crate::capture) fn captures(&self) -> bool {
        !matches!(self, Self::Eager(_))
    }

    /// The sink of an eager run, if this is one.
    pub(in crate::capture) fn eager(&mut self) -> Option<&mut Eager> {
        match self {
            Self::Eager(eager) => Some(eager),
            _ => None,
        }
    }

    /// The sink that makes calls of libraries later, if this is one.
    pub(in crate::capture) fn planned(&mut self) -> Option<&mut Planned> {
        match self {
            Self::Planned(planned) => Some(planned),
            _ => None,
        }
    }
}

impl Sink for AnySink {
    fn emitter(&mut self) -> &mut Emitter {
        each!(self, sink => sink.emitter())
    }

    fn begin(&mut self, recorded: &mut Recorded) -> Result<()> {
        each!(self, sink => sink.begin(recorded))
    }

    fn add_stream(&mut self, device: &DeviceInner, priority: i32) -> Result<()> {
        each!(self, sink => sink.add_stream(device, priority))
    }

    #[inline]
    fn send(
        &mut self,
        what: &What,
        params: &mut [u8],
        stream: StreamId,
    ) -> Result<Sent, SendError> {
        each!(self, sink => sink.send(what, params, stream))
    }

    fn order(&mut self, later: StreamId, earlier: StreamId) -> DriverResult<()> {
        each!(self, sink => sink.order(later, earlier))
    }

    fn frontier(&mut self, stream: StreamId) -> DriverResult<Frontier> {
        each!(self, sink => sink.frontier(stream))
    }

    fn check_end(&mut self, recorded: &Recorded) -> Result<()> {
        each!(self, sink => sink.check_end(recorded))
    }

    fn place(&mut self, recorded: &mut Recorded) -> Result<()> {
        each!(self, sink => sink.place(recorded))
    }

    fn end(&mut self, recorded: &mut Recorded) -> Result<Made> {
        each!(self, sink => sink.end(recorded))
    }

    fn lease(&mut self, of_pools: Lease) -> Result<Lease> {
        each!(self, sink => sink.lease(of_pools))
    }

    fn abandon(&mut self, recorded: &mut Recorded) {
        each!(self, sink => sink.abandon(recorded));
    }
}
