//! Verified graphs, and their replay.

mod group;
mod keep;
mod renew;
mod replay_streams;
mod timing;

use std::fmt;
use std::sync::Arc;

use streamweir_alloc::PoolReport;
use streamweir_base::sync::Mutex;
use streamweir_hal::driver::NodeHandle;
use streamweir_hal::owned::{OwnedExec, OwnedGraph};
use streamweir_trace::Trace;
use streamweir_verify::{Axis, Certificate, Report};

pub(crate) use group::GroupInner;
pub use group::ReplayGroup;
pub(crate) use keep::Keep;
pub(crate) use replay_streams::replay_streams;

use crate::device::{DeviceInner, DeviceStream};
use crate::error::{During, Error, FeedError, Name, Result};
use crate::spans::span;
use crate::turns::{self, Footprint, Launch, Turn, in_turn};

/// A captured, verified and instantiated graph.
///
/// It keeps alive all that it refers to. It is `Send + Sync`; replays from
/// several threads take turns. Dropped in flight, it is released when its last
/// launch has ended.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::{Device, Error};
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let out = device.persistent::<u32>("out", 4)?;
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().fill(&out, 7))?;
/// println!("{}", graph.report()); // what was checked, and what was assumed
/// assert!(graph.certificate().is_some());
///
/// let stream = device.stream("replay")?;
/// for _ in 0..3 {
///     graph.replay(&stream)?; // one launch
/// }
/// drop(graph); // released when its last replay has ended
/// # Ok(())
/// # }
/// ```
pub struct Graph {
    number: u64,
    device: Arc<DeviceInner>,
    /// What must outlive the last launch, in the order in which it is released.
    held: Option<(OwnedExec, Parts)>,
    /// An update has failed half-way, so nobody knows what a launch would do.
    unsure: bool,
    turns: Vec<Arc<Turn<Arc<Launch>>>>,
    last: Mutex<Option<Arc<Launch>>>,
    footprint: Arc<Footprint>,
    about: About,
}

/// What a graph consists of beside its instance. Most of it is held and never looked at.
#[allow(dead_code)]
pub(crate) struct Parts {
    pub(crate) graph: OwnedGraph,
    /// The node of `graph` that each node of the trace is.
    pub(crate) nodes: Vec<Option<NodeHandle>>,
    pub(crate) keep: Keep,
    pub(crate) home: Arc<GroupInner>,
}

/// What is known of a graph.
pub(crate) struct About {
    pub(crate) name: Name,
    pub(crate) trace: Trace,
    pub(crate) report: Report,
    pub(crate) pools: PoolReport,
    pub(crate) replay_streams: usize,
}

impl Graph {
    pub(crate) fn new(
        device: Arc<DeviceInner>,
        exec: OwnedExec,
        parts: Parts,
        about: About,
    ) -> Self {
        let footprint = Arc::new(Footprint::of(&about.trace));
        let turns = device.groups.enroll(&parts.home.turns, &footprint);
        Self {
            number: device.next_number(),
            device,
            held: Some((exec, parts)),
            unsure: false,
            turns,
            last: Mutex::ranked(turns::LATEST, None),
            footprint,
            about,
        }
    }

    /// The name of the capture.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// Launches the graph on `stream`, after every launch in flight whose
    /// bytes conflict with its own.
    ///
    /// # Errors
    /// When the stream is of another device or the driver refuses.
    pub fn replay(&self, stream: &DeviceStream) -> Result<()> {
        let _span = span!("replay", self.about.name);
        self.check_device(stream)?;
        self.launch(self.exec(), stream, || {
            format!(
                "replaying graph \"{}\" on \"{}\"",
                self.about.name,
                stream.name()
            )
        })
    }

    fn launch(
        &self,
        exec: &OwnedExec,
        stream: &DeviceStream,
        during: impl Fn() -> String,
    ) -> Result<()> {
        let enqueue = || {
            // In turn: whoever holds memory has marked it, then taken all turns.
            self.check_held()?;
            // SAFETY: all that the graph refers to is in `parts.keep`, which `drop`
            // hands to the reclaimer behind the latest launch.
            unsafe { stream.stream.launch_graph(exec) }.during(&during)
        };
        if let [turn] = &self.turns[..] {
            let again = turn.again(
                |last| last.is(self.number, &stream.stream),
                enqueue,
                |last| {
                    // Whoever asked for its event before now waits for the
                    // launches before this one only.
                    (!last.stands_for_later()).then(|| self.entered(stream))
                },
            )?;
            if again {
                return Ok(());
            }
        }
        let reclaim = &self.device.reclaim;
        let mut fenced = Ok(());
        in_turn(
            &self.turns,
            |last| last.before(reclaim, &stream.stream).during(&during),
            || {
                enqueue()?;
                // It runs now, so it is the latest launch whatever comes next.
                let launch = self.entered(stream);
                fenced = launch.record_where_due(reclaim);
                Ok(launch)
            },
        )?;
        fenced.during(during)
    }

    /// Refuses to launch while the host holds page-locked memory that is touched, or after
    /// a function of the host has left some behind in a panic.
    fn check_held(&self) -> Result<()> {
        let pinned = &self.parts().keep.pinned;
        if self.unsure {
            return Err(Error::Unsure {
                graph: self.about.name.to_string(),
            });
        }
        for memory in pinned {
            if let Some(why) = memory.poisoned() {
                return Err(Error::Feed(FeedError::Poisoned {
                    buffer: memory.buffer.name.to_string(),
                    why,
                }));
            }
        }
        match pinned.iter().find(|memory| memory.is_held()) {
            None => Ok(()),
            Some(held) => Err(Error::Feed(FeedError::HostHolds {
                graph: self.about.name.to_string(),
                buffer: held.buffer.name.to_string(),
            })),
        }
    }

    /// The launch that has just been enqueued, as this graph's latest.
    fn entered(&self, stream: &DeviceStream) -> Arc<Launch> {
        let launch = Launch::of_graph(self.number, &stream.stream);
        *self.last.lock() = Some(launch.clone());
        launch
    }

    /// Moves the graph to the device ahead of its first replay.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn upload(&self, stream: &DeviceStream) -> Result<()> {
        self.check_device(stream)?;
        stream
            .stream
            .upload_graph(self.exec())
            .during(|| format!("uploading graph \"{}\"", self.about.name))
    }

    /// What the verifier found: no hazard, unless the capture was asked only to
    /// report.
    pub fn report(&self) -> &Report {
        &self.about.report
    }

    /// The proof, when the verdict is safe.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.about.report.certificate.as_ref()
    }

    /// The record of the capture, in the order that the driver's graph has:
    /// what the [certificate](Self::certificate) is about.
    pub fn trace(&self) -> &Trace {
        &self.about.trace
    }

    /// The graph as Chrome trace JSON, for Perfetto: a lane for each captured stream, a
    /// flow for each join, and for each join that a hazard misses a flow of its own. The
    /// axis is the order of the graph and no time
    /// ([`verify::chrome`](streamweir_verify::chrome) draws measured times).
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// # use streamweir::{Device, Error};
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// # let out = device.persistent::<u32>("out", 4)?;
    /// # let (graph, ()) = device.capture::<_, Error>("step", |cap| cap.origin().fill(&out, 7))?;
    /// # let folder = std::env::temp_dir();
    /// let file = folder.join("step.chrome.json");
    /// std::fs::write(file, graph.chrome_trace()).expect("a folder that can be written to");
    /// # Ok(())
    /// # }
    /// ```
    pub fn chrome_trace(&self) -> String {
        let drawn = streamweir_verify::chrome(&self.about.trace, &self.about.report, Axis::Order);
        drawn.expect("the trace of a graph was verified")
    }

    /// The use of its scratch pools at the end of the capture.
    pub fn pools(&self) -> &PoolReport {
        &self.about.pools
    }

    /// The bytes it reads and writes.
    pub fn footprint(&self) -> &Footprint {
        &self.footprint
    }

    /// How many streams of its own the driver replays it on, by the rule that is
    /// known of it: a node goes on with the stream of its first-recorded parent
    /// that nobody has gone on with, and opens one where there is none. It is
    /// computed from nodes and edges; no driver tells it.
    pub fn replay_streams(&self) -> usize {
        self.about.replay_streams
    }

    fn exec(&self) -> &OwnedExec {
        &self.held().0
    }

    fn parts(&self) -> &Parts {
        &self.held().1
    }

    fn held(&self) -> &(OwnedExec, Parts) {
        self.held.as_ref().expect("only drop takes what is held")
    }

    /// The replay group, be it one that it has alone.
    pub(crate) fn group(&self) -> ReplayGroup {
        ReplayGroup {
            inner: self.parts().home.clone(),
        }
    }

    /// Refuses another device than the graph's.
    pub(crate) fn check_on(&self, device: &Arc<DeviceInner>) -> Result<()> {
        match Arc::ptr_eq(device, &self.device) {
            true => Ok(()),
            false => Err(Error::OtherDevice {
                what: format!("graph \"{}\"", self.about.name),
                used_on: device.reclaim.info().name.clone(),
            }),
        }
    }

    fn check_device(&self, stream: &DeviceStream) -> Result<()> {
        if Arc::ptr_eq(&stream.device, &self.device) {
            return Ok(());
        }
        Err(Error::OtherDevice {
            what: format!("graph \"{}\"", self.about.name),
            used_on: format!("stream \"{}\"", stream.name()),
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        let reclaim = &self.device.reclaim;
        let last = self.last.get_mut().take();
        let fences = last.map(|last| last.fence(reclaim)).into_iter().collect();
        // The group is asked for conflicts as long as the launch is in flight.
        let held = (held, self.footprint.clone());
        reclaim.retire(fences, Box::new(held));
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("name", &self.about.name)
            .field("nodes", &self.about.trace.nodes.len())
            .field("verdict", &self.about.report.verdict)
            .finish_non_exhaustive()
    }
}
