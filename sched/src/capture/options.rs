//! How a capture is made.

use std::collections::BTreeMap;

use streamweir_alloc::{ArenaConfig, Policy};

use super::rewrite::{Poison, Taps};
use crate::error::{Error, Result};
use crate::graph::ReplayGroup;

/// What becomes of a capture in which the verifier finds hazards.
///
/// There is no way to switch the verifier off. Whoever ships an engine asks for
/// [`Prove`](Self::Prove): then each graph has a [certificate](crate::Graph::certificate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// The capture fails with the report as its error.
    #[default]
    Refuse,
    /// The graph is made, and carries the report.
    Report,
    /// The capture fails unless there is a certificate, with the report as its error:
    /// a hazard that is only possible stands in the way, too.
    Prove,
}

/// When a capture places scratch buffers and emits what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each call is emitted when it is recorded, and a buffer is placed when it
    /// is taken.
    #[default]
    Live,
    /// At the end, over the whole recording: fewer bytes, and an order of
    /// emission that keeps the streams of a replay few. Addresses are known to
    /// [`foreign_call`](crate::Stream::foreign_call)s alone.
    ///
    /// An eager run is live in any case. Attaching to an engine's capture is
    /// not possible, for the engine's own nodes stand in record order.
    Planned,
}

/// A capture's name and how it is made. A name alone is enough: `"decode"`.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{CaptureOptions, Device, Error, Policy};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// let options = CaptureOptions::new("step")
///     .policy(Policy::ORDERED) // streams reuse each other's bytes where the graph orders them
///     .planned() // placed when the recording is complete
///     .stream_priority("side", -1);
/// let (graph, ()) = device.capture::<_, Error>(options, |cap| {
///     let main = cap.origin();
///     let side = cap.fork(&main, "side")?;
///     let x = side.scratch::<u32>("x", 4)?;
///     side.fill(&x, 7)?;
///     let seen = cap.join(&main, side)?;
///     main.copy(&out, seen.see(&x))
/// })?;
/// graph.replay(&device.stream("replay")?)?;
/// assert_eq!(out.download()?, [0x0707_0707; 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) policy: Policy,
    pub(crate) placement: Placement,
    pub(crate) verify: Verify,
    pub(crate) group: Option<ReplayGroup>,
    pub(crate) arena: ArenaConfig,
    pub(crate) poison: Poison,
    pub(crate) taps: Option<Taps>,
    /// Whether an arena of the capture's own has guards.
    pub(crate) guarded: bool,
    pub(crate) priorities: Priorities,
    pub(crate) programmatic: bool,
    /// Somebody has promised to live with pools in the order of host calls.
    host_order_is_vouched_for: bool,
    /// Somebody has promised that an engine's replays take turns.
    pub(super) turns_are_vouched_for: bool,
}

/// The priorities of captured streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Priorities {
    all: i32,
    by_tag: BTreeMap<String, i32>,
}

impl Priorities {
    /// That of the stream with a tag.
    pub(crate) fn of(&self, tag: &str) -> i32 {
        self.by_tag.get(tag).copied().unwrap_or(self.all)
    }
}

impl CaptureOptions {
    /// A live capture called `name`, with an origin stream called `main`,
    /// isolated pools, an arena of its own, refused when there are hazards.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            origin: "main".to_owned(),
            policy: Policy::ISOLATED,
            placement: Placement::Live,
            verify: Verify::Refuse,
            group: None,
            arena: ArenaConfig::default(),
            poison: Poison::Off,
            taps: None,
            guarded: false,
            priorities: Priorities::default(),
            programmatic: true,
            host_order_is_vouched_for: false,
            turns_are_vouched_for: false,
        }
    }

    /// The name and tag of the origin stream.
    #[must_use]
    pub fn origin(mut self, name: impl Into<String>) -> Self {
        self.origin = name.into();
        self
    }

    /// When scratch buffers may share bytes: [`Policy::ISOLATED`] or
    /// [`Policy::ORDERED`]. A capture with [`Policy::HOST_ORDER`] is refused unless
    /// that was chosen with [`host_order_pools`](Self::host_order_pools).
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// One pool for all streams, in which a freed block is at once anybody's
    /// ([`Policy::HOST_ORDER`]). This is what a caching allocator with one capture
    /// pool does, and it is wrong as soon as two streams overlap at replay. Here it
    /// models such an engine in demonstrations and tests.
    ///
    /// # Safety
    /// Buffers handed out so may be overwritten by concurrent kernels. The caller
    /// must not rely on any result of the graph or the eager run, indices and
    /// addresses computed on the device included: its kernels have to stay in bounds
    /// whatever their inputs hold.
    #[must_use]
    pub unsafe fn host_order_pools(mut self) -> Self {
        self.policy = Policy::HOST_ORDER;
        self.host_order_is_vouched_for = true;
        self
    }

    /// When buffers are placed.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Places buffers at the end, over the whole recording:
    /// [`Placement::Planned`].
    #[must_use]
    pub fn planned(self) -> Self {
        self.placement(Placement::Planned)
    }

    /// What becomes of hazards.
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Captures into a replay group, on its arena.
    #[must_use]
    pub fn group(mut self, group: &ReplayGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Lets a part of an engine's capture ([`Device::attach`](crate::Device::attach))
    /// take its scratch from the arena of a replay group, where without this it is
    /// refused. The report lists it as an assumption. Captures of our own take turns
    /// whatever is said here.
    ///
    /// # Safety
    /// No replay of the engine's graph is in flight together with another one of it, or
    /// with a replay of any other graph of the group: the engine orders them all, by
    /// one stream or by events. Kernels that overlap all the same overwrite each other's
    /// scratch, indices and addresses in it included.
    #[must_use]
    pub unsafe fn replays_take_turns(mut self) -> Self {
        self.turns_are_vouched_for = true;
        self
    }

    /// The arena of a capture without a group.
    #[must_use]
    pub fn arena(mut self, config: ArenaConfig) -> Self {
        self.arena = config;
        self
    }

    /// The priority of the captured streams; a lower number is higher, and a
    /// device clamps what it does not have. Work of a higher priority is given
    /// room as soon as there is some, in an eager run and in every replay,
    /// whatever the priority of the stream that the graph is replayed on.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priorities.all = priority;
        self
    }

    /// The priority of one captured stream, by its tag. A short chain on a side
    /// stream that later work waits for gains from a higher one than main has:
    /// otherwise a large kernel on main takes all room first.
    #[must_use]
    pub fn stream_priority(mut self, tag: impl Into<String>, priority: i32) -> Self {
        self.priorities.by_tag.insert(tag.into(), priority);
        self
    }

    /// Whether kernels that declare to wait for what they follow
    /// ([`kernel!`](crate::kernel!), `#[waits]`) are launched programmatically and
    /// so start early, where the device has that. In a capture of our own, live or
    /// planned, they do unless this says otherwise; the results are the same. Eager
    /// runs and parts of an engine's capture start everything in order.
    #[must_use]
    pub fn programmatic(mut self, on: bool) -> Self {
        self.programmatic = on;
        self
    }

    /// Fills scratch that holds nothing yet, so that whoever still reads what it
    /// held before shows it. Off unless it is asked for.
    #[must_use]
    pub fn poison(mut self, poison: Poison) -> Self {
        self.poison = poison;
        self
    }

    /// Copies aside what each command reads and writes, to be
    /// [compared](crate::Readings::compare) with another run of the same
    /// recording.
    #[must_use]
    pub fn taps(mut self, taps: &Taps) -> Self {
        self.taps = Some(taps.clone());
        self
    }
}

impl CaptureOptions {
    /// Refuses pools in the order of host calls that nobody vouches for.
    pub(super) fn check(&self) -> Result<()> {
        if self.policy.is_ordered_by_graph() || self.host_order_is_vouched_for {
            return Ok(());
        }
        Err(Error::HostOrder {
            capture: self.name.clone(),
        })
    }

    /// Refuses what a plan cannot be made of.
    pub(super) fn check_plannable(&self) -> Result<()> {
        let refuse = |what: &str, instead| {
            Err(Error::Unplannable {
                what: what.to_owned(),
                capture: self.name.clone(),
                instead,
            })
        };
        if !self.policy.is_ordered_by_graph() {
            return refuse(
                "a pool in the order of host calls",
                "a plan looks at the order of the graph alone: capture live, or \
                 choose Policy::ORDERED",
            );
        }
        if self.poison == Poison::Reused {
            return refuse(
                "poisoning the bytes that are used again",
                "which bytes those are is known when all has been recorded, too late for \
                 another node: choose Poison::Every, or capture live",
            );
        }
        Ok(())
    }
}

impl From<&str> for CaptureOptions {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for CaptureOptions {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_the_priority_of_its_tag_or_that_of_all() {
        let options = CaptureOptions::new("decode");
        assert_eq!(options.priorities.of("main"), 0);
        let options = options.stream_priority("indexer", -2).priority(1);
        let of = |tag| options.priorities.of(tag);
        assert_eq!((of("main"), of("indexer")), (1, -2));
    }
}
