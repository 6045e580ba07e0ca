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
//! Above [`EXACT_BUFFERS`] the floor is a bound: the heaviest set of which no two are ordered in
//! some thousand buffers that follow each other, wherever that is. Only a set that is spread
//! over more of the recording could be heavier.

use std::fmt;

use crate::lives::Lives;
use crate::section::Sections;
use streamweir_trace::Flow;

/// The most buffers for which the floor of several axes is exact.
pub const EXACT_BUFFERS: usize = 10_000;

/// How many buffers that follow each other are looked at together above that.
const WINDOW: usize = 2000;

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
    /// The heaviest such set among buffers that follow each other closely; a heavier one may
    /// exist.
    Window,
}

impl FloorKind {
    /// The words that tables print.
    pub const fn word(self) -> &'static str {
        match self {
            Self::MaximumLoad => "maximum load",
            Self::Antichain => "maximum antichain",
            Self::Window => "antichain bound",
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
        (
            antichain(lives, bytes, 0).unwrap_or(0),
            FloorKind::Antichain,
        )
    } else {
        (windows(lives, bytes, load()), FloorKind::Window)
    };
    Floor { bytes, kind }
}

/// The weight of the heaviest set of which no two are ordered in any window, or `least` when
/// that is more.
fn windows(lives: &Lives, bytes: &[u64], least: u64) -> u64 {
    let mut order: Vec<u32> = (0..lives.len() as u32).collect();
    order.sort_by_key(|&at| lives.span(at as usize));
    let starts = (0..order.len()).step_by(WINDOW / 2);
    starts.fold(least, |most, start| {
        let end = order.len().min(start + WINDOW);
        let members = &order[start..end];
        let held: Vec<u64> = members.iter().map(|&at| bytes[at as usize]).collect();
        antichain(&lives.of(members), &held, most).unwrap_or(most)
    })
}

/// The weight of the heaviest set of which no two are ordered, if it is more than `least`.
fn antichain(lives: &Lives, bytes: &[u64], least: u64) -> Option<u64> {
    let count = lives.len();
    let touched = |at: usize| lives.span(at).is_some();
    // Nodes: the source, the sink, each buffer as it ends, each as it begins.
    let (source, sink, ends, begins) = (0, 1, 2, 2 + count);
    let mut flow = Flow::new(2 + 2 * count);
    let chains = lives.chains();
    let mut total = 0;
    let mut order: Vec<usize> = (0..count).filter(|&at| touched(at)).collect();
    order.sort_by_key(|&at| lives.span(at));
    // The arcs from the source and to the sink, by buffer.
    let mut outer = vec![(0, 0); count];
    for &at in &order {
        total += bytes[at];
        outer[at].0 = flow.arc(source, ends + at, bytes[at]);
        outer[at].1 = flow.arc(begins + at, sink, bytes[at]);
    }
    let mut along: Vec<Vec<usize>> = Vec::new();
    let mut entries: Vec<Vec<Vec<Entry>>> = Vec::new();
    let mut place = vec![None; count];
    for (number, chain) in chains.chains.iter().enumerate() {
        let pairs = chain.windows(2).map(|pair| {
            let [from, to] = [pair[0], pair[1]].map(|at| begins + at as usize);
            flow.arc(from, to, u64::MAX)
        });
        along.push(pairs.collect());
        entries.push(vec![Vec::new(); chain.len()]);
        for (at, &life) in chain.iter().enumerate() {
            place[life as usize] = Some((number, at));
        }
    }
    for &at in &order {
        for (chain, entries) in chains.chains.iter().zip(&mut entries) {
            let first = chain.partition_point(|&next| !lives.before(at, next as usize));
            if let Some(&next) = chain.get(first) {
                let arc = flow.arc(ends + at, begins + next as usize, u64::MAX);
                entries[first].push(Entry { giver: at, arc });
            }
        }
        for &next in &chains.loose {
            if lives.before(at, next as usize) {
                flow.arc(ends + at, begins + next as usize, u64::MAX);
            }
        }
    }
    // Most of the flow is what anybody would hand on: each buffer takes bytes, in the order of
    // the lives, from those that were over last. What is missing then is looked for. As any
    // flow does, it shows that no set is heavier than what it does not carry.
    let mut left = bytes.to_vec();
    let mut givers: Vec<Vec<(usize, Entry)>> = vec![Vec::new(); along.len()];
    // What comes in at each place of a chain, less what goes out.
    let mut change: Vec<Vec<i64>> = entries.iter().map(|all| vec![0; all.len()]).collect();
    let mut sent = 0;
    for &at in &order {
        let Some((chain, here)) = place[at] else {
            continue;
        };
        let opened = entries[chain][here].iter().map(|&entry| (here, entry));
        givers[chain].extend(opened);
        let mut want = bytes[at];
        while want > 0
            && let Some(&(there, Entry { giver, arc })) = givers[chain].last()
        {
            let more = want.min(left[giver]);
            if more > 0 {
                left[giver] -= more;
                want -= more;
                flow.send(outer[giver].0, more);
                flow.send(arc, more);
                change[chain][there] += more as i64;
                change[chain][here] -= more as i64;
            }
            if left[giver] == 0 {
                givers[chain].pop();
            }
        }
        flow.send(outer[at].1, bytes[at] - want);
        sent += bytes[at] - want;
    }
    if total - sent <= least {
        return None;
    }
    for (along, change) in along.iter().zip(&change) {
        let mut carried = 0;
        for (&arc, change) in along.iter().zip(change) {
            carried += change;
            flow.send(arc, carried as u64);
        }
    }
    let most = total - sent - flow.greatest(source, sink);
    (most > least).then_some(most)
}

/// Where a buffer that is over hands its bytes to a chain.
#[derive(Clone, Copy)]
struct Entry {
    giver: usize,
    arc: usize,
}
