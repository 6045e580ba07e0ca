//! Replays between events.

use streamweir::{Device, DeviceStream, Event, Graph};

use super::error::Error;

/// Replays before any is timed.
const WARM_UP: usize = 3;

/// A stream to replay on, and two events.
pub(super) struct Timer {
    pub(super) stream: DeviceStream,
    begin: Event,
    end: Event,
}

impl Timer {
    pub(super) fn new(device: &Device) -> Result<Self, Error> {
        let timer = Self {
            stream: device.stream("profile")?,
            begin: device.event("begin")?,
            end: device.event("end")?,
        };
        // A device without a clock is told apart before anything large runs.
        timer.stream.record(&timer.begin)?;
        timer.stream.record(&timer.end)?;
        timer.stream.synchronize()?;
        timer.begin.elapsed_ms(&timer.end)?;
        Ok(timer)
    }

    /// The median microseconds of each graph, replayed in turn.
    pub(super) fn in_turn(&self, graphs: &[&Graph], replays: usize) -> Result<Vec<f64>, Error> {
        let mut times = vec![Vec::with_capacity(replays); graphs.len()];
        for replay in 0..WARM_UP + replays.max(1) {
            for (graph, times) in graphs.iter().zip(&mut times) {
                let us = self.replay(graph)?;
                if replay >= WARM_UP {
                    times.push(us);
                }
            }
        }
        Ok(times.into_iter().filter_map(median).collect())
    }

    /// Replays a graph, waits for it, and gives its microseconds.
    pub(super) fn replay(&self, graph: &Graph) -> Result<f64, Error> {
        self.stream.record(&self.begin)?;
        graph.replay(&self.stream)?;
        self.stream.record(&self.end)?;
        self.stream.synchronize()?;
        Ok(f64::from(self.begin.elapsed_ms(&self.end)?) * 1e3)
    }
}

/// The upper median, if there is any number.
pub(super) fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
