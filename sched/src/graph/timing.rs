//! How long the nodes of a graph take by themselves.
//!
//! A single kernel is over before the host has submitted it, so a node is timed
//! in a chain: a graph of its own in which it, or several of its kind, run one
//! after another. Two chains of different lengths are replayed in turn, and what
//! the longer one takes more is shared out over its additional nodes: the cost of
//! a submission falls away, and the step from one node to the next stays in. It
//! is what the node adds to a path on which it lies.

use streamweir_hal::driver::NodeHandle;
use streamweir_hal::owned::{OwnedEvent, OwnedExec, OwnedGraph};
use streamweir_trace::{NodeId, NodeKind};

use super::Graph;
use crate::device::DeviceStream;
use crate::error::{During, Error, InstrumentError, Result};

/// Nodes of the shorter chain; the longer one has [`LONG`] times as many.
const SHORTEST: usize = 16;
const LONG: usize = 4;
/// Replays of each chain before any is timed.
const WARM_UP: usize = 2;

impl Graph {
    /// Microseconds that one of `nodes` takes, as the median over `replays`
    /// replays of chains in which they follow each other again and again, the
    /// step to the next node included.
    ///
    /// Several nodes make sense that do the same with different weights: one of
    /// them alone would find in the cache what it read the last time. What a library
    /// enqueued in one call belongs together, fills included, in its order.
    ///
    /// # Errors
    /// [`InstrumentError::NotTimed`](crate::InstrumentError::NotTimed) for a node that is neither kernel nor fill, or none at all;
    /// otherwise when the driver refuses, which the simulated device does: it has
    /// no clock.
    ///
    /// # Safety
    /// The nodes may run any number of times in a row, in this order, on whatever
    /// they and the others of the graph leave in their inputs: each ends, and stays
    /// in the bytes that it declares. What the graph writes is overwritten with results that
    /// mean nothing.
    pub unsafe fn time_chain(
        &self,
        stream: &DeviceStream,
        nodes: &[NodeId],
        replays: usize,
    ) -> Result<f64> {
        self.check_device(stream)?;
        stream.device.outside("Graph::time_chain")?;
        let handles = self.timed(nodes)?;
        let laps = SHORTEST.div_ceil(handles.len());
        let chains = [laps, laps * LONG].map(|laps| self.chain(&handles, laps));
        let [short, long] = chains;
        let chains = [short?, long?];
        let timed = self.time(&chains, stream, replays);
        // Whatever came of it, nothing of a chain is in flight when it goes, and it goes
        // now: nobody may take memory or capture for long.
        let idle = stream.synchronize();
        drop(chains);
        self.device.reclaim.collect();
        let [short, long] = timed?;
        idle?;
        let more = (laps * LONG - laps) * handles.len();
        Ok((long - short) / more as f64)
    }

    /// Microseconds of a replay, and of one in which `nodes` do nothing, as medians
    /// over `replays` replays of both in turn. The difference is what they cost the
    /// graph as it is: their own time where the graph waits for them, next to nothing
    /// where other work hides them, and what they take from that work if they take
    /// any.
    ///
    /// The driver puts an empty node in the place of each, with the same edges. What
    /// that makes of a kernel behind it that starts early is not documented.
    ///
    /// # Errors
    /// As [`time_chain`](Self::time_chain).
    ///
    /// # Safety
    /// The other nodes may run on whatever is in their inputs when these write
    /// nothing: each ends, and stays in the bytes that it declares. What the graph
    /// writes is overwritten with results that mean nothing.
    pub unsafe fn time_without(
        &self,
        stream: &DeviceStream,
        nodes: &[NodeId],
        replays: usize,
    ) -> Result<[f64; 2]> {
        self.check_device(stream)?;
        stream.device.outside("Graph::time_without")?;
        let handles = self.timed(nodes)?;
        let build = || {
            let graph = &self.parts().graph;
            let execs = [graph.instantiate()?, graph.instantiate()?];
            for &handle in &handles {
                // SAFETY: nodes of this graph, which is live; the exec is new.
                unsafe { execs[1].enable(handle, false)? };
            }
            Ok(execs)
        };
        let execs =
            build().during(|| format!("leaving nodes of graph \"{}\" out", self.about.name))?;
        let timed = self.time(&execs, stream, replays);
        // As above.
        let idle = stream.synchronize();
        drop(execs);
        self.device.reclaim.collect();
        let timed = timed?;
        idle?;
        Ok(timed)
    }

    /// The handles of kernels and fills.
    fn timed(&self, nodes: &[NodeId]) -> Result<Vec<NodeHandle>> {
        let refused = |node: String, why| {
            Error::Instrument(InstrumentError::NotTimed {
                graph: self.about.name.to_string(),
                node,
                why,
            })
        };
        if nodes.is_empty() {
            return Err(refused("no node".to_owned(), "there is nothing to time"));
        }
        let handle = |id: NodeId| {
            let Some(node) = self.about.trace.nodes.get(id.index()) else {
                return Err(refused(id.to_string(), "the graph has no such node"));
            };
            let named = || format!("{id} `{}`", node.name);
            if !matches!(node.kind, NodeKind::Kernel(_) | NodeKind::Memset(_)) {
                return Err(refused(named(), "only kernels and fills are timed"));
            }
            let found = self.parts().nodes.get(id.index()).copied().flatten();
            found.ok_or_else(|| refused(named(), "the driver's graph has no such node"))
        };
        nodes.iter().map(|&id| handle(id)).collect()
    }

    /// A graph in which the nodes run one after another, so many times.
    fn chain(&self, nodes: &[NodeHandle], laps: usize) -> Result<OwnedExec> {
        let reclaim = &self.device.reclaim;
        let build = || {
            // SAFETY: nodes of this graph, which is live.
            let alone = |&node: &NodeHandle| unsafe { OwnedGraph::alone(reclaim, node) };
            let ones = nodes.iter().map(alone).collect::<Result<Vec<_>, _>>()?;
            let mut chain = alone(&nodes[0])?;
            let mut last = chain.view().nodes()?;
            for at in 1..nodes.len() * laps {
                // SAFETY: the nodes that the graph began with, or was given last.
                last = vec![unsafe { chain.then(&last, &ones[at % ones.len()]) }?];
            }
            chain.instantiate()
        };
        build().during(|| format!("building a chain of nodes of graph \"{}\"", self.about.name))
    }

    /// The median times of two chains, in microseconds.
    fn time(
        &self,
        chains: &[OwnedExec; 2],
        stream: &DeviceStream,
        replays: usize,
    ) -> Result<[f64; 2]> {
        let during = || format!("timing nodes of graph \"{}\"", self.about.name);
        let event = || OwnedEvent::new(&self.device.reclaim, true).during(during);
        let [begin, end] = [event()?, event()?];
        let mut times = [Vec::new(), Vec::new()];
        for replay in 0..WARM_UP + replays.max(1) {
            for (chain, times) in chains.iter().zip(&mut times) {
                let scope = streamweir_hal::driver::EventScope::Internal;
                let once = || {
                    begin.record(&stream.stream, scope).during(during)?;
                    self.launch(chain, stream, during)?;
                    let ended = || {
                        end.record(&stream.stream, scope)?;
                        end.wait()?;
                        begin.elapsed_ms(&end)
                    };
                    ended().during(during)
                };
                let milliseconds = once()?;
                if replay >= WARM_UP {
                    times.push(f64::from(milliseconds) * 1e3);
                }
            }
        }
        Ok(times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        }))
    }
}

#[cfg(test)]
mod tests {
    use streamweir_hal::sim::SimDriver;

    use super::*;
    use crate::capture::CaptureOptions;
    use crate::device::Device;

    /// A planned capture is emitted in another order than it was recorded in, and the
    /// trace is in the order of the recording.
    #[test]
    fn a_node_of_the_trace_is_found_in_the_drivers_graph() {
        let device = Device::sim(1);
        let buffers: Vec<_> = (1..=6)
            .map(|len| device.persistent::<u8>("buffer", len).unwrap())
            .collect();
        let options = CaptureOptions::new("timed").planned();
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                main.fill(&buffers[0], 0)?;
                // Recorded early, and needed late.
                let side = cap.fork(&main, "side")?;
                side.fill(&buffers[1], 0)?;
                side.fill(&buffers[2], 0)?;
                main.fill(&buffers[3], 0)?;
                main.fill(&buffers[4], 0)?;
                cap.join(&main, side)?;
                main.fill(&buffers[5], 0)
            })
            .unwrap();
        let ids: Vec<_> = (0..graph.about.trace.nodes.len()).map(NodeId::at).collect();
        let handles = graph.timed(&ids).unwrap();
        let view = graph.parts().graph.view();
        for (id, &handle) in ids.iter().zip(&handles) {
            // SAFETY: a node of that graph.
            let found = unsafe { view.node(handle) }.unwrap();
            assert_eq!(found, graph.about.trace.node(*id).kind, "{id}");
        }
        let emitted = view.nodes().unwrap();
        assert_ne!(handles, emitted, "nothing was put in another order");
    }

    /// By a clock that counts slices.
    #[test]
    fn nodes_are_timed_by_themselves_and_by_what_is_left_without_them() {
        let driver = SimDriver::with_clock(1);
        let device = Device::with_driver(driver.clone());
        let stream = device.stream("timer").unwrap();
        let long: Vec<_> = (0..3)
            .map(|_| device.persistent::<u8>("long", 4096).unwrap())
            .collect();
        let short = device.persistent::<u8>("short", 1).unwrap();
        let (graph, ()) = device
            .capture::<_, Error>("timed", |cap| {
                let main = cap.origin();
                long.iter().try_for_each(|long| main.fill(long, 7))?;
                main.fill(&short, 7)
            })
            .unwrap();
        device.collect();
        let before = driver.live();
        let [a, b, c, d] = [0, 1, 2, 3].map(NodeId);
        // SAFETY: fills.
        let (chain, without) = unsafe {
            (
                |nodes: &[NodeId]| graph.time_chain(&stream, nodes, 3).unwrap(),
                |nodes: &[NodeId]| graph.time_without(&stream, nodes, 3).unwrap(),
            )
        };
        let [fill, less] = [chain(&[a]), chain(&[d])].map(f64::round);
        assert!(fill > less, "{fill} and {less}");
        assert_eq!(chain(&[a, b, c]).round(), fill);
        let [whole, rest] = without(&[b]);
        let [of_three, rest_of_three] = without(&[a, b, c]);
        assert_eq!(whole, of_three);
        assert!(rest < whole, "{rest} of {whole}");
        // A node that does nothing still is one.
        assert_eq!(
            (3.0 * (whole - rest)).round(),
            (whole - rest_of_three).round()
        );
        assert_eq!(device.retired(), 0);
        assert_eq!(driver.live(), before);
        // The graph itself is whole.
        for buffer in &long {
            buffer.upload(&[0; 4096]).unwrap();
        }
        graph.replay(&stream).unwrap();
        stream.synchronize().unwrap();
        for buffer in &long {
            assert_eq!(buffer.download().unwrap(), [7; 4096]);
        }
    }
}
