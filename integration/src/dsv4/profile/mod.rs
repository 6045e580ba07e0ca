//! How long a step takes with the overlap off and on, and how long it would take
//! at the least.
//!
//! For every bucket and context the graphs of all overlaps are replayed in turn,
//! so that a clock that drifts meets them alike. The least time is the larger of
//! two: the longest path through the graph with the full overlap, where every
//! kernel takes what it takes by itself
//! ([`Graph::time_chain`](streamweir::Graph::time_chain)) and every edge
//! what a step to another kernel adds; and the bytes that a step cannot do
//! without over the bandwidth at which they can be read. The time of an edge is
//! what the graph without overlap, one chain of all kernels, takes beyond their
//! sum: another kernel's code and inputs are not at hand, its own are.

mod limit;
mod roles;
mod what_if;

use streamweir::kernels::layout::PageLayout;
use streamweir::trace::NodeId;
use streamweir::verify::{Axis, chrome};
use streamweir::{ArenaConfig, Device, Graph};

pub use roles::Role;

use self::limit::{bandwidth, critical_path};
use self::roles::Roles;
use super::arm::{Arm, Exec, Pools, Setup};
use super::config::{LayerKind, Overlap, WINDOW};
use super::engine::Engine;
use super::error::Error;
use super::geometry::KeyPages;
use super::inputs::Row;
use super::pages::Sequence;
use super::timer::Timer;
use crate::common::name_of;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Lengths of all sequences, in ascending order.
    pub contexts: Vec<u32>,
    /// Replays of each graph that are timed, and no more of each chain of kernels.
    pub replays: usize,
    /// Also replay the full overlap without each role, and with its longest path
    /// alone, to see what they cost there.
    pub what_if: bool,
    /// Also keep the step with the full overlap as a trace for Perfetto.
    pub chrome: bool,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The device and its name.
    pub device: String,
    /// The model, and the buckets.
    pub setup: Setup,
    /// Bytes in a second that the memory is seen to move.
    pub bandwidth: f64,
    /// One for each bucket and context.
    pub points: Vec<Point>,
}

/// A bucket at a context.
#[derive(Clone, Debug)]
pub struct Point {
    /// Rows of the step.
    pub bucket: u32,
    /// Tokens of the longest sequence; each of the others has one less.
    pub context: u32,
    /// Microseconds of a step, and lanes of its replay, by overlap.
    pub steps: Vec<(Overlap, f64, usize)>,
    /// Microseconds that an edge between different kernels adds.
    pub edge: f64,
    /// Microseconds of the longest path, its edges included.
    pub critical_path: f64,
    /// Microseconds of the step with the full overlap when nothing but that path does
    /// anything, where that was measured.
    pub path_alone: Option<f64>,
    /// Bytes that the step reads and writes at the least.
    pub bytes: u64,
    /// What kernels take by themselves, the largest share first.
    pub roles: Vec<Role>,
    /// The step with the full overlap as Chrome trace JSON, each kernel as long as it
    /// takes by itself, where that was asked for.
    pub chrome: Option<String>,
}

impl Point {
    /// Microseconds of a step with this overlap.
    pub fn us(&self, overlap: Overlap) -> f64 {
        us_of(&self.steps, overlap)
    }

    /// Lanes of the replay with this overlap.
    pub fn lanes(&self, overlap: Overlap) -> usize {
        let step = self.steps.iter().find(|step| step.0 == overlap);
        step.map_or(0, |step| step.2)
    }

    /// How many times as fast the full overlap is as none.
    pub fn speedup(&self) -> f64 {
        self.us(Overlap::Off) / self.us(Overlap::Full)
    }

    /// Microseconds that no overlap undercuts, for a device of this bandwidth.
    pub fn limit(&self, bandwidth: f64) -> f64 {
        self.critical_path.max(self.bytes as f64 / bandwidth * 1e6)
    }
}

impl Profile {
    /// Measures every bucket of the setup at every context.
    ///
    /// # Errors
    /// When the model cannot be made, a context does not fit the setup, a capture
    /// is refused, or the device fails: the simulated one has no clock.
    pub fn run(
        device: &Device,
        setup: Setup,
        options: &ProfileOptions,
        mut done: impl FnMut(&Point),
    ) -> Result<Self, Error> {
        let timer = Timer::new(device)?;
        let mut engine = Engine::new(device, setup.clone())?;
        let bandwidth = bandwidth(device, &engine, &timer)?;
        let mut points = Vec::new();
        let mut pages = engine.reset()?;
        let rows = setup.capacity.rows;
        let mut sequences = (0..rows)
            .map(|_| pages.begin())
            .collect::<Result<Vec<_>, _>>()?;
        let mut buckets = Vec::new();
        for &bucket in setup.buckets.iter().rev() {
            buckets.push((bucket, graphs(device, &engine, bucket)?));
        }
        buckets.reverse();
        for &context in &options.contexts {
            for (row, sequence) in (0..).zip(&mut sequences) {
                // Every phase of the compressors' groups is there.
                pages.grow(sequence, context.saturating_sub(row).max(1))?;
            }
            for (bucket, graphs) in &buckets {
                let batch = &sequences[..*bucket as usize];
                engine.stage(&rows_of(batch))?;
                let point = point(&engine, &timer, *bucket, context, graphs, options)?;
                done(&point);
                points.push(point);
            }
        }
        Ok(Self {
            device: name_of(device),
            setup,
            bandwidth,
            points,
        })
    }
}

fn rows_of(batch: &[Sequence]) -> Vec<Row<'_>> {
    let row = |sequence| Row { sequence, token: 1 };
    batch.iter().map(row).collect()
}

/// The graphs of a bucket, one for each overlap.
fn graphs(device: &Device, engine: &Engine, bucket: u32) -> Result<Vec<(Overlap, Graph)>, Error> {
    let group = device.replay_group("profile", ArenaConfig::default());
    (Overlap::ALL.into_iter())
        .map(|overlap| {
            let arm = Arm {
                overlap,
                pools: Pools::Tagged,
                exec: Exec::Graph,
            };
            Ok((overlap, engine.capture(arm, bucket, &group)?))
        })
        .collect()
}

fn point(
    engine: &Engine,
    timer: &Timer,
    bucket: u32,
    context: u32,
    graphs: &[(Overlap, Graph)],
    options: &ProfileOptions,
) -> Result<Point, Error> {
    let all: Vec<&Graph> = graphs.iter().map(|(_, graph)| graph).collect();
    let times = timer.in_turn(&all, options.replays)?;
    let steps: Vec<_> = (graphs.iter().zip(times))
        .map(|((overlap, graph), us)| (*overlap, us, graph.replay_streams()))
        .collect();
    let (_, full) = graphs
        .iter()
        .find(|(overlap, _)| *overlap == Overlap::Full)
        .expect("every overlap has a graph");
    let config = &engine.setup().config;
    let mut roles = roles::measure(full, config, timer, options.replays)?;
    let edge = roles.edge(us_of(&steps, Overlap::Off));
    let path = critical_path(full.trace(), &roles, edge);
    let mut path_alone = None;
    if options.what_if {
        let share = what_if::path_alone(full, &path.nodes, timer, options.replays)?;
        path_alone = Some(us_of(&steps, Overlap::Full) * share);
        what_if::leave_out_roles(full, &mut roles, timer, options.replays)?;
    }
    let drawn = match options.chrome {
        true => Some(drawn(full, &roles)?),
        false => None,
    };
    Ok(Point {
        bucket,
        context,
        steps,
        edge,
        critical_path: path.us,
        path_alone,
        bytes: step_bytes(engine, bucket, context),
        roles: roles.roles,
        chrome: drawn,
    })
}

/// A step as a trace for Perfetto, by the measured time of each kernel.
fn drawn(graph: &Graph, roles: &Roles) -> Result<String, Error> {
    let nodes = (0..graph.trace().nodes.len()).map(NodeId::at);
    // A difference of two chains, which may be less than nothing by its noise.
    let times: Vec<f64> = nodes.map(|node| roles.us(node).max(0.0)).collect();
    let axis = Axis::Measured(&times);
    Ok(chrome(graph.trace(), graph.report(), axis)?)
}

/// Microseconds of the step with an overlap.
fn us_of(steps: &[(Overlap, f64, usize)], overlap: Overlap) -> f64 {
    let step = steps.iter().find(|step| step.0 == overlap);
    step.map_or(f64::NAN, |step| step.1)
}

/// Bytes that a step reads at the least, for so many rows of so many tokens:
/// every weight once, every entry that attention or indexer looks at. What goes
/// from one kernel to the next may stay in the cache, and is left out.
fn step_bytes(engine: &Engine, rows: u32, context: u32) -> u64 {
    let config = &engine.setup().config;
    let of_token = |pages: &PageLayout| u64::from(pages.value_bytes() + pages.scale_bytes());
    let latent = of_token(engine.model().geometry.c4.layout());
    let key = match &engine.model().geometry.keys {
        KeyPages::Bf16(pages) => of_token(pages.layout()),
        KeyPages::Fp8(pages) => of_token(pages.layout()),
    };
    let cached = (0..config.layers).map(|layer| {
        let entries = match config.kind(layer) {
            LayerKind::Window => 0,
            LayerKind::C4 => {
                let entries = u64::from(context / 4);
                entries * key + entries.min(config.top_k.into()) * latent
            }
            LayerKind::C128 => u64::from(context / 128) * latent,
        };
        u64::from(context.min(WINDOW)) * latent + entries
    });
    engine.model().weights.bytes() + u64::from(rows) * cached.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use streamweir::driver::sim::SimDriver;

    use super::*;

    /// By a clock that counts slices a step takes as long as all of its work, and is
    /// shorter by what does nothing.
    #[test]
    fn a_point_says_what_a_step_saves_without_its_parts() {
        let device = Device::with_driver(SimDriver::with_clock(1));
        let timer = Timer::new(&device).unwrap();
        let mut engine = Engine::new(&device, Setup::of_three_layers(1)).unwrap();
        let mut pages = engine.reset().unwrap();
        let mut sequence = pages.begin().unwrap();
        pages.grow(&mut sequence, 40).unwrap();
        engine.stage(&rows_of(&[sequence])).unwrap();
        let graphs = graphs(&device, &engine, 1).unwrap();
        let options = ProfileOptions {
            contexts: vec![40],
            replays: 1,
            what_if: true,
            chrome: true,
        };
        let point = point(&engine, &timer, 1, 40, &graphs, &options).unwrap();

        // Every node is drawn, and those of the roles as long as they take.
        let drawn: serde_json::Value =
            serde_json::from_str(point.chrome.as_deref().unwrap()).unwrap();
        let bars = drawn["traceEvents"].as_array().unwrap().iter();
        let bars = bars.filter(|event| event["ph"] == "X");
        let drawn: f64 = bars.map(|bar| bar["dur"].as_f64().unwrap()).sum();

        // Whatever overlaps, the work is the same.
        let full = point.us(Overlap::Full);
        assert_eq!(full, point.us(Overlap::Off));
        let nodes: usize = point.roles.iter().map(|role| role.nodes).sum();
        let alone = |role: &Role| role.us * role.nodes as f64;
        let sum: f64 = point.roles.iter().map(alone).sum();
        let about = |a: f64, b: f64, nodes: usize| (a - b).abs() <= 3.0 * nodes as f64;
        assert!((drawn - sum).abs() < 1e-6 * sum, "{drawn} of {sum}");
        assert!(about(sum, full, nodes), "{sum} of {full}, {nodes} nodes");
        for role in &point.roles {
            let saves = role.saves.unwrap();
            assert!(about(saves, alone(role), role.nodes), "{role:?}");
        }
        let ordered = point.roles.is_sorted_by(|a, b| alone(a) >= alone(b));
        assert!(ordered, "{:?}", point.roles);
        // The longest path is all that is left, and a good part of it is not.
        let path = point.path_alone.unwrap();
        assert!(
            about(path, point.critical_path, nodes),
            "{path} and {}",
            point.critical_path
        );
        assert!(path < 0.9 * full, "{path} of {full}");
    }
}
