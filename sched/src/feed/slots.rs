//! A ring of page-locked slots, one for each step that a feed keeps in flight.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::step::{Feed, Span, StepId};
use crate::device::{Persistent, bytes_of};
use crate::error::{During, Error, FeedError, Name, Result};
use crate::kernel::Element;
use streamweir_hal::owned::HostMemory;

pub(super) struct Slots<T> {
    ring: Vec<Slot>,
    feed: u64,
    feed_name: Name,
    name: Name,
    len: usize,
    element: PhantomData<fn() -> T>,
}

struct Slot {
    /// Held by the feed, too, while a copy may use it.
    memory: Arc<HostMemory>,
    /// The latest step that it was used in.
    step: Option<u64>,
}

impl<T: Element> Slots<T> {
    pub(super) fn new(feed: &Feed, name: &str, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>(name, len)? as usize;
        let slot = || {
            let memory = HostMemory::zeroed(&feed.device().reclaim, bytes.max(1))
                .during(|| format!("allocating {bytes} page-locked bytes for \"{name}\""))?;
            Ok(Slot {
                memory: Arc::new(memory),
                step: None,
            })
        };
        Ok(Self {
            ring: (0..feed.depth()).map(|_| slot()).collect::<Result<_>>()?,
            feed: feed.number(),
            feed_name: feed.name().into(),
            name: name.into(),
            len,
            element: PhantomData,
        })
    }

    /// The elements of the slot of a step, which no copy is using.
    pub(super) fn free(&mut self, step: StepId) -> Result<&mut [T]> {
        let (at, bytes) = (self.place(step)?, self.len * size_of::<T>());
        // Nobody else holds it when no copy can be using it.
        let Some(memory) = Arc::get_mut(&mut self.ring[at].memory) else {
            return Err(Error::Feed(FeedError::SlotInFlight {
                buffer: self.name.to_string(),
                feed: self.feed_name.to_string(),
                step: step.number,
            }));
        };
        Ok(bytemuck::cast_slice_mut(&mut memory.bytes_mut()[..bytes]))
    }

    /// Makes the slot that step's.
    pub(super) fn mark(&mut self, step: StepId) -> Result<()> {
        let at = self.place(step)?;
        self.ring[at].step = Some(step.number);
        Ok(())
    }

    /// The memory of the slot of a step, used or not.
    pub(super) fn memory(&self, step: StepId) -> Result<&Arc<HostMemory>> {
        Ok(&self.ring[self.place(step)?].memory)
    }

    /// The memory of the slot that has been used in a step.
    pub(super) fn used(&self, step: StepId) -> Result<&Arc<HostMemory>> {
        let slot = &self.ring[self.place(step)?];
        if slot.step == Some(step.number) {
            return Ok(&slot.memory);
        }
        Err(Error::Feed(FeedError::SlotUnused {
            buffer: self.name.to_string(),
            feed: self.feed_name.to_string(),
            step: step.number,
        }))
    }

    /// Where the slot's first elements and elements `range` of `buffer` lie.
    pub(super) fn span(
        &self,
        memory: &HostMemory,
        buffer: &Persistent<T>,
        range: &Range<usize>,
    ) -> Result<Span> {
        if range.start > range.end || range.end > buffer.len() {
            return Err(Error::Length {
                buffer: buffer.name().to_owned(),
                has: buffer.len(),
                what: format!("\"{}\" was to be copied with {range:?} of it", self.name),
            });
        }
        if range.len() > self.len {
            return Err(Error::Length {
                buffer: self.name.to_string(),
                has: self.len,
                what: format!("{range:?} of \"{}\" needs more", buffer.name()),
            });
        }
        let size = size_of::<T>() as u64;
        Ok(Span {
            host: memory.address(),
            device: buffer.range().start + range.start as u64 * size,
            bytes: range.len() as u64 * size,
        })
    }

    fn place(&self, step: StepId) -> Result<usize> {
        if step.feed != self.feed {
            return Err(Error::Feed(FeedError::OtherFeed {
                buffer: self.name.to_string(),
                feed: self.feed_name.to_string(),
            }));
        }
        Ok((step.number % self.ring.len() as u64) as usize)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
