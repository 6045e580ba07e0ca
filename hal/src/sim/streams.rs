//! Streams and events: what goes to the executor, and what into a capture.

use super::clock::Clock;
use super::device::{Device, LEGACY};
use super::objects::Event;
use super::schedule::TaskId;
use super::work::Work;
use crate::driver::{DriverResult, ErrorClass, EventHandle, StreamHandle};

impl Device {
    pub(super) fn stream_destroy(&mut self, handle: StreamHandle) -> DriverResult<()> {
        if handle == LEGACY {
            return Err(self.unknown(handle));
        }
        self.stream(handle)?;
        self.leave_capture(handle);
        self.streams.remove(&handle);
        Ok(())
    }

    pub(super) fn stream_tail(&mut self, handle: StreamHandle) -> DriverResult<Vec<TaskId>> {
        self.not_capturing(handle)?;
        Ok(self.stream(handle)?.tail.clone())
    }

    pub(super) fn event_tail(&mut self, handle: EventHandle) -> DriverResult<Vec<TaskId>> {
        let tail = match self.event(handle)? {
            Event::Unrecorded => Vec::new(),
            Event::Recorded { tail, .. } => tail.clone(),
            &Event::Captured { capture, .. } => return Err(self.captured_event(handle, capture)),
        };
        self.potentially_unsafe()?;
        Ok(tail)
    }

    /// Puts work behind a stream, or into the graph that the stream captures.
    pub(super) fn submit(&mut self, stream: StreamHandle, work: Work) -> DriverResult<()> {
        if self.capture_of(stream)?.is_some() {
            return self.record(stream, work);
        }
        let tail = self.stream(stream)?.tail.clone();
        let task = self.executor.enqueue(work, tail, None);
        self.set_tail(stream, vec![task]);
        Ok(())
    }

    pub(super) fn set_tail(&mut self, stream: StreamHandle, tail: Vec<TaskId>) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.tail = tail;
        }
    }

    /// Records an event behind a stream's enqueued work.
    pub(super) fn record_event(
        &mut self,
        event: EventHandle,
        stream: StreamHandle,
    ) -> DriverResult<()> {
        let state = match self.capture_of(stream)? {
            Some(capture) => Event::Captured {
                capture,
                frontier: self.frontier(stream)?.to_vec(),
            },
            None => self.recorded(self.stream(stream)?.tail.clone()),
        };
        self.events.insert(event, state);
        Ok(())
    }

    /// What an event holds that is recorded behind `tail` now.
    pub(super) fn recorded(&self, tail: Vec<TaskId>) -> Event {
        let at = self.executor.clock.as_ref().map_or(0, Clock::now);
        Event::Recorded { tail, at }
    }

    /// Milliseconds between two events, a thousandth for each slice.
    pub(super) fn elapsed(&self, start: EventHandle, end: EventHandle) -> DriverResult<f32> {
        let time = |handle| {
            let event = self.event(handle)?;
            let Some(clock) = &self.executor.clock else {
                return Err(self
                    .fail(ErrorClass::NotSupported)
                    .with("the simulated device has no clock"));
            };
            let Event::Recorded { tail, at } = event else {
                return Err(self.unknown(handle));
            };
            if tail.iter().any(|&task| self.executor.pending(task)) {
                return Err(self.fail(ErrorClass::NotReady));
            }
            Ok(clock.ended(tail).max(*at))
        };
        let (start, end) = (time(start)?, time(end)?);
        Ok((end as f32 - start as f32) / 1000.0)
    }

    /// Makes a stream's next work wait for what an event recorded.
    pub(super) fn wait_event(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> DriverResult<()> {
        let state = self.event(event)?.clone();
        let capture = self.capture_of(stream)?;
        match (state, capture) {
            (Event::Captured { capture, frontier }, _) => {
                self.wait_captured(stream, event, capture, &frontier)
            }
            (Event::Recorded { tail, .. }, None) => {
                let executor = &self.executor;
                if let Some(stream) = self.streams.get_mut(&stream) {
                    stream.tail.extend(tail);
                    stream.tail.sort_unstable();
                    stream.tail.dedup();
                    stream.tail.retain(|&task| executor.pending(task));
                }
                Ok(())
            }
            (Event::Unrecorded, _) => Ok(()),
            (Event::Recorded { .. }, Some(capture)) => {
                self.invalidate(capture);
                Err(self.fail(ErrorClass::CaptureIsolation).with(format!(
                    "{stream:?} is capturing and would wait for {event:?}, which was not \
                     recorded in the capture"
                )))
            }
        }
    }
}
