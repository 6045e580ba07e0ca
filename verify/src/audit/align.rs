//! Which block each tensor of an operator is, and when each block was there.
//!
//! Operators and allocator events are two records of one host thread, each in
//! its own order, and nothing in the file ties them together. Addresses do not:
//! they are used again. What does is that
//! - a tensor that an operator makes, rather than takes, is a block given out
//!   while that operator ran;
//! - a tensor that it takes was there before.
//!
//! So one pass over the operators moves a cursor through the events. A tensor
//! is **made** when it is written and its storage is named only once among the
//! operator's tensors: what an operator alters in place is named twice, as an
//! argument and as a result. Its event is the next one that gives out its
//! bytes. All other tensors are looked up among the blocks held at the
//! cursor, before it moves.
//!
//! Operators that alter an argument and do not give it back also name it once.
//! `aten` operators say so in their name (`add_`, `mm.out`). Of any other
//! operator nothing is known, and the cursor moves only if nothing that a later
//! operator makes was given out before.
//!
//! Events between two made tensors happened at some time between the two
//! operators; the lives of blocks are that much wider than they were.

use std::collections::{BTreeMap, HashMap};

use streamweir_trace::ByteRange;
use streamweir_trace::dump::{AllocAction, Dump, Operator};

use crate::audit::blocks::Blocks;

/// How many operators are looked at to decide whether a tensor is made.
const LOOK_AHEAD: usize = 64;

#[derive(Debug)]
pub(super) struct Alignment {
    /// For each operator and tensor the block, where one is known.
    pub(super) tensors: Vec<Vec<Option<usize>>>,
    /// For each block the last operator that names it.
    pub(super) last_use: Vec<Option<usize>>,
    /// For each block the operator that made it.
    pub(super) maker: Vec<Option<usize>>,
    /// The events that are tied to an operator, in order.
    anchors: Vec<(usize, usize)>,
}

impl Alignment {
    pub(super) fn new(dump: &Dump, blocks: &Blocks) -> Self {
        Walk::new(dump, blocks).run()
    }

    /// The operator that ran last before `event`, or during it.
    pub(super) fn not_before(&self, event: usize) -> Option<usize> {
        let after = self.anchors.partition_point(|&(anchor, _)| anchor <= event);
        Some(self.anchors[after.checked_sub(1)?].1)
    }

    /// The one before that among those that events are tied to: where two events
    /// give out the same bytes, a tie may be one operator late.
    pub(super) fn well_before(&self, event: usize) -> Option<usize> {
        let late = self.not_before(event)?;
        let after = self.anchors.partition_point(|&(anchor, _)| anchor <= event);
        let earlier = self.anchors[..after].iter().rev();
        let mut earlier = earlier.map(|&(_, operator)| operator);
        earlier.find(|&operator| operator != late)
    }

    /// The operator that ran first after `event`, or during it.
    pub(super) fn not_after(&self, event: usize) -> Option<usize> {
        let at = self.anchors.partition_point(|&(anchor, _)| anchor < event);
        Some(self.anchors.get(at)?.1)
    }
}

struct Walk<'a> {
    dump: &'a Dump,
    blocks: &'a Blocks,
    /// The events that give out each address, in order.
    given: HashMap<u64, Vec<usize>>,
    /// The blocks held at the cursor, by first byte.
    held: BTreeMap<u64, usize>,
    cursor: usize,
    result: Alignment,
}

impl<'a> Walk<'a> {
    fn new(dump: &'a Dump, blocks: &'a Blocks) -> Self {
        let mut given: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, event) in dump.known_events().iter().enumerate() {
            if event.action == AllocAction::Alloc {
                given.entry(event.range.start).or_default().push(at);
            }
        }
        let before = blocks.all.iter().enumerate();
        let before = before.filter(|(_, block)| block.given.is_none());
        Self {
            dump,
            blocks,
            given,
            held: before.map(|(at, block)| (block.range.start, at)).collect(),
            cursor: 0,
            result: Alignment {
                tensors: Vec::with_capacity(dump.operators.len()),
                last_use: vec![None; blocks.all.len()],
                maker: vec![None; blocks.all.len()],
                anchors: Vec::new(),
            },
        }
    }

    fn run(mut self) -> Alignment {
        for (at, operator) in self.dump.operators.iter().enumerate() {
            let tensors = self.operator(at, operator);
            for &block in tensors.iter().flatten() {
                self.result.last_use[block] = Some(at);
            }
            self.result.tensors.push(tensors);
        }
        self.result
    }

    fn operator(&mut self, at: usize, operator: &Operator) -> Vec<Option<usize>> {
        let made = made(operator);
        let mut found: Vec<Option<usize>> = operator
            .tensors
            .iter()
            .zip(&made)
            .map(|(tensor, made)| (!made).then(|| self.held_at(tensor.storage))?)
            .collect();
        let events: Vec<Option<usize>> = operator
            .tensors
            .iter()
            .zip(&made)
            .map(|(tensor, made)| {
                let event = made.then(|| self.next(tensor.storage))??;
                (is_plain(operator) || self.comes_first(at, event)).then_some(event)
            })
            .collect();
        let mut anchors: Vec<usize> = events.iter().flatten().copied().collect();
        anchors.sort_unstable();
        for event in anchors {
            self.anchor(event, at);
        }
        for (place, tensor) in operator.tensors.iter().enumerate() {
            if found[place].is_some() || tensor.storage.is_empty() {
                continue;
            }
            found[place] = events[place]
                .and_then(|event| self.blocks.of_event[event])
                .or_else(|| self.held_at(tensor.storage));
            if found[place].is_none()
                && let Some(event) = self.next(tensor.storage)
            {
                // Given out by something that is no operator.
                self.anchor(event, at);
                found[place] = self.blocks.of_event[event];
            }
        }
        found
    }

    /// Whether `event` comes before whatever the next operator that makes
    /// something makes.
    fn comes_first(&self, at: usize, event: usize) -> bool {
        let later = self.dump.operators.iter().skip(at + 1).take(LOOK_AHEAD);
        let next = later.into_iter().find_map(|operator| {
            let made = made(operator);
            let events = operator.tensors.iter().zip(&made);
            let events = events.filter(|(_, made)| **made && is_plain(operator));
            events
                .filter_map(|(tensor, _)| self.next(tensor.storage))
                .min()
        });
        next.is_none_or(|next| event < next)
    }

    /// The next event that gives out this storage: the next of just its bytes, and
    /// only if there is none the next of more. An operator's own scratch may lie
    /// where its result comes to lie, and be larger.
    fn next(&self, storage: ByteRange) -> Option<usize> {
        let events = self.given.get(&storage.start)?;
        let from = events.partition_point(|&event| event < self.cursor);
        let given = |event: usize| self.dump.known_events()[event].range;
        let next = |fits: &dyn Fn(ByteRange) -> bool| {
            let mut later = events[from..].iter().copied();
            later.find(|&event| fits(given(event)))
        };
        next(&|range| range == storage).or_else(|| next(&|range| range.contains(&storage)))
    }

    /// The block held at the cursor that this storage is in.
    fn held_at(&self, storage: ByteRange) -> Option<usize> {
        if storage.is_empty() {
            return None;
        }
        let (_, &block) = self.held.range(..=storage.start).next_back()?;
        let range = self.blocks.all[block].range;
        range.contains(&storage).then_some(block)
    }

    /// Ties `event` to the operator `at` and moves past it.
    fn anchor(&mut self, event: usize, at: usize) {
        while self.cursor <= event {
            let Some(block) = self.blocks.of_event[self.cursor] else {
                self.cursor += 1;
                continue;
            };
            let start = self.blocks.all[block].range.start;
            match self.dump.known_events()[self.cursor].action {
                AllocAction::Alloc => {
                    self.held.insert(start, block);
                }
                AllocAction::FreeCompleted if self.held.get(&start) == Some(&block) => {
                    self.held.remove(&start);
                }
                _ => {}
            }
            self.cursor += 1;
        }
        if let Some(block) = self.blocks.of_event[event] {
            self.result.maker[block].get_or_insert(at);
        }
        self.result.anchors.push((event, at));
    }
}

/// For each tensor of an operator whether its name and place say that it is
/// made by it.
fn made(operator: &Operator) -> Vec<bool> {
    let mut named: HashMap<u64, u32> = HashMap::new();
    for tensor in &operator.tensors {
        *named.entry(tensor.storage.start).or_default() += 1;
    }
    let alters = alters_arguments(&operator.name);
    operator
        .tensors
        .iter()
        .map(|tensor| {
            let once = named.get(&tensor.storage.start) == Some(&1);
            tensor.written && once && !alters && !tensor.storage.is_empty()
        })
        .collect()
}

/// Whether an operator's name says that it writes into its arguments.
fn alters_arguments(name: &str) -> bool {
    let mut parts = name.split('.').skip(1);
    let base = parts.next().unwrap_or_default();
    let overload = parts.next().unwrap_or_default();
    (base.ends_with('_') && !base.ends_with("__")) || overload.split('_').any(|word| word == "out")
}

/// Whether it is known that an operator gives back what it alters.
fn is_plain(operator: &Operator) -> bool {
    operator.name.starts_with("aten.")
}
