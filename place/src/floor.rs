//! The least bytes that any layout needs.
//!
//! Of two buffers that share bytes one is entirely before the other, so buffers
//! of which no two are ordered so must lie beside each other. The heaviest such
//! set, an antichain of the order, is a floor. On one axis it is the most that is
//! alive at one moment.
//!
//! Otherwise: by the weighted form of Dilworth's theorem its weight is the
//! greatest number of bytes that cannot be handed on, which is all bytes less the
//! greatest flow of bytes from buffers that are over to buffers that begin after
//! that. The pairs of the order are never written down: a buffer hands its bytes
//! to the first life of each chain that it is before, and a chain carries them
//! on, for what begins later on it is after the buffer, too.
//!
//! Above [`EXACT_BUFFERS`] the floor is a bound: the most that is in use at one
//! moment of one order that agrees with all axes.

use std::fmt;

use crate::lives::Lives;
use crate::section::Sections;
use streamweir_trace::Flow;

/// The most buffers for which the floor of several axes is exact.
pub const EXACT_BUFFERS: usize = 10_000;

/// A floor, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The bytes.
    pub bytes: u64,
    /// What it rests on.
    pub kind: FloorKind,
}

/// What a floor rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloorKind {
    /// The most that is alive at one moment of the only axis; no set weighs
    /// more.
    MaximumLoad,
    /// The heaviest set of buffers of which no two are ordered.
    Antichain,
    /// The most in use at one moment of one order; a heavier set may exist.
    LinearExtension,
}

impl FloorKind {
    /// The words that tables print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::MaximumLoad => "maximum load",
            Self::Antichain => "maximum antichain",
            Self::LinearExtension => "linear extension bound",
        }
    }
}

impl fmt::Display for FloorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The floor of buffers that need so many bytes each, alignment included. Their
/// sum has to fit 63 bits.
///
/// # Panics
/// When there is not one number for each life.
pub fn floor(lives: &Lives, bytes: &[u64]) -> Floor {
    assert_eq!(lives.len(), bytes.len(), "one size for each life");
    let load = || {
        Sections::new(lives)
            .totals(bytes)
            .into_iter()
            .max()
            .unwrap_or(0)
    };
    let (bytes, kind) = if lives.has_one_axis() {
        (load(), FloorKind::MaximumLoad)
    } else if lives.len() <= EXACT_BUFFERS {
        (antichain(lives, bytes), FloorKind::Antichain)
    } else {
        (load(), FloorKind::LinearExtension)
    };
    Floor { bytes, kind }
}

/// The weight of the heaviest set of which no two are ordered.
fn antichain(lives: &Lives, bytes: &[u64]) -> u64 {
    let count = lives.len();
    let touched = |at: usize| lives.span(at).is_some();
    // Nodes: the source, the sink, each buffer as it ends, each as it begins.
    let (source, sink, ends, begins) = (0, 1, 2, 2 + count);
    let mut flow = Flow::new(2 + 2 * count);
    let chains = lives.chains();
    let mut total = 0;
    let mut order: Vec<usize> = (0..count).filter(|&at| touched(at)).collect();
    order.sort_by_key(|&at| lives.span(at));
    for &at in &order {
        total += bytes[at];
        flow.arc(source, ends + at, bytes[at]);
        flow.arc(begins + at, sink, bytes[at]);
    }
    for chain in &chains.chains {
        for pair in chain.windows(2) {
            let [from, to] = [pair[0], pair[1]].map(|at| begins + at as usize);
            flow.arc(from, to, u64::MAX);
        }
    }
    for &at in &order {
        for chain in &chains.chains {
            let first = chain.partition_point(|&next| !lives.before(at, next as usize));
            if let Some(&next) = chain.get(first) {
                flow.arc(ends + at, begins + next as usize, u64::MAX);
            }
        }
        for &next in &chains.loose {
            if lives.before(at, next as usize) {
                flow.arc(ends + at, begins + next as usize, u64::MAX);
            }
        }
    }
    total - flow.greatest(source, sink)
}
