//! How captures begin.

use std::sync::Arc;

use streamweir_alloc::{Pools, View};

use super::early;
use super::handle::Capture;
use super::nodes::Nodes;
use super::open::Open;
use super::options::{CaptureOptions, Placement};
use super::plan::unplaced;
use super::pools::ScratchPools;
use super::recorded::Recorded;
use super::recorder::Recorder;
use super::recording::Recording;
use super::rewrite::{Poison, Rewrites};
use super::sink::{AnySink, Live, Planned};
use super::strand::Strands;
use crate::device::{Device, DeviceInner};
use crate::error::{Error, Name, Result};
use crate::graph::{Graph, GroupInner};
use crate::spans::span;

impl Device {
    /// Captures what `record` records into a graph, verifies it and
    /// instantiates it.
    ///
    /// # Errors
    /// What `record` returns; an unjoined stream; a hazard, with
    /// [`Verify::Refuse`](crate::Verify::Refuse); a failure of the driver. All is
    /// left as before then.
    pub fn capture<R, E: From<Error>>(
        &self,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&Capture) -> Result<R, E>,
    ) -> Result<(Graph, R), E> {
        let options = options.into();
        let _span = span!("capture", options.name);
        let capture = self.begin(options)?;
        let result = record(&capture)?;
        Ok((capture.end()?, result))
    }

    /// Captures a step once more and makes `graph` do it: the capture is proved in full,
    /// then the instantiated graph is updated, which costs less than a new one. It takes
    /// the scratch of the graph's replay group, unless `options` name another. What
    /// launches in flight refer to is held until the last of them has ended.
    ///
    /// An update changes operands: addresses, sizes, shapes of launches, values. With
    /// other nodes or edges it is refused ([`Error::NotUpdated`]).
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// use streamweir::{Device, Error, Persistent};
    ///
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// let [old, new] = [device.persistent::<u32>("old", 4)?, device.persistent("new", 4)?];
    /// let out = device.persistent::<u32>("out", 4)?;
    /// new.upload(&[1, 2, 3, 4])?;
    /// let step = |table: Persistent<u32>| {
    ///     let out = out.clone();
    ///     move |cap: &streamweir::Capture| cap.origin().copy(&out, &table)
    /// };
    /// let (mut graph, ()) = device.capture::<_, Error>("step", step(old))?;
    /// let stream = device.stream("replay")?;
    /// graph.replay(&stream)?;
    /// device.recapture::<_, Error>(&mut graph, "step", step(new))?; // the launch above goes on
    /// graph.replay(&stream)?;
    /// assert_eq!(out.download()?, [1, 2, 3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`capture`](Self::capture); when the driver refuses the update; for a graph of
    /// another device. The graph is as before then.
    pub fn recapture<R, E: From<Error>>(
        &self,
        graph: &mut Graph,
        options: impl Into<CaptureOptions>,
        record: impl FnOnce(&Capture) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut options = options.into();
        let _span = span!("recapture", options.name);
        graph.check_on(&self.inner)?;
        options.group.get_or_insert_with(|| graph.group());
        let capture = self.begin(options)?;
        let result = record(&capture)?;
        capture.end_into(graph)?;
        Ok(result)
    }

    /// Begins a capture to be ended by [`Capture::end`]; dropped before, it is
    /// as if it had not been.
    ///
    /// A thread may capture on several devices at once, each in a capture of its own:
    /// the ranks of tensor parallelism in one process. They end in any order. What they
    /// need is made before the first begins.
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// use streamweir::{Device, Error};
    ///
    /// # fn main() -> Result<(), Error> {
    /// let ranks = [Device::sim(1), Device::sim(2)];
    /// let mut outs = Vec::new();
    /// for rank in &ranks {
    ///     outs.push(rank.persistent::<u32>("out", 4)?);
    /// }
    /// let captures = [ranks[0].begin("rank 0")?, ranks[1].begin("rank 1")?];
    /// for (capture, out) in captures.iter().zip(&outs) {
    ///     capture.origin().fill(out, 1)?; // one layer of both, then the next
    /// }
    /// for capture in captures {
    ///     assert!(capture.end()?.certificate().is_some());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the driver refuses, or the calling thread is inside a capture of the device.
    pub fn begin(&self, options: impl Into<CaptureOptions>) -> Result<Capture> {
        self.inner.outside_own("Device::begin")?;
        self.collect();
        let mut options = options.into();
        options.guarded = self.guarded;
        options.check()?;
        let device = &self.inner;
        let stream = |options: &CaptureOptions| {
            let priority = options.priorities.of(&options.origin);
            device.take_stream(priority).map(Arc::new)
        };
        let start = Start::new(device, options)?;
        let origin = stream(&start.options)?;
        match start.options.placement {
            Placement::Live => {
                let sink = Live::new(origin, device.take_event()?);
                let pools = start.scratch_pools(start.view());
                start.capture(pools, AnySink::Live(sink))
            }
            Placement::Planned => {
                start.options.check_plannable()?;
                let sink = Planned::new(origin, start.view());
                let unplaced = unplaced::like(&start.home.arena).open();
                let pools = start.scratch_pools(unplaced).placed_later();
                start.capture(pools, AnySink::Planned(sink))
            }
        }
    }
}

/// What every capture, attachment and eager run begins with.
pub(super) struct Start {
    device: Arc<DeviceInner>,
    pub(super) options: CaptureOptions,
    home: Arc<GroupInner>,
}

impl Start {
    pub(super) fn new(device: &Arc<DeviceInner>, options: CaptureOptions) -> Result<Self> {
        let home = match &options.group {
            Some(group) => {
                group.check_device(device)?;
                group.inner.clone()
            }
            None => GroupInner::new(device, &options.name, options.arena, options.guarded, false),
        };
        Ok(Self::in_home(device, options, home))
    }

    /// In a group that is there.
    pub(super) fn in_home(
        device: &Arc<DeviceInner>,
        options: CaptureOptions,
        home: Arc<GroupInner>,
    ) -> Self {
        Self {
            device: device.clone(),
            options,
            home,
        }
    }

    /// The capture's part of the arena.
    pub(super) fn view(&self) -> View {
        self.home.arena.open_for(&*self.options.name)
    }

    /// Pools on `view`.
    pub(super) fn scratch_pools(&self, view: View) -> ScratchPools {
        let options = &self.options;
        let capture: Name = options.name.as_str().into();
        let pools = ScratchPools::new(capture, Pools::new(view, options.policy));
        match options.poison != Poison::Off && !options.policy.is_ordered_by_graph() {
            true => pools.with_drops_put_aside(),
            false => pools,
        }
    }

    /// The capture, on which the sink has begun.
    pub(super) fn capture(self, pools: ScratchPools, sink: AnySink) -> Result<Capture> {
        let Self {
            device,
            options,
            home,
        } = self;
        let ours = sink.makes_our_graph();
        let shares_with = options.group.as_ref().map(|group| group.name().into());
        let programmatic = ours && early::is_possible(options.programmatic, device.reclaim.info());
        let rewrites = Rewrites::new(
            options.poison,
            options.taps.as_ref(),
            options.policy.is_ordered_by_graph(),
            &device,
            &options.name,
        )?;
        pools.pools.add_stream(&*options.origin, &*options.origin)?;
        let recorded = Recorded {
            device,
            pools: Arc::new(pools),
            home,
            verify: options.verify,
            recording: Recording::default(),
            nodes: Nodes::default(),
            strands: Strands::new(options.origin.as_str().into()),
            claim: None,
            shares_with: shares_with.filter(|_| !ours),
            asked: Vec::new(),
            placed: None,
            inside: None,
        };
        let open = Open::new(recorded, sink, rewrites);
        // From here on the capture's own drop ends whatever has begun.
        let capture = Capture::new(Recorder::new(open, programmatic, options.priorities));
        capture.recorder.begin()?;
        Ok(capture)
    }
}
