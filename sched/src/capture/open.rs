//! An open capture: how a command goes through the rewrites to the sink and into
//! the recording.
//!
//! No code of the user runs in any step here.

use std::sync::Arc;

use streamweir_hal::driver::DriverResult;
use streamweir_trace::StreamId;

use super::nodes::Sent;
use super::recorded::Recorded;
use super::recording::{CallSaid, Draft, Spot, What};
use super::rewrite::{Added, Rewrites, Taken};
use super::sink::{AnySink, Eager, Frontier, Likeness, Proved, Sink};
use crate::error::{During, Error, Result};

/// A capture that has not ended.
pub(super) struct Open {
    pub(super) recorded: Recorded,
    pub(super) sink: AnySink,
    rewrites: Option<Box<Rewrites>>,
    /// The first failure.
    broken: Option<String>,
    /// Foreign calls that have not returned.
    pub(super) calls: Vec<CallInProgress>,
}

/// A foreign call that has begun: what it touches may have been touched.
pub(super) struct CallInProgress {
    pub(super) spot: Spot,
    pub(super) name: String,
    pub(super) said: CallSaid,
    pub(super) draft: Box<Draft>,
    /// Where its stream stood when it began, or when a command was last recorded
    /// there from within it.
    pub(super) before: Frontier,
}

impl Open {
    pub(super) fn new(recorded: Recorded, sink: AnySink, rewrites: Option<Box<Rewrites>>) -> Self {
        Self {
            recorded,
            sink,
            rewrites,
            broken: None,
            calls: Vec::new(),
        }
    }

    pub(super) fn check_broken(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(first) => Err(Error::Broken {
                capture: self.recorded.name().to_string(),
                first: first.clone(),
            }),
        }
    }

    /// Notes the first failure.
    pub(super) fn break_with(&mut self, first: impl FnOnce() -> String) {
        self.broken.get_or_insert_with(first);
    }

    fn broken_by(&mut self, error: Error) -> Error {
        self.break_with(|| error.to_string());
        error
    }

    /// Makes a driver call whose failure breaks the capture.
    pub(super) fn drive<T>(
        &mut self,
        during: impl FnOnce() -> String,
        call: impl FnOnce(&mut AnySink) -> DriverResult<T>,
    ) -> Result<T> {
        let called = call(&mut self.sink).during(during);
        called.map_err(|error| self.broken_by(error))
    }

    /// Sends a command to the sink, records it, and adds what the rewrites put
    /// behind it.
    pub(super) fn perform(&mut self, spot: Spot, what: What, draft: &mut Draft) -> Result<()> {
        let command = self.send(spot, what, draft)?;
        self.rewrite(command)
    }

    /// The same for a command that somebody else has sent.
    pub(super) fn performed(
        &mut self,
        spot: Spot,
        what: What,
        draft: &mut Draft,
        sent: Sent,
    ) -> Result<u32> {
        let command = self.push(spot, what, draft, sent)?;
        self.rewrite(command)?;
        Ok(command)
    }

    #[inline]
    fn send(&mut self, spot: Spot, what: What, draft: &mut Draft) -> Result<u32> {
        if !self.calls.is_empty() {
            self.interrupt(spot.stream)?;
        }
        let sent = self.send_now(spot, what, draft)?;
        if !self.calls.is_empty() {
            self.resume(spot.stream)?;
        }
        Ok(sent)
    }

    #[inline]
    fn send_now(&mut self, spot: Spot, what: What, draft: &mut Draft) -> Result<u32> {
        let ready = match self.sink.eager() {
            None => Ok(()),
            Some(eager) => {
                let persistents = &self.recorded.recording.persistents;
                eager.before(persistents, draft, spot.stream, what.is_open_ended(draft))
            }
        };
        let sent = match ready {
            Ok(()) => self.sink.send(&what, &mut draft.params, spot.stream),
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(sent) => self.push(spot, what, draft, sent),
            Err(error) => {
                let during = self.recorded.doing(&what, spot);
                let error = error.during(during, &self.recorded.strands.get(spot.stream).name);
                Err(self.broken_by(error))
            }
        }
    }

    fn push(&mut self, spot: Spot, what: What, draft: &mut Draft, sent: Sent) -> Result<u32> {
        let pushed = self.recorded.push(spot, what, draft, sent);
        pushed.map_err(|error| self.broken_by(error.into()))
    }

    /// Adds what the rewrites put behind a command. That is not rewritten again.
    fn rewrite(&mut self, command: u32) -> Result<()> {
        let Some(rewrites) = &mut self.rewrites else {
            return Ok(());
        };
        // A call that failed has been entered for what it may have begun.
        if self.broken.is_some() {
            return Ok(());
        }
        let Recorded {
            recording,
            strands,
            pools,
            ..
        } = &mut self.recorded;
        let added = rewrites.behind(command, recording, strands, pools);
        for added in added.map_err(|error| self.broken_by(error))? {
            self.add(added)?;
        }
        Ok(())
    }

    fn add(&mut self, added: Added) -> Result<()> {
        let Added {
            spot,
            what,
            mut draft,
        } = added;
        self.send(spot, what, &mut draft).map(drop)
    }

    /// Notes a block that has just been taken, and adds the fill that it gets.
    pub(super) fn taken(&mut self, taken: Taken) -> Result<()> {
        let Recorded {
            recording, strands, ..
        } = &mut self.recorded;
        recording.add_alloc(&strands.get(taken.spot.stream).frontier);
        let added = self.rewrites.as_mut().and_then(|r| r.taken(taken));
        added.map_or(Ok(()), |added| self.add(added))
    }

    /// Fills what the host has dropped since the last call, and frees it.
    pub(super) fn fill_dropped(&mut self) -> Result<()> {
        if self.rewrites.is_none() {
            return Ok(());
        }
        let mut filled = Ok(());
        for block in self.recorded.pools.take_dropped() {
            let added = self.rewrites.as_ref().and_then(|r| r.dropped(block));
            if let (Ok(()), Some(added)) = (&filled, added) {
                filled = self.add(added);
            }
            self.recorded.pools.pools.free(block.id)?;
        }
        filled
    }

    /// Makes stream `later` continue after all that `earlier` has recorded.
    pub(super) fn order(
        &mut self,
        later: StreamId,
        earlier: StreamId,
        verb: &str,
        named: StreamId,
    ) -> Result<()> {
        let name = self.recorded.strands.get(named).name.clone();
        let capture = self.recorded.name().clone();
        self.interrupt(earlier)?;
        self.interrupt(later)?;
        self.drive(
            || format!("{verb} stream \"{name}\" in capture \"{capture}\""),
            |sink| sink.order(later, earlier),
        )?;
        self.recorded.strands.order(later, earlier);
        self.resume(later)
    }

    /// Enters what a call in progress on this stream has enqueued so far, before
    /// something else is recorded there from within it.
    pub(super) fn interrupt(&mut self, stream: StreamId) -> Result<()> {
        let Some(at) = self.call_on(stream) else {
            return Ok(());
        };
        let now = self.stands(at)?;
        let call = &mut self.calls[at];
        let before = std::mem::replace(&mut call.before, now.clone());
        let Some(sent) = Frontier::between(before, now) else {
            return Ok(());
        };
        let what = What::Foreign {
            name: call.name.clone(),
            said: call.said.clone(),
        };
        let (spot, mut draft) = (call.spot, call.draft.clone());
        self.push(spot, what, &mut draft, sent).map(drop)
    }

    /// Orders a stream for a call that is about to be made on it; after all that may
    /// conflict, where what it touches is not known.
    pub(super) fn before_call(
        &mut self,
        name: &str,
        stream: StreamId,
        draft: &Draft,
        all: bool,
    ) -> Result<()> {
        let Some(eager) = self.sink.eager() else {
            return Ok(());
        };
        let ready = eager.before(&self.recorded.recording.persistents, draft, stream, all);
        ready
            .during(|| format!("ordering foreign call \"{name}\""))
            .map_err(|error| self.broken_by(error))
    }

    /// The call goes on behind what has been recorded.
    pub(super) fn resume(&mut self, stream: StreamId) -> Result<()> {
        if let Some(at) = self.call_on(stream) {
            self.calls[at].before = self.stands(at)?;
        }
        Ok(())
    }

    /// The innermost call in progress on a stream.
    fn call_on(&self, stream: StreamId) -> Option<usize> {
        let on = |call: &CallInProgress| call.spot.stream == stream;
        self.calls.iter().rposition(on)
    }

    /// Where the stream of a call stands now.
    pub(super) fn stands(&mut self, call: usize) -> Result<Frontier> {
        let call = &self.calls[call];
        let (stream, name) = (call.spot.stream, call.name.clone());
        self.drive(
            || format!("looking how far foreign call \"{name}\" has come"),
            |sink| sink.frontier(stream),
        )
    }

    /// The proof of the last eager run of this name, when this one is that one once more.
    pub(super) fn proof_of_like(&mut self) -> Option<Arc<Proved>> {
        let home = self.sink.eager()?.home()?;
        home.proof_of(&self.recorded)
    }

    /// Remembers the proof of an eager run for runs like it, from which its recording is
    /// taken.
    pub(super) fn remember(&mut self, proved: &Arc<Proved>, is_new: bool) {
        let Some(home) = self.sink.eager().and_then(Eager::home).filter(|_| is_new) else {
            return;
        };
        let name = self.recorded.name().clone();
        let like = Likeness::of(&mut self.recorded);
        home.remember(&name, like, proved);
    }

    /// Refuses to end while a stream is out.
    pub(super) fn check_joined(&self) -> Result<()> {
        let Some((id, strand)) = self.recorded.strands.unjoined() else {
            return Ok(());
        };
        let commands = self.recorded.recording.commands.iter();
        let last = commands.rev().find(|command| command.spot.stream == id);
        let last = match last.map(|command| (&command.what, command.spot.line)) {
            None => "none".to_owned(),
            Some((what, line)) => format!("`{}` at {line}", what.title()),
        };
        Err(Error::Unjoined {
            capture: self.recorded.name().to_string(),
            stream: strand.name.to_string(),
            last,
        })
    }

    /// Enters a call that did not return well: part of its work may be under way,
    /// or in an engine's capture, so what it touches stays and others take turns
    /// with it.
    pub(super) fn may_have_begun(&mut self, call: CallInProgress) {
        let CallInProgress {
            spot,
            name,
            mut draft,
            ..
        } = call;
        let what = What::Foreign {
            name,
            said: CallSaid::default(),
        };
        // The capture is broken; a second failure says nothing new.
        let _ = self.push(spot, what, &mut draft, Sent::Unseen);
    }
}
