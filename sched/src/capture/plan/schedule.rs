//! In which order the commands are emitted, and on what their streams wait.
//!
//! # What is guaranteed
//! Every command is sent once, after all that it waits for, on its own stream,
//! and its node depends on exactly the commands that were recorded as its
//! predecessors: no order is added and none is lost. Commands that must keep
//! their record order among themselves do.
//!
//! # Why not in record order
//! At replay a node goes on with the replay stream of its first-recorded parent
//! that nobody has gone on with yet; every other node opens one
//! ([`replay_streams`](crate::graph::replay_streams)). Side work that was recorded
//! early takes over from the stream it was forked from, and the join goes on with
//! the side's: the main chain changes its replay stream at every fork. So work is
//! sent when somebody needs it: a join asks for its own stream first and for the
//! side last, and side work comes out just before its join. A stream that is
//! forked again goes on with the replay stream that it had.
//!
//! # Events
//! A wait may come long after what it waits for, so each needs an event of its
//! own; an event whose last wait has passed is used again. All of them exist
//! before the driver's capture begins.

use streamweir_trace::StreamId;

use super::chains::Chains;
use crate::capture::strand::ORIGIN;

/// One thing to do under capture. An event is named by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Step {
    /// The next command of the stream waits for what the event stands for.
    Wait { stream: StreamId, slot: usize },
    /// A command goes to its stream.
    Send { command: u32 },
    /// The event stands for all that the stream has reached.
    Record { stream: StreamId, slot: usize },
}

/// The steps of an emission.
pub(in crate::capture) struct Schedule {
    pub(in crate::capture) steps: Vec<Step>,
    /// How many events they need.
    pub(in crate::capture) slots: usize,
}

impl Schedule {
    /// The steps for the commands of `chains`, after which the origin has
    /// reached `end`. Commands that `keeps_order` says keep the record order
    /// among themselves.
    pub(super) fn new(chains: &Chains<'_>, end: &[u32], keeps_order: impl Fn(u32) -> bool) -> Self {
        let order = on_demand(chains, end, keeps_order);
        let mut waits = Waits::new(chains, end);
        let mut steps = Vec::with_capacity(order.len() * 2);
        if waits.roots > 0 {
            let slot = waits.record(ENTRY, waits.roots);
            steps.push(Step::Record {
                stream: ORIGIN,
                slot,
            });
        }
        for command in order {
            let node = chains.node(command);
            let stream = node.stream;
            for earlier in waits_of(chains, command) {
                let slot = waits.wait(earlier);
                steps.push(Step::Wait { stream, slot });
            }
            steps.push(Step::Send { command });
            let count = waits.needed[command as usize];
            if count > 0 {
                let slot = waits.record(Some(command), count);
                steps.push(Step::Record { stream, slot });
            }
        }
        for &earlier in end.iter().filter(|&&c| chains.node(c).stream != ORIGIN) {
            let slot = waits.wait(Some(earlier));
            steps.push(Step::Wait {
                stream: ORIGIN,
                slot,
            });
        }
        Self {
            steps,
            slots: waits.held.len(),
        }
    }
}

/// All commands, each when the first one that needs it asks for it.
fn on_demand(chains: &Chains<'_>, end: &[u32], keeps_order: impl Fn(u32) -> bool) -> Vec<u32> {
    let count = chains.len() as u32;
    let mut before_it = vec![None; chains.len()];
    let mut last = None;
    for command in (0..count).filter(|&command| keeps_order(command)) {
        before_it[command as usize] = last.replace(command);
    }
    let mut order = Vec::with_capacity(chains.len());
    let mut asked = vec![false; chains.len()];
    // What was joined into nothing that goes on is asked for last.
    for start in end.iter().copied().chain(0..count) {
        if std::mem::replace(&mut asked[start as usize], true) {
            continue;
        }
        // Chains are as long as captures, so the walk keeps its own stack: a
        // command, and how many of those it needs have been asked.
        let mut stack = vec![(start, 0)];
        while let Some((command, next)) = stack.last_mut() {
            let command = *command;
            let after = chains.node(command).after;
            let needed = after
                .get(*next)
                .copied()
                .or_else(|| (*next == after.len()).then_some(before_it[command as usize])?);
            *next += 1;
            match needed {
                Some(needed) if !std::mem::replace(&mut asked[needed as usize], true) => {
                    stack.push((needed, 0));
                }
                Some(_) => {}
                None => {
                    order.push(command);
                    stack.pop();
                }
            }
        }
    }
    order
}

/// The beginning of the capture, for what waits for no command.
const ENTRY: Option<u32> = None;

/// What `command` must wait for, for its own stream does not bring it.
fn waits_of<'a>(chains: &'a Chains<'_>, command: u32) -> impl Iterator<Item = Option<u32>> + 'a {
    let node = chains.node(command);
    let entry = node.after.is_empty() && node.stream != ORIGIN;
    let others = node.after.iter().copied();
    others
        .filter(|&earlier| chains.node(earlier).stream != node.stream)
        .map(Some)
        .chain(entry.then_some(ENTRY))
}

/// Which event stands for which command, while somebody will wait for it.
struct Waits {
    /// By command, how many waits there are for it.
    needed: Vec<u32>,
    /// Waits for the beginning.
    roots: u32,
    /// By slot: whom it stands for, and the waits left.
    held: Vec<(Option<u32>, u32)>,
    slot_of: Vec<usize>,
    entry: usize,
    free: Vec<usize>,
}

impl Waits {
    fn new(chains: &Chains<'_>, end: &[u32]) -> Self {
        let mut needed = vec![0; chains.len()];
        let mut roots = 0;
        let of_commands = (0..chains.len() as u32).flat_map(|command| waits_of(chains, command));
        let of_the_end = end
            .iter()
            .filter(|&&command| chains.node(command).stream != ORIGIN)
            .map(|&command| Some(command));
        for earlier in of_commands.chain(of_the_end) {
            match earlier {
                Some(earlier) => needed[earlier as usize] += 1,
                None => roots += 1,
            }
        }
        Self {
            slot_of: vec![0; needed.len()],
            needed,
            roots,
            held: Vec::new(),
            entry: 0,
            free: Vec::new(),
        }
    }

    /// A slot that stands for `command` through `count` waits.
    fn record(&mut self, command: Option<u32>, count: u32) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.held.push((ENTRY, 0));
            self.held.len() - 1
        });
        self.held[slot] = (command, count);
        match command {
            Some(command) => self.slot_of[command as usize] = slot,
            None => self.entry = slot,
        }
        slot
    }

    /// The slot to wait for, one of its waits fewer.
    fn wait(&mut self, command: Option<u32>) -> usize {
        let slot = match command {
            Some(command) => self.slot_of[command as usize],
            None => self.entry,
        };
        let (stands_for, left) = &mut self.held[slot];
        debug_assert_eq!(*stands_for, command, "a slot is kept until its last wait");
        *left -= 1;
        if *left == 0 {
            self.free.push(slot);
        }
        slot
    }
}
