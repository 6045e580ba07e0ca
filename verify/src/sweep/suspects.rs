//! Pass 1: where something may be wrong.

use streamweir_trace::{AccessMode, BufferId, NodeId, Phase};

use super::bits::Bits;
use super::history::{Class, Entry, History};
use crate::accesses::Owner;
use crate::context::Context;
use crate::error::VerifyError;

/// What pass 1 leaves to be looked at.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// The cells at which something is not ordered. Whether it is within a buffer
    /// or between two is not told apart: an access that another stands for may
    /// conflict in the other way.
    pub(super) racing: Bits,
    /// The cells that change hands before their owner is done.
    pub(super) tangled: Bits,
    /// The reads of scratch that no write is known to precede, in the order of
    /// the graph.
    pub(crate) unwritten: Vec<u32>,
    /// The accesses of buffers that may not be there, in the order of the graph.
    pub(crate) unowned: Vec<u32>,
    /// How many questions about order it took.
    pub(crate) compared: u64,
}

/// The most questions about order that pass 1 asks.
const MOST_COMPARED: u64 = 1 << 32;

/// The most accesses that it remembers at one time, each once for each run of bytes
/// that it touches.
const MOST_HELD: usize = 1 << 22;

/// Pass 1.
///
/// # Errors
/// When so many accesses of the same bytes are in no order that it would take too
/// long, or too much memory.
pub(crate) fn suspects(context: &Context<'_>) -> Result<Suspects, VerifyError> {
    let accesses = &context.accesses;
    let map = &context.map;
    let mut history = History::new(map.len());
    let mut suspects = Suspects {
        racing: Bits::new(map.len()),
        tangled: Bits::new(map.len()),
        unwritten: Vec::new(),
        unowned: Vec::new(),
        compared: 0,
    };
    // A node has several accesses in a row.
    let mut here: Option<(NodeId, Phase)> = None;
    let mut clock: &[u32] = &[];
    let mut place = (0, 0);
    for id in accesses.ids() {
        let (buffer, bytes) = accesses.place(id);
        let life = accesses.life(buffer);
        let cells = map.covered(life.cells, bytes);
        let always = matches!(life.owner, Owner::Always);
        if cells.0 == cells.1 && (always || bytes.is_empty()) {
            continue;
        }
        let touch = accesses.kind(id);
        if here != Some((touch.node, touch.phase)) {
            here = Some((touch.node, touch.phase));
            clock = context.reach.clock(touch.node, touch.phase);
            place = context.reach.place(touch.node);
        }
        if !always {
            match accesses.surely_owned(life.owner, touch.node, clock) {
                Some(behind) => suspects.compared += behind,
                None => suspects.unowned.push(id),
            }
        }
        let entry = entry(place, touch.mode, buffer);
        let mut without_write = false;
        history.add(entry, touch.declared, clock, cells, |from, to, outcome| {
            suspects.compared += u64::from(outcome.compared);
            without_write |= outcome.unwritten;
            if outcome.races {
                suspects.racing.insert_all(from, to);
            }
            if let Some(tenant) = outcome.tenant {
                let before = accesses.life(BufferId(tenant));
                if before.carried || life.carried || before.last >= life.first {
                    suspects.tangled.insert_all(from, to);
                }
            }
        });
        if without_write && life.needs_write && touch.declared && touch.mode.reads() {
            suspects.unwritten.push(id);
        }
        if suspects.compared > MOST_COMPARED || history.held() > MOST_HELD {
            return Err(VerifyError::TooEntangled {
                what: "accesses in no order, of runs of bytes that they share",
                most: MOST_HELD as u64,
            });
        }
    }
    Ok(suspects)
}

fn class(mode: AccessMode) -> Class {
    match mode {
        AccessMode::Read => Class::Read,
        AccessMode::Write | AccessMode::ReadWrite => Class::Write,
        AccessMode::Atomic => Class::Atomic,
    }
}

/// What the history keeps of an access of a node at this place of its chain.
pub(super) fn entry((chain, index): (u32, u32), mode: AccessMode, buffer: BufferId) -> Entry {
    Entry {
        buffer: buffer.0,
        index,
        // The order refuses graphs of more chains than 16 bits can number.
        chain: chain as u16,
        class: class(mode),
    }
}
