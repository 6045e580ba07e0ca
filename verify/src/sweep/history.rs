//! What has touched a run of cells so far, as far as it can still matter.
//!
//! # What is kept
//! Accesses arrive in the order of the graph. An earlier access `e` may be
//! forgotten once a later one `v` stands for it: `e` has ended before `v`
//! begins, and whatever conflicts with `e` conflicts with `v` too. For then any
//! `x` behind `v` that is not ordered after `e` is not ordered after `v`
//! either, and the bytes are found to race all the same. So
//! - a write stands for everything before it,
//! - a read stands for reads,
//! - an atomic update stands for atomic updates of the same buffer.
//!
//! What is left is mostly one access, and at most a few for each chain. When a
//! write stands for all that a range of cells has seen, the cells become one
//! run, so that a buffer costs the same whatever has lain in its bytes before.
//!
//! Accesses of one node come with those before its wait in front: a later one
//! of the same node then begins no earlier, and what is ordered before the first
//! is ordered before the second.

use super::bits::Bits;

/// How an access conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    /// Plain writes, and accesses that may be anything.
    Write,
    Atomic,
}

/// One access, as far as a later one must know it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) buffer: u32,
    pub(super) index: u32,
    pub(super) chain: u16,
    pub(super) class: Class,
}

impl Entry {
    /// Whether two accesses of different nodes must be ordered.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        match (self.class, other.class) {
            (Class::Read, Class::Read) => false,
            (Class::Atomic, Class::Atomic) => self.buffer != other.buffer,
            _ => true,
        }
    }

    /// Whether this one stands for an `earlier` one that has ended before it.
    fn stands_for(&self, earlier: &Self) -> bool {
        match self.class {
            Class::Write => true,
            Class::Read => earlier.class == Class::Read,
            Class::Atomic => earlier.class == Class::Atomic && earlier.buffer == self.buffer,
        }
    }

    fn same_node(&self, other: &Self) -> bool {
        self.chain == other.chain && self.index == other.index
    }

    /// Whether it has ended at `clock`.
    pub(super) fn ended(&self, clock: &[u32]) -> bool {
        ended(self.chain, self.index, clock)
    }
}

fn ended(chain: u16, index: u32, clock: &[u32]) -> bool {
    clock
        .get(usize::from(chain))
        .is_some_and(|&ended| index < ended)
}

const NONE: u32 = u32::MAX;

/// A run of neighbouring cells that have seen the same.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The latest access; its buffer is `NONE` when there is none yet.
    latest: Entry,
    /// The others, newest first, in the pool of links.
    more: u32,
    end: u32,
    /// Some write of the latest access's buffer that it is known to have had.
    write_index: u32,
    write_chain: u16,
    has_write: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    entry: Entry,
    next: u32,
}

/// What came of one access of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Something that it conflicts with is not ordered before it.
    pub(super) races: bool,
    /// Another buffer had the bytes.
    pub(super) tenant: Option<u32>,
    /// The buffer has had no write that is ordered before it.
    pub(super) unwritten: bool,
    pub(super) compared: u32,
}

/// The runs of all cells.
#[derive(Debug)]
pub(super) struct History {
    runs: Vec<Run>,
    starts: Bits,
    links: Vec<Link>,
    free: u32,
}

impl History {
    pub(super) fn new(cells: usize) -> Self {
        let empty = Entry {
            buffer: NONE,
            index: 0,
            chain: 0,
            class: Class::Read,
        };
        let run = Run {
            latest: empty,
            more: NONE,
            end: cells as u32,
            write_index: 0,
            write_chain: 0,
            has_write: false,
        };
        let mut starts = Bits::new(cells);
        if cells > 0 {
            starts.insert(0);
        }
        Self {
            runs: vec![run; cells],
            starts,
            links: Vec::new(),
            free: NONE,
        }
    }

    /// Adds an access of the cells `from..to` at `clock`, and hands what comes
    /// of it to `seen`, run by run. `declared` tells whether a write counts as
    /// one that surely happens.
    pub(super) fn add(
        &mut self,
        access: Entry,
        declared: bool,
        clock: &[u32],
        (from, to): (u32, u32),
        mut seen: impl FnMut(u32, u32, Outcome),
    ) {
        if from >= to {
            return;
        }
        // Most accesses are of what an earlier one was of.
        if self.starts.contains(from) && self.runs[from as usize].end == to {
            let outcome = self.step(from, access, declared, clock);
            seen(from, to, outcome);
            return;
        }
        self.cut(from);
        self.cut(to);
        let mut alone = access.class == Class::Write;
        let mut at = from;
        while at < to {
            let end = self.runs[at as usize].end;
            let outcome = self.step(at, access, declared, clock);
            seen(at, end, outcome);
            alone &= self.runs[at as usize].more == NONE;
            at = end;
        }
        let first = &mut self.runs[from as usize];
        if alone && first.end != to {
            first.end = to;
            first.has_write = declared;
            (first.write_chain, first.write_index) = (access.chain, access.index);
            self.starts.remove_all(from + 1, to);
        }
    }

    /// How many accesses there is room for beside the latest of each run, which is how
    /// many were held at one time.
    pub(super) fn held(&self) -> usize {
        self.links.len()
    }

    /// Makes a run begin at `at`.
    fn cut(&mut self, at: u32) {
        if at as usize >= self.runs.len() || self.starts.contains(at) {
            return;
        }
        let whole = self.starts.last_up_to(at).unwrap_or(0);
        let mut back = self.runs[whole as usize];
        back.more = self.copied(back.more);
        self.runs[whole as usize].end = at;
        self.runs[at as usize] = back;
        self.starts.insert(at);
    }

    fn copied(&mut self, list: u32) -> u32 {
        let mut entries = Vec::new();
        let mut at = list;
        while at != NONE {
            entries.push(self.links[at as usize].entry);
            at = self.links[at as usize].next;
        }
        entries
            .into_iter()
            .rev()
            .fold(NONE, |next, entry| self.link(entry, next))
    }

    fn link(&mut self, entry: Entry, next: u32) -> u32 {
        let link = Link { entry, next };
        if self.free == NONE {
            self.links.push(link);
            return self.links.len() as u32 - 1;
        }
        let at = self.free;
        self.free = std::mem::replace(&mut self.links[at as usize], link).next;
        at
    }

    fn step(&mut self, at: u32, access: Entry, declared: bool, clock: &[u32]) -> Outcome {
        let run = &mut self.runs[at as usize];
        let mut outcome = Outcome::default();
        let latest = run.latest;
        if latest.buffer != access.buffer {
            outcome.tenant = (latest.buffer != NONE).then_some(latest.buffer);
            run.has_write = false;
        }
        outcome.unwritten = !run.has_write || !ended(run.write_chain, run.write_index, clock);
        if declared && access.class != Class::Read && !run.has_write {
            run.has_write = true;
            (run.write_chain, run.write_index) = (access.chain, access.index);
        }
        run.latest = access;
        if latest.buffer == NONE {
            return outcome;
        }
        let keep = check(&latest, &access, clock, &mut outcome);
        let mut list = run.more;
        if list != NONE || keep {
            if list != NONE {
                list = self.swept(list, &access, clock, &mut outcome);
            }
            if keep {
                list = self.link(latest, list);
            }
            self.runs[at as usize].more = list;
        }
        outcome
    }

    /// The entries of a list that `access` does not stand for.
    fn swept(&mut self, list: u32, access: &Entry, clock: &[u32], outcome: &mut Outcome) -> u32 {
        let (mut kept, mut last) = (NONE, NONE);
        let mut at = list;
        while at != NONE {
            let Link { entry, next } = self.links[at as usize];
            if check(&entry, access, clock, outcome) {
                match last {
                    NONE => kept = at,
                    last => self.links[last as usize].next = at,
                }
                last = at;
            } else {
                self.links[at as usize].next = self.free;
                self.free = at;
            }
            at = next;
        }
        if last != NONE {
            self.links[last as usize].next = NONE;
        }
        kept
    }
}

/// Compares an `earlier` access with this one, and says whether the earlier one
/// must be kept.
fn check(earlier: &Entry, access: &Entry, clock: &[u32], outcome: &mut Outcome) -> bool {
    if earlier.same_node(access) {
        return !access.stands_for(earlier);
    }
    outcome.compared += 1;
    let ended = earlier.ended(clock);
    outcome.races |= !ended && earlier.conflicts(access);
    !ended || !access.stands_for(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(chain: u16, index: u32, class: Class) -> Entry {
        Entry {
            buffer: 7,
            index,
            chain,
            class,
        }
    }

    /// The runs that an access meets, and whether it races there.
    fn met(
        history: &mut History,
        access: Entry,
        clock: &[u32],
        cells: (u32, u32),
    ) -> Vec<(u32, u32, bool)> {
        let mut met = Vec::new();
        history.add(access, true, clock, cells, |from, to, outcome| {
            met.push((from, to, outcome.races));
        });
        met
    }

    #[test]
    fn runs_split_where_accesses_differ_and_join_under_a_write() {
        let mut history = History::new(8);
        let w = |index| entry(0, index, Class::Write);
        assert_eq!(met(&mut history, w(0), &[0], (0, 8)), [(0, 8, false)]);
        assert_eq!(met(&mut history, w(1), &[1], (2, 4)), [(2, 4, false)]);
        assert_eq!(
            met(&mut history, entry(0, 2, Class::Read), &[2], (0, 8)),
            [(0, 2, false), (2, 4, false), (4, 8, false)]
        );
        assert_eq!(met(&mut history, w(3), &[3], (0, 8)).len(), 3);
        assert_eq!(met(&mut history, w(4), &[4], (0, 8)), [(0, 8, false)]);
    }

    #[test]
    fn a_read_that_no_later_read_stands_for_is_still_met() {
        let mut history = History::new(1);
        let all = (0, 1);
        met(&mut history, entry(0, 0, Class::Write), &[0, 0], all);
        met(&mut history, entry(1, 0, Class::Read), &[1, 0], all);
        met(&mut history, entry(0, 1, Class::Read), &[1, 0], all);
        met(&mut history, entry(0, 2, Class::Read), &[2, 0], all);
        // Ordered after the reads of chain 0, not after the one of chain 1.
        let write = entry(0, 3, Class::Write);
        assert_eq!(met(&mut history, write, &[3, 0], all), [(0, 1, true)]);
        // It does not stand for that read: a later one still meets both.
        let later = entry(0, 4, Class::Write);
        assert_eq!(met(&mut history, later, &[4, 0], all), [(0, 1, true)]);
        let after = entry(0, 5, Class::Write);
        assert_eq!(met(&mut history, after, &[5, 1], all), [(0, 1, false)]);
        assert!(history.runs[0].more == NONE && history.free != NONE);
    }

    #[test]
    fn atomic_updates_stand_for_their_own_kind_alone() {
        let mut history = History::new(1);
        let all = (0, 1);
        met(&mut history, entry(1, 0, Class::Read), &[0, 0], all);
        met(&mut history, entry(0, 0, Class::Atomic), &[0, 1], all);
        // Conflicts with the read of chain 1, which the update did not hide.
        let update = entry(2, 0, Class::Atomic);
        assert_eq!(met(&mut history, update, &[1, 0, 0], all), [(0, 1, true)]);
        let plain = entry(3, 0, Class::Read);
        assert_eq!(met(&mut history, plain, &[1, 1, 1], all), [(0, 1, false)]);
    }
}
