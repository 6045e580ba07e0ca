//! Where commands go: the four ways in which a capture meets the driver.
//!
//! | sink | a command goes | the end |
//! | --- | --- | --- |
//! | [`Live`] | into a capture of ours, when it is recorded | our graph |
//! | [`Planned`] | into a capture of ours, when all is placed | our graph |
//! | [`Attached`] | into an engine's capture, when it is recorded | a part of the engine's graph |
//! | [`Eager`] | to the device, when it is recorded | work under way |
//!
//! A sink has the driver's streams and calls the driver; it records nothing
//! itself. What it finds out, which node a command became, goes into
//! [`Nodes`](super::nodes::Nodes). No sink runs code of the user, except for
//! [`Planned`], which makes the calls that were put aside, at its end, when
//! nothing is borrowed.

mod attached;
mod eager;
mod emit;
mod live;
mod planned;

use std::sync::Arc;

use streamweir_alloc::Lease;
use streamweir_trace::StreamId;

pub(super) use self::attached::{Attached, tie};
pub(super) use self::eager::{Eager, hand_over};
pub(super) use self::emit::Emitter;
pub(super) use self::live::Live;
pub(super) use self::planned::Planned;
use super::nodes::Sent;
use super::recorded::Recorded;
use super::recording::What;
use crate::driver::{DriverError, DriverResult, GraphHandle, NodeHandle};
use crate::error::{Error, Result};
use crate::owned::{OwnedGraph, OwnedStream};

/// A way for commands to reach the driver.
pub(super) trait Sink {
    /// The driver's streams.
    fn emitter(&mut self) -> &mut Emitter;

    /// Begins what has to be under way before the first command.
    fn begin(&mut self, recorded: &mut Recorded) -> Result<()>;

    /// Adds the driver's stream of the captured stream that is numbered next.
    fn add_stream(&mut self, stream: Arc<OwnedStream>) {
        self.emitter().add(stream);
    }

    /// Sends a command that is about to be recorded, with its parameters.
    fn send(&mut self, what: &What, params: &mut [u8], stream: StreamId)
    -> Result<Sent, SendError>;

    /// Makes `later` continue after all that `earlier` has been sent.
    fn order(&mut self, later: StreamId, earlier: StreamId) -> DriverResult<()>;

    /// Where a stream stands, before and after a library's call.
    fn frontier(&mut self, stream: StreamId) -> DriverResult<Frontier>;

    /// Refuses to end what somebody else has broken.
    fn check_end(&mut self, _recorded: &Recorded) -> Result<()> {
        Ok(())
    }

    /// Gives buffers their addresses, unless they got them when they were taken.
    fn place(&mut self, _recorded: &mut Recorded) -> Result<()> {
        Ok(())
    }

    /// Sends what has not been sent, and ends.
    fn end(&mut self, recorded: &mut Recorded) -> Result<Made>;

    /// The lease of the memory that commands use, given that of the pools.
    fn lease(&mut self, of_pools: Lease) -> Result<Lease> {
        Ok(of_pools)
    }

    /// Ends what has not ended well. What may still run, or be replayed by
    /// somebody else, keeps what it refers to.
    fn abandon(&mut self, recorded: &mut Recorded);
}

/// Where a stream stands.
#[derive(PartialEq, Eq)]
pub(super) enum Frontier {
    /// Its next node will depend on these.
    Nodes(Vec<NodeHandle>),
    /// Its work runs, and no driver tells.
    Running,
    /// Nothing has been sent yet.
    NotSent,
}

/// What a sink has made of the commands.
pub(super) enum Made {
    /// A graph of our own.
    Graph(OwnedGraph),
    /// A part of the graph that an engine's capture is making, up to these nodes.
    Part {
        graph: GraphHandle,
        frontier: Vec<NodeHandle>,
    },
    /// Work on these streams.
    Work(Vec<Arc<OwnedStream>>),
}

/// Why a command has no node.
pub(super) enum SendError {
    Driver(DriverError),
    /// The stream's next node would depend on this number of nodes, not on one.
    Unattributed(usize),
}

impl From<DriverError> for SendError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

impl SendError {
    /// The error of a capture that was doing this, on this stream.
    pub(super) fn during(self, during: String, stream: &str) -> Error {
        match self {
            Self::Driver(source) => Error::Driver { during, source },
            Self::Unattributed(found) => Error::Unattributed {
                what: during,
                stream: stream.to_owned(),
                found,
            },
        }
    }
}

/// One of the four. An enum, so that recording calls through no table.
pub(super) enum AnySink {
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
    pub(super) fn makes_our_graph(&self) -> bool {
        matches!(self, Self::Live(_) | Self::Planned(_))
    }

    /// Whether the thread is inside a capture while this is open.
    pub(super) fn captures(&self) -> bool {
        !matches!(self, Self::Eager(_))
    }

    /// The sink that makes calls of libraries later, if this is one.
    pub(super) fn planned(&mut self) -> Option<&mut Planned> {
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

    fn add_stream(&mut self, stream: Arc<OwnedStream>) {
        each!(self, sink => sink.add_stream(stream));
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
