//! What every sink can do.

use std::sync::Arc;

use streamweir_alloc::Lease;
use streamweir_hal::driver::{DriverResult, GraphHandle, NodeHandle};
use streamweir_hal::owned::OwnedGraph;
use streamweir_trace::StreamId;

use super::emit::{Emitter, SendError};
use crate::capture::nodes::Sent;
use crate::capture::recorded::Recorded;
use crate::capture::recording::What;
use crate::device::DeviceInner;
use crate::error::Result;

/// A way for commands to reach the driver.
pub(in crate::capture) trait Sink {
    /// The driver's streams.
    fn emitter(&mut self) -> &mut Emitter;

    /// Begins what has to be under way before the first command.
    fn begin(&mut self, recorded: &mut Recorded) -> Result<()>;

    /// Adds the driver's stream, of this priority, of the captured stream that is
    /// numbered next.
    fn add_stream(&mut self, device: &DeviceInner, priority: i32) -> Result<()> {
        let stream = device.take_stream(priority)?;
        self.emitter().add(Arc::new(stream));
        Ok(())
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
#[derive(Clone, PartialEq, Eq)]
pub(in crate::capture) enum Frontier {
    /// Its next node will depend on these.
    Nodes(Vec<NodeHandle>),
    /// Its work runs, and no driver tells.
    Running,
    /// Nothing has been sent yet.
    NotSent,
}

impl Frontier {
    /// What took a stream from one place to another; none where nothing did.
    pub(in crate::capture) fn between(before: Self, after: Self) -> Option<Sent> {
        match (before, after) {
            (Self::Nodes(before), Self::Nodes(after)) => {
                (before != after).then_some(Sent::Call { before, after })
            }
            _ => None,
        }
    }
}

/// What a sink has made of the commands.
pub(in crate::capture) enum Made {
    /// A graph of our own.
    Graph(OwnedGraph),
    /// A part of the graph that an engine's capture is making, up to these nodes.
    Part {
        graph: GraphHandle,
        frontier: Vec<NodeHandle>,
    },
    /// Work that runs.
    Work,
}
