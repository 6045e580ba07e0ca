//! All interleavings of a small graph.
//!
//! # What is guaranteed
//! [`SimDriver::explore`] runs an instantiated graph in every interleaving of
//! its slices that could differ, and says which final contents of memory come
//! out. For every schedule that a [`Choose`] could make, every
//! serial order of the nodes included, some explored schedule lets each slice
//! read the same bytes and ends with the same memory. So what is in no
//! [`Outcome`] is reached by no schedule, provided that kernels compute from
//! what they read and nothing else.
//!
//! # How
//! Two slices that run next to each other may be swapped when neither writes
//! bytes that the other touches: schedules that differ by such swaps alone are
//! equivalent. One of each class is run, by source sets and sleep sets
//! (Abdulla, Aronis, Jonsson, Sagonas: *Optimal dynamic partial order
//! reduction*, POPL 2014). A race, which is two conflicting slices that nothing
//! orders and nothing separates, is found when the second of them has run,
//! from the bytes that both really touched; then the second, or what leads to
//! it, is tried in front of the first as well. Slices are taken back from a log
//! of what they overwrote, so no prefix is run twice.
//!
//! The slices of one node keep their order, as they do in every replay on the
//! simulated device. Memory, host memory included, is afterwards as before, and
//! no time has passed for streams and events.

mod search;

use std::fmt;

use streamweir_trace::ByteRange;
use thiserror::Error;

use super::SimDriver;
use super::schedule::{Choose, TaskId};
use crate::driver::code::SimFault;
use crate::driver::{DriverError, ErrorClass, ExecHandle};

/// How far [`SimDriver::explore`] may go, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most nodes of the graph; never more than [`Bounds::MOST_NODES`].
    pub nodes: usize,
    /// The most slices that are run, over all interleavings.
    pub slices: u64,
    /// Which interleavings are run.
    pub reduction: Reduction,
}

/// Which interleavings are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reduction {
    /// One of each class that differs in the order of conflicting slices.
    #[default]
    Conflicts,
    /// Each and every one. For tests of the reduction.
    None,
}

impl Bounds {
    /// No bound allows more nodes than this.
    pub const MOST_NODES: usize = 64;
}

impl Default for Bounds {
    /// 12 nodes and 4 million slices, reduced.
    fn default() -> Self {
        Self {
            nodes: 12,
            slices: 4_000_000,
            reduction: Reduction::Conflicts,
        }
    }
}

/// All that can come out of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Complete interleavings that were run.
    pub interleavings: u64,
    /// Slices that were run.
    pub slices: u64,
    /// The different final contents, sorted by the bytes.
    pub outcomes: Vec<Outcome>,
}

/// One thing that can come out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The final contents of the observed ranges, one after the other.
    pub bytes: Vec<u8>,
    /// How many of the interleavings that were run end so.
    pub interleavings: u64,
    /// The first of them.
    pub schedule: Schedule,
}

/// One interleaving of a graph: the position of a node, in the order of
/// recording, for each slice that runs.
///
/// As a [`Choose`] it makes the next replay on an idle device run just so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    nodes: Vec<usize>,
    at: usize,
    /// The number of the first task that was ever ready: a replay numbers its
    /// nodes from there on, and its first node waits for none.
    first: Option<TaskId>,
}

impl Schedule {
    fn new(nodes: Vec<usize>) -> Self {
        Self {
            nodes,
            at: 0,
            first: None,
        }
    }

    /// The node of each slice.
    pub fn nodes(&self) -> &[usize] {
        &self.nodes
    }
}

impl Choose for Schedule {
    fn choose(&mut self, ready: &[TaskId]) -> usize {
        let first = *self.first.get_or_insert(ready[0]);
        let Some(&node) = self.nodes.get(self.at) else {
            return 0;
        };
        self.at += 1;
        let task = first + node as TaskId;
        ready.partition_point(|&other| other < task)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nodes that stay on for several slices are common: `0 1*4 0*3`.
        for (at, run) in self.nodes.chunk_by(|a, b| a == b).enumerate() {
            let space = if at == 0 { "" } else { " " };
            match run.len() {
                1 => write!(f, "{space}{}", run[0])?,
                len => write!(f, "{space}{}*{len}", run[0])?,
            }
        }
        Ok(())
    }
}

/// Why a graph was not explored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The graph has more nodes than the bounds allow.
    #[error(
        "the graph has {nodes} nodes and the bound is {bound}: explore a part of it, or raise \
         `Bounds::nodes` (at most {})",
        Bounds::MOST_NODES
    )]
    TooManyNodes {
        /// Its nodes.
        nodes: usize,
        /// The bound.
        bound: usize,
    },
    /// The bound on slices was reached before all interleavings had been run.
    #[error(
        "{bound} slices were run in {interleavings} interleavings and more are left: make the \
         graph smaller, give it fewer thread blocks, or raise `Bounds::slices`"
    )]
    TooManySlices {
        /// The bound.
        bound: u64,
        /// Interleavings that were complete by then.
        interleavings: u64,
    },
    /// Work that is enqueued would run in between.
    #[error("{pending} pieces of enqueued work have not ended: wait for them first")]
    NotIdle {
        /// Unfinished pieces of work.
        pending: usize,
    },
    /// In some interleaving a node touches memory that it may not touch. The
    /// device is not broken by it.
    #[error("node {node} ({name}) of the interleaving {schedule}: {fault}")]
    Fault {
        /// Its position in the graph.
        node: usize,
        /// The kernel's name, or the operation's.
        name: String,
        /// What it did.
        fault: SimFault,
        /// The interleaving up to that slice.
        schedule: Schedule,
    },
    /// The graph cannot be launched, or a range cannot be observed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl SimDriver {
    /// Runs `exec` in every interleaving that could differ, and gives the
    /// different final contents of the ranges in `observe`. See the
    /// [module](self) for what that is worth.
    ///
    /// The device is locked meanwhile.
    ///
    /// # Errors
    /// When the graph is too big for `bounds`, when other work is enqueued,
    /// when a node faults in some interleaving, when `exec` could not be
    /// launched, or when `observe` is not all live memory. Memory is as before
    /// then too.
    pub fn explore(
        &self,
        exec: ExecHandle,
        observe: &[ByteRange],
        bounds: &Bounds,
    ) -> Result<Exploration, ExploreError> {
        self.locked("explore", |device| {
            device.healthy()?;
            let tasks = device.exec_tasks(exec)?;
            let bound = bounds.nodes.min(Bounds::MOST_NODES);
            if tasks.len() > bound {
                let nodes = tasks.len();
                return Err(ExploreError::TooManyNodes { nodes, bound });
            }
            let pending = device.executor.unfinished();
            if pending > 0 {
                return Err(ExploreError::NotIdle { pending });
            }
            if let Some(range) = observe
                .iter()
                .find(|range| !range.is_empty() && !device.memory.holds(range.start, range.len()))
            {
                let fail = device.fail(ErrorClass::InvalidValue);
                return Err(fail.with(format!("{range} is not live memory")).into());
            }
            search::run(tasks, &mut device.memory, observe, bounds)
        })?
    }
}
