//! Slots that are received from the device.

use std::fmt;
use std::ops::Range;

use super::route::Direction;
use super::slots::Slots;
use super::step::{Feed, Step, StepId};
use crate::device::Persistent;
use crate::error::Result;
use crate::kernel::Element;

/// A ring of page-locked slots to receive results in, one for each step that its
/// [`Feed`] keeps in flight. Results of a step may be read while later steps run.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let output = device.persistent_from("output", &[5_u32, 6, 7, 8])?;
/// # let stream = device.stream("replay")?;
/// let mut feed = device.feed("decode", 2)?;
/// let mut tokens = feed.readback::<u32>("tokens", 4)?;
/// let mut step = feed.step(&stream)?;
/// tokens.receive(&mut step, &output, 1..3)?;
/// let done = step.end()?;
/// assert_eq!(tokens.read(&mut feed, done)?[..2], [6, 7]);
/// # Ok(())
/// # }
/// ```
pub struct Readback<T> {
    slots: Slots<T>,
}

impl Feed {
    /// Slots of `len` elements to receive, one for each step in flight.
    ///
    /// # Errors
    /// As [`staging`](Self::staging).
    pub fn readback<T: Element>(&self, name: &str, len: usize) -> Result<Readback<T>> {
        self.device().outside("Feed::readback")?;
        let slots = Slots::new(self, name, len)?;
        Ok(Readback { slots })
    }
}

impl<T: Element> Readback<T> {
    /// Enqueues a copy of elements `range` of `from` to the start of the step's slot:
    /// after every launch in flight that writes the buffer, before every later one.
    ///
    /// # Errors
    /// When the slot has been received in this step, the range does not fit buffer and
    /// slot, buffer or step are another's, the driver refuses, or inside a capture.
    pub fn receive(
        &mut self,
        step: &mut Step<'_>,
        from: &Persistent<T>,
        range: Range<usize>,
    ) -> Result<()> {
        self.slots.free(step.id())?;
        let memory = self.slots.memory(step.id())?;
        let span = self.slots.span(memory, from, &range)?;
        step.copy(self.slots.name(), memory, from, &span, Direction::Receive)?;
        self.slots.mark(step.id())
    }

    /// What was received in step `done`, at the start of the slot. Waits for the step's
    /// event.
    ///
    /// # Errors
    /// When nothing was received in that step or its slot belongs to a later one, the
    /// step is of another feed, its work failed, or inside a capture.
    pub fn read(&mut self, feed: &mut Feed, done: StepId) -> Result<&[T]> {
        // Asked first: the place of the step may be a later step's.
        self.slots.used(done)?;
        feed.finish(done)?;
        self.slots.free(done).map(|values| &*values)
    }
}

impl<T: Element> fmt::Debug for Readback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readback")
            .field("name", &self.slots.name())
            .field("len", &self.slots.len())
            .finish()
    }
}
