//! Which scratch buffers may share bytes (invariant 2): those of which every
//! access of one happens before every access of the other.
//!
//! The host's drops decide nothing here, and neither do alloc points: the whole
//! recording is known, so what counts is when the bytes are used. A buffer that
//! nothing touches is in nobody's way. A workspace is held by its library from
//! one replay to the next and shares with nobody.

use streamweir_alloc::{BlockKind, BlockRecord};

use super::chart::Chart;
use crate::capture::record::Recording;

/// When each block is used, by the chains of the streams.
pub(super) struct Lives {
    streams: usize,
    /// For each block and stream, how many of the stream's commands happen
    /// before every access.
    begins: Vec<u32>,
    /// For each block and stream, the last of the stream's commands that
    /// accesses it, counted from 1.
    ends: Vec<u32>,
}

impl Lives {
    pub(super) fn new(chart: &Chart<'_>, recording: &Recording, blocks: &[BlockRecord]) -> Self {
        let streams = chart.streams();
        let mut lives = Self {
            streams,
            begins: vec![u32::MAX; blocks.len() * streams],
            ends: vec![0; blocks.len() * streams],
        };
        for access in &recording.accesses {
            let Ok(block) = access.buffer.index() else {
                continue;
            };
            let row = block * streams;
            let before = chart.before(access.command);
            for (begin, &before) in lives.begins[row..].iter_mut().zip(before) {
                *begin = (*begin).min(before);
            }
            let node = chart.node(access.command);
            let end = &mut lives.ends[row + node.stream.index()];
            *end = (*end).max(node.index);
        }
        let workspaces = blocks.iter().enumerate();
        for (block, _) in workspaces.filter(|(_, block)| block.kind == BlockKind::Workspace) {
            let row = block * streams..(block + 1) * streams;
            lives.begins[row.clone()].fill(0);
            lives.ends[row].fill(u32::MAX);
        }
        lives
    }

    /// Whether two blocks may not share bytes.
    pub(super) fn conflict(&self, a: usize, b: usize) -> bool {
        !self.before(a, b) && !self.before(b, a)
    }

    /// Whether every access of `a` happens before every access of `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        let ends = &self.ends[a * self.streams..][..self.streams];
        let begins = &self.begins[b * self.streams..][..self.streams];
        ends.iter().zip(begins).all(|(end, begin)| end <= begin)
    }
}
