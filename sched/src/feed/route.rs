//! Whose turns a copy to or from a buffer takes.

use std::sync::{Arc, Weak};

use streamweir_trace::RangeSet;

use crate::device::{DeviceInner, PersistentInner};
use crate::turns::{Footprint, Launch, Turn, TurnGroup, in_turn};
use streamweir_hal::driver::DriverResult;
use streamweir_hal::owned::OwnedStream;

/// Which way a copy goes, as seen from the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the device: the buffer is written.
    Send,
    /// From the device: the buffer is read.
    Receive,
}

/// The buffers that a feed has copied to or from.
///
/// Each is entered once, as a graph is that does nothing but this copy, and with the
/// whole buffer, so that a step costs no search for conflicts.
#[derive(Default)]
pub(super) struct Routes {
    all: Vec<Route>,
}

/// Held as long as the copies may be in flight: graphs that are captured meanwhile ask
/// the group for conflicts.
struct Route {
    buffer: Weak<PersistentInner>,
    direction: Direction,
    _home: Arc<TurnGroup>,
    _footprint: Arc<Footprint>,
    turns: Vec<Arc<Turn<Arc<Launch>>>>,
}

impl Routes {
    /// Enqueues a copy on `stream` in turn: after every launch in flight that touches
    /// the buffer, and before every later one.
    pub(super) fn enqueue(
        &mut self,
        device: &DeviceInner,
        buffer: &Arc<PersistentInner>,
        direction: Direction,
        stream: &Arc<OwnedStream>,
        copy: impl FnOnce() -> DriverResult<()>,
    ) -> DriverResult<()> {
        let reclaim = &device.reclaim;
        let mut fenced = Ok(());
        in_turn(
            self.turns(device, buffer, direction),
            |last| last.before(reclaim, stream),
            || {
                copy()?;
                let launch = Launch::new(stream);
                // It runs now, so it is the latest whatever comes next.
                fenced = launch.record_where_due(reclaim);
                Ok(launch)
            },
        )?;
        fenced
    }

    fn turns(
        &mut self,
        device: &DeviceInner,
        buffer: &Arc<PersistentInner>,
        direction: Direction,
    ) -> &[Arc<Turn<Arc<Launch>>>] {
        let known = self.all.iter().position(|route| {
            route.direction == direction && std::ptr::eq(route.buffer.as_ptr(), Arc::as_ptr(buffer))
        });
        let at = known.unwrap_or_else(|| {
            // A buffer with copies in flight is held, so none of these has any.
            self.all.retain(|route| route.buffer.strong_count() > 0);
            self.all.push(Route::new(device, buffer, direction));
            self.all.len() - 1
        });
        &self.all[at].turns
    }
}

impl Route {
    fn new(device: &DeviceInner, buffer: &Arc<PersistentInner>, direction: Direction) -> Self {
        let bytes: RangeSet = [buffer.range].into_iter().collect();
        let footprint = Arc::new(match direction {
            Direction::Send => Footprint {
                reads: RangeSet::new(),
                writes: bytes,
            },
            Direction::Receive => Footprint {
                reads: bytes,
                writes: RangeSet::new(),
            },
        });
        let home = TurnGroup::new(device.next_number());
        let turns = device.groups.enroll(&home, &footprint);
        Self {
            buffer: Arc::downgrade(buffer),
            direction,
            _home: home,
            _footprint: footprint,
            turns,
        }
    }
}
