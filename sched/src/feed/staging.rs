//! Slots that are sent to the device.

use std::fmt;
use std::ops::Range;

use super::route::Direction;
use super::slots::Slots;
use super::step::{Feed, Step};
use crate::device::Persistent;
use crate::error::Result;
use crate::kernel::Element;

/// A ring of page-locked slots to send inputs from, one for each step that its
/// [`Feed`] keeps in flight.
///
/// The slot of a step is free when the step is open, is written by the host, and is sent
/// as often as wanted. From then on it is not to be had until the step's event has
/// passed.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error, FeedError};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let input = device.persistent::<u32>("input", 8)?;
/// # let stream = device.stream("replay")?;
/// let mut feed = device.feed("decode", 2)?;
/// let mut ids = feed.staging::<u32>("ids", 4)?;
/// let mut step = feed.step(&stream)?;
/// ids.write(&step)?.copy_from_slice(&[1, 2, 3, 4]);
/// ids.send(&mut step, &input, 2..6)?;
/// assert!(matches!(ids.write(&step), Err(Error::Feed(FeedError::SlotInFlight { .. }))));
/// step.end()?;
/// assert_eq!(input.download()?, [0, 0, 1, 2, 3, 4, 0, 0]);
/// # Ok(())
/// # }
/// ```
pub struct Staging<T> {
    slots: Slots<T>,
}

impl Feed {
    /// Slots of `len` elements to send, one for each step in flight.
    ///
    /// # Errors
    /// When page-locked memory runs out, or inside a capture.
    pub fn staging<T: Element>(&self, name: &str, len: usize) -> Result<Staging<T>> {
        self.device().outside("Feed::staging")?;
        let slots = Slots::new(self, name, len)?;
        Ok(Staging { slots })
    }
}

impl<T: Element> Staging<T> {
    /// The slot of a step, to be written. It holds what was written to it before.
    ///
    /// # Errors
    /// When it has been sent in this step, or the step is of another feed.
    pub fn write(&mut self, step: &Step<'_>) -> Result<&mut [T]> {
        self.slots.free(step.id())?;
        self.slots.mark(step.id())?;
        self.slots.free(step.id())
    }

    /// Enqueues a copy of the slot's first elements to elements `range` of `to`: after
    /// every launch in flight that touches the buffer, before every later one.
    ///
    /// # Errors
    /// When the slot was not written in this step, the range does not fit buffer and
    /// slot, buffer or step are another's, the driver refuses, or inside a capture.
    pub fn send(&self, step: &mut Step<'_>, to: &Persistent<T>, range: Range<usize>) -> Result<()> {
        let memory = self.slots.used(step.id())?;
        let span = self.slots.span(memory, to, &range)?;
        step.copy(self.slots.name(), memory, to, &span, Direction::Send)
    }
}

impl<T: Element> fmt::Debug for Staging<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging")
            .field("name", &self.slots.name())
            .field("len", &self.slots.len())
            .finish()
    }
}
