//! A library's call in progress.
//!
//! The library's code may do anything with the handles of its capture: drop
//! scratch, record on this stream and on others, fork, even drop the capture. So
//! nothing is borrowed while it runs, and what the call touches is entered
//! before it begins: whatever ends the capture meanwhile finds it there. What is
//! recorded on the call's own stream from within divides the call: its nodes before
//! and after are entered as two commands of its name.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use streamweir_hal::driver::StreamHandle;
use streamweir_hal::owned::OwnedStream;

use super::Stream;
use crate::capture::buffer::Touch;
use crate::capture::lane::Lane;
use crate::capture::nodes::Sent;
use crate::capture::open::{CallInProgress, Open};
use crate::capture::recorder::Recorder;
use crate::capture::recording::{CallSaid, What};
use crate::capture::sink::{Frontier, Sink};
use crate::error::Result;

/// What is said of a call before it is made.
pub(super) struct Declared<'a, 'b, L> {
    pub(super) name: &'a str,
    pub(super) touches: &'a [Touch<'b, L>],
    pub(super) keep: &'a [Arc<dyn Any + Send + Sync>],
    pub(super) said: CallSaid,
    pub(super) line: &'static Location<'static>,
}

/// A call that has begun. Dropped before it [ended](Self::end), it has failed.
pub(super) struct InCall<'a> {
    recorder: &'a Recorder,
    /// Stays alive whatever becomes of the capture.
    stream: Arc<OwnedStream>,
    /// The addresses of what is touched.
    pub(super) addresses: Vec<u64>,
    /// Its place among the calls in progress.
    depth: usize,
    over: bool,
}

impl<L: Lane> Stream<L> {
    /// Begins a call; none where calls are made later.
    pub(super) fn begin_call(&self, call: &Declared<'_, '_, L>) -> Result<Option<InCall<'_>>> {
        let name = call.name;
        let mut open = self.enter()?;
        open.interrupt(self.id)?;
        let before = open.drive(
            || format!("looking where foreign call \"{name}\" begins"),
            |sink| sink.frontier(self.id),
        )?;
        if before == Frontier::NotSent {
            return Ok(None);
        }
        let mut draft = self.recorder.draft();
        for touch in call.touches {
            open.recorded.touch(&mut draft, &touch.place, touch.mode)?;
        }
        let addresses = call.touches.iter().map(|touch| touch.place.address());
        let addresses = addresses.collect::<Result<_>>()?;
        // What is kept alive for the call may be touched, too.
        let all = !call.keep.is_empty() || !call.said.keeps.is_empty();
        open.before_call(name, self.id, &draft, all)?;
        open.recorded.asked.extend_from_slice(call.keep);
        open.calls.push(CallInProgress {
            spot: self.spot(call.line),
            name: name.to_owned(),
            said: call.said.clone(),
            draft,
            before,
        });
        Ok(Some(InCall {
            recorder: &self.recorder,
            stream: open.sink.emitter().stream(self.id).clone(),
            addresses,
            depth: open.calls.len() - 1,
            over: false,
        }))
    }
}

impl InCall<'_> {
    /// The driver's stream.
    pub(super) fn stream(&self) -> StreamHandle {
        self.stream.handle()
    }

    /// The call has returned well: what it enqueued is its own.
    pub(super) fn end(mut self) -> Result<()> {
        let recorder = self.recorder;
        let ended = || "a foreign call".to_owned();
        let mut open = recorder.unended(ended)?;
        if open.calls.len() <= self.depth {
            return Err(recorder.ended(ended()));
        }
        let after = open.stands(self.depth)?;
        let Some(call) = take_call(&mut open, self.depth) else {
            return Err(recorder.ended(ended()));
        };
        self.over = true;
        let CallInProgress {
            spot,
            name,
            said,
            mut draft,
            before,
        } = call;
        let sent = match after {
            Frontier::Running => Sent::Unseen,
            after => match Frontier::between(before, after) {
                Some(sent) => sent,
                // It has enqueued nothing.
                None => return Ok(()),
            },
        };
        let what = What::Foreign { name, said };
        open.performed(spot, what, &mut draft, sent)?;
        open.resume(spot.stream)
    }

    /// The call has failed, and nobody knows what it has enqueued.
    pub(super) fn fail(self) {}

    fn leave(&self, how: &str) {
        // A capture that has ended meanwhile has entered the call itself.
        let Ok(mut open) = self.recorder.unended(String::new) else {
            return;
        };
        if let Some(call) = take_call(&mut open, self.depth) {
            open.break_with(|| format!("foreign call \"{}\" {how}", call.name));
            open.may_have_begun(call);
        }
    }
}

impl Drop for InCall<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        match std::thread::panicking() {
            false => self.leave("failed"),
            true => self.leave("panicked"),
        }
    }
}

/// Takes a call from those in progress; calls made within it have returned.
fn take_call(open: &mut Open, depth: usize) -> Option<CallInProgress> {
    open.calls.truncate(depth + 1);
    open.calls.pop()
}
