//! Planning: where the buffers of a complete recording lie, and in which order
//! its commands are sent.
//!
//! ```text
//! chains -> lives -> layout -> addresses
//!        -> schedule
//! ```
//!
//! The closure is the one of a live capture, and what comes out is read back
//! and verified by the same code. While it runs, nothing goes to the driver:
//! the pools work [without memory](unplaced), commands are recorded with symbolic
//! buffers, and a library's call is put aside ([`Stream::foreign_call`]). When
//! the recording is complete, the whole of it decides where buffers lie
//! ([`layout`]) and in which order commands are sent ([`schedule`]).
//!
//! # What is guaranteed
//! - Happens-before is the recorded one, edge for edge.
//! - The pools need no more bytes than a live capture of the same closure.
//! - Planning calls no driver; the arena's bytes are there when it returns.
//!
//! [`Stream::foreign_call`]: super::Stream::foreign_call

mod chains;
mod layout;
mod lives;
mod schedule;
pub(super) mod unplaced;

use std::sync::Arc;

use streamweir_alloc::{BlockRecord, PoolReport, Pools, View};
use streamweir_trace::{ByteRange, Reserved};

use self::chains::Chains;
use self::layout::Layout;
use self::schedule::Schedule;
pub(super) use self::schedule::Step;
use super::recording::Recording;
use super::strand::{ORIGIN, Strands};
use crate::error::{Error, Result};

/// Where the blocks of a recording lie.
pub(super) struct Placed {
    layout: Layout,
    /// The address of the layout's first byte.
    base: u64,
    /// By block.
    ranges: Arc<[ByteRange]>,
}

/// Places the blocks in bytes of `view`, and orders the commands: those that
/// `keeps_order` says keep their record order among themselves.
///
/// # Errors
/// When the blocks are too many or too large to be placed together, or the
/// arena cannot grow.
pub(super) fn plan(
    capture: &str,
    recording: &Recording,
    strands: &Strands,
    pools: &Pools,
    view: &View,
    keeps_order: impl Fn(u32) -> bool,
) -> Result<(Schedule, Placed)> {
    let chains = Chains::new(recording, strands.all().len());
    let schedule = Schedule::new(&chains, &strands.get(ORIGIN).frontier, keeps_order);
    let blocks = pools.buffers();
    let lives = lives::lives(&chains, recording, &blocks);
    let layout =
        Layout::new(&blocks, lives, pools.policy()).map_err(|error| Error::Unplannable {
            what: format!("placing {} blocks together ({error})", blocks.len()),
            capture: capture.to_owned(),
            instead: "capture it live, or in smaller parts",
        })?;
    let base = match layout.bytes {
        0 => 0,
        bytes => view.take(bytes)?.start,
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
    Ok((schedule, placed))
}

impl Placed {
    /// The addresses, by block.
    pub(super) fn ranges(&self) -> &Arc<[ByteRange]> {
        &self.ranges
    }

    /// Gives blocks their addresses.
    pub(super) fn relocate(&self, blocks: &mut [BlockRecord]) {
        for (block, &range) in blocks.iter_mut().zip(&*self.ranges) {
            block.range = range;
        }
    }

    /// The memory that the pools hold, by stream where they are isolated.
    pub(super) fn reserved(&self) -> Vec<Reserved> {
        let pools = self.layout.pools.iter();
        pools
            .map(|&(stream, bytes)| Reserved {
                stream,
                range: ByteRange::new(self.base + bytes.start, self.base + bytes.end),
            })
            .collect()
    }

    /// Corrects a report of pools that worked without memory: what a planned
    /// capture reserves is known when it has been placed.
    pub(super) fn correct(
        &self,
        report: &mut PoolReport,
        strands: &Strands,
        blocks: &[BlockRecord],
    ) {
        report.reserved = self.layout.bytes;
        for used in &mut report.streams {
            let stream = strands.named(&used.stream);
            used.reserved = stream.map_or(0, |stream| self.layout.charged_to(stream, blocks));
        }
        report
            .streams
            .sort_by_key(|used| std::cmp::Reverse((used.reserved, used.peak)));
        for held in &mut report.buffers {
            // Of the blocks that had these bytes in turn one is held still.
            let block = blocks
                .iter()
                .position(|block| block.freed_before.is_none() && block.range == held.range);
            if let Some(block) = block {
                held.range = self.ranges[block];
            }
        }
    }
}
