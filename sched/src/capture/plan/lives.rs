//! Which scratch buffers may share bytes (invariant 2): those of which every
//! access of one happens before every access of the other.
//!
//! The host's drops decide nothing here, and neither do alloc points: the whole
//! recording is known, so what counts is when the bytes are used. A buffer that
//! nothing touches is in nobody's way. A workspace is held by its library from
//! one replay to the next and shares with nobody.

use streamweir_alloc::{BlockKind, BlockRecord};
use streamweir_place::{Life, Lives};

use super::chains::Chains;
use crate::capture::recording::Recording;

/// When each block is used, on the chains of the streams.
pub(super) fn lives(chains: &Chains<'_>, recording: &Recording, blocks: &[BlockRecord]) -> Lives {
    let streams = chains.streams();
    let mut begins = vec![u32::MAX; blocks.len() * streams];
    let mut ends = vec![0; blocks.len() * streams];
    // The first and the last command that touches it, and the first one's chain.
    let mut spans: Vec<Option<(u32, u32, u32)>> = vec![None; blocks.len()];
    for access in &recording.accesses {
        let Some(block) = access.buffer.block() else {
            continue;
        };
        let row = block * streams;
        let before = chains.before(access.command);
        for (begin, &before) in begins[row..].iter_mut().zip(before) {
            *begin = (*begin).min(before);
        }
        let node = chains.node(access.command);
        let end = &mut ends[row + node.stream.index()];
        *end = (*end).max(node.index);
        let here = access.command;
        let span = spans[block].get_or_insert((here, here, node.stream.0));
        if here < span.0 {
            (span.0, span.2) = (here, node.stream.0);
        }
        span.1 = span.1.max(here);
    }
    let last = (chains.len() as u32).saturating_sub(1);
    let mut lives = Lives::new(streams);
    for (at, block) in blocks.iter().enumerate() {
        let row = at * streams..(at + 1) * streams;
        if block.kind == BlockKind::Workspace {
            begins[row.clone()].fill(0);
            ends[row.clone()].fill(u32::MAX);
            spans[at] = Some((0, last, block.stream.0));
        }
        match spans[at] {
            None => lives.push_untouched(),
            Some((first, last, chain)) => lives.push(&Life {
                begin: &begins[row.clone()],
                end: &ends[row],
                span: (first, last),
                chain: Some(chain),
            }),
        }
    }
    lives
}
