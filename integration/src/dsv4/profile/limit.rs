//! What bounds a step from below.

use streamweir_sched::{Device, part};
use streamweir_trace::{NodeId, Trace};

use super::roles::Roles;
use super::timer::Timer;
use crate::dsv4::error::Error;

/// Bytes of the copy that the bandwidth is measured with: far more than a cache.
const COPIED: usize = 1 << 30;
const COPIES: usize = 4;

/// Bytes in a second that a large copy reads and writes.
pub(super) fn bandwidth(device: &Device, timer: &Timer) -> Result<f64, Error> {
    let [from, to] = [
        device.persistent::<u8>("copied from", COPIED)?,
        device.persistent::<u8>("copied to", COPIED)?,
    ];
    let (graph, ()) = device.capture::<_, Error>("bandwidth", |capture| {
        for _ in 0..COPIES {
            let main = capture.origin();
            main.copy(part(&to, 0..COPIED)?, part(&from, 0..COPIED)?)?;
        }
        Ok(())
    })?;
    let us = timer.in_turn(&[&graph], 5)?[0];
    Ok((2 * COPIED * COPIES) as f64 / us * 1e6)
}

/// Microseconds of the longest path through a graph whose nodes take as long as
/// their roles do by themselves.
pub(super) fn critical_path(trace: &Trace, roles: &Roles) -> f64 {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
    for edge in &trace.edges {
        before[edge.to.index()].push(edge.from.index());
        after[edge.from.index()].push(edge.to.index());
    }
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..left.len()).filter(|&node| left[node] == 0).collect();
    let mut ends = vec![0.0_f64; left.len()];
    while let Some(node) = ready.pop() {
        let start = before[node].iter().map(|&b| ends[b]).fold(0.0, f64::max);
        ends[node] = start + roles.us(NodeId::at(node));
        for &next in &after[node] {
            left[next] -= 1;
            if left[next] == 0 {
                ready.push(next);
            }
        }
    }
    ends.into_iter().fold(0.0, f64::max)
}
