//! Planned capture: record all, then place, then emit.
//!
//! ```text
//! record on paper -> lives -> layout -> addresses -> schedule -> emit under capture
//! ```
//!
//! The closure is the one of a live capture, and what comes out is read back
//! and verified by the same code. While it runs, nothing goes to the driver:
//! the pools work on [paper](paper), commands are recorded with symbolic
//! buffers, and a library's call is put aside ([`Stream::foreign_call`]). When
//! the recording is complete, the whole of it decides where buffers lie
//! ([`layout`]) and in which order commands are emitted ([`order`]).
//!
//! # What is guaranteed
//! - Happens-before is the recorded one, edge for edge.
//! - The pools need no more bytes than a live capture of the same closure.
//! - Emission allocates nothing, synchronises with nothing and reads no device
//!   memory: streams, events and the arena's bytes are there before the driver's
//!   capture begins.
//! - A failure, of whichever call, leaves all as before (invariant 8).
//!
//! [`Stream::foreign_call`]: super::Stream::foreign_call

mod chart;
mod deferred;
mod emit;
mod layout;
mod lives;
mod order;
pub(super) mod paper;

use std::sync::Arc;

use streamweir_alloc::{BlockRecord, Lease, PoolReport, View};
use streamweir_trace::{ByteRange, Reserved, StreamId};

use self::chart::Chart;
pub(super) use self::deferred::Deferred;
pub use self::deferred::{ForeignAddresses, ForeignCall};
use self::layout::Layout;
use self::order::Schedule;
use super::session::{Core, State};
use crate::error::{Error, Result};

/// What a planned capture has of the arena.
pub(super) struct Ground {
    view: View,
    /// Set when the blocks have been placed.
    placed: Option<Placed>,
}

struct Placed {
    layout: Layout,
    /// The address of the layout's first byte.
    base: u64,
    /// By block.
    ranges: Arc<[ByteRange]>,
}

impl Ground {
    pub(super) fn new(view: View) -> Self {
        Self { view, placed: None }
    }

    /// Ends the part of the capture in the arena well.
    pub(super) fn finish(&self) -> Result<Lease> {
        Ok(self.view.finish()?)
    }
}

impl Placed {
    /// Gives blocks their addresses.
    fn settle(&self, blocks: &mut [BlockRecord]) {
        for (block, &range) in blocks.iter_mut().zip(&*self.ranges) {
            block.range = range;
        }
    }

    /// The memory that the pools hold, by stream where they are isolated.
    fn reserved(&self) -> Vec<Reserved> {
        let pools = self.layout.pools.iter();
        pools
            .map(|&(stream, bytes)| Reserved {
                stream,
                range: ByteRange::new(self.base + bytes.start, self.base + bytes.end),
            })
            .collect()
    }
}

impl Core {
    /// Places everything that was recorded and emits it into a capture of the
    /// driver, which the caller ends.
    pub(super) fn place_and_emit(&self) -> Result<()> {
        let schedule = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            // Whatever a library's call does, it records nothing any more.
            state.emitting = true;
            self.place(state)
                .inspect_err(|error| state.break_with(error))?
        };
        self.emit_all(&schedule)
    }

    fn place(&self, state: &mut State) -> Result<Schedule> {
        let State {
            recording,
            strands,
            ground,
            ..
        } = state;
        let chart = Chart::new(recording, strands.len());
        let schedule = Schedule::new(&chart, &strands[0].frontier, |command| {
            recording
                .deferred
                .get(&command)
                .is_some_and(Deferred::keeps_order)
        });
        let mut blocks = self.session.pools.buffers();
        let lives = lives::lives(&chart, recording, &blocks);
        let layout =
            Layout::new(&blocks, lives, self.policy()).map_err(|error| Error::Unplannable {
                what: format!("placing {} blocks together ({error})", blocks.len()),
                capture: self.session.name.to_string(),
                instead: "capture it live, or in smaller parts",
            })?;
        let Some(ground) = ground else {
            return Ok(schedule);
        };
        let base = match layout.bytes {
            0 => 0,
            bytes => ground.view.take(bytes)?.start,
        };
        let ranges = layout.offsets.iter().zip(&blocks).map(|(offset, block)| {
            let start = base + offset;
            ByteRange::new(start, start + block.range.len())
        });
        let placed = Placed {
            ranges: ranges.collect(),
            layout,
            base,
        };
        placed.settle(&mut blocks);
        recording.relocate(&placed.ranges);
        self.session.placed(placed.ranges.clone());
        ground.placed = Some(placed);
        Ok(schedule)
    }

    /// The blocks of the capture, where they lie.
    pub(super) fn blocks(&self) -> Vec<BlockRecord> {
        let mut blocks = self.session.pools.buffers();
        if let Some(placed) = self.state.borrow().placed() {
            placed.settle(&mut blocks);
        }
        blocks
    }

    /// The memory that a planned capture's pools hold.
    pub(super) fn reserved(&self) -> Vec<Reserved> {
        let state = self.state.borrow();
        state.placed().map(Placed::reserved).unwrap_or_default()
    }

    /// The use of the pools: what a planned capture reserves is known when it
    /// has been placed, and is what a live one would reserve before that.
    pub(super) fn pool_report(&self) -> PoolReport {
        let mut report = self.session.pools.report();
        let state = self.state.borrow();
        let Some(placed) = state.placed() else {
            return report;
        };
        let blocks = self.session.pools.buffers();
        report.reserved = placed.layout.bytes;
        for lane in &mut report.streams {
            let stream = state.strands.iter().position(|s| *s.name == *lane.stream);
            lane.reserved = stream.map_or(0, |stream| {
                placed.layout.charged_to(StreamId::at(stream), &blocks)
            });
        }
        report
            .streams
            .sort_by_key(|lane| std::cmp::Reverse((lane.reserved, lane.peak)));
        for held in &mut report.buffers {
            // Of the blocks that had these bytes on paper one is held still.
            let block = blocks
                .iter()
                .position(|block| block.freed_before.is_none() && block.range == held.range);
            if let Some(block) = block {
                held.range = placed.ranges[block];
            }
        }
        report
    }
}

impl State {
    fn placed(&self) -> Option<&Placed> {
        self.ground.as_ref()?.placed.as_ref()
    }
}
