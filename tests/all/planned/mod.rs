//! Planned captures: one closure for all modes, what the plan gains, and what
//! cannot be had before it is made.

mod calls;
mod random;

use std::sync::{Arc, Mutex};

use streamweir::driver::MemoryCalls;
use streamweir::driver::sim::SimDriver;
use streamweir::verify::Rule;
use streamweir::{
    Capture, CaptureOptions, Device, Error, ForeignCall, Graph, Persistent, Placement, Policy,
    reads, writes,
};

use crate::common::{Kernels, LEN, N, NOTHING, SMALL, bump, live, plus, sim, sum};

struct Engine {
    driver: Arc<SimDriver>,
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
}

impl Engine {
    fn new(seed: u64) -> Self {
        let (device, driver) = sim(seed);
        Self {
            driver,
            kernels: Kernels::load(&device).unwrap(),
            x: device.persistent_from("x", &[1, 2, 3, 4]).unwrap(),
            y: device.persistent("y", LEN).unwrap(),
            device,
        }
    }

    fn capture(
        &self,
        options: CaptureOptions,
        record: impl FnOnce(&Capture) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        let (graph, ()) = self.device.capture(options.arena(SMALL), record)?;
        Ok(graph)
    }

    /// Three layers, each with side work that is recorded early, as engines do.
    ///
    /// ```text
    /// main   x ─┬─ q ─┬─ x' ─┬─ ...
    /// side      └─ k ─┘      └─ ...
    /// ```
    fn layers(&self, cap: &Capture) -> Result<(), Error> {
        let main = cap.origin();
        let mut x = main.scratch::<u32>("x", LEN)?;
        main.copy(&x, &self.x)?;
        for layer in 0..3 {
            let side = cap.fork(&main, "side")?;
            let k = side.scratch::<u32>(format!("k{layer}"), LEN)?;
            side.launch(
                &self.kernels.plus,
                plus {
                    input: &x,
                    output: &k,
                    more: 1,
                    len: N,
                },
            )?;
            let q = main.scratch::<u32>(format!("q{layer}"), LEN)?;
            main.launch(
                &self.kernels.plus,
                plus {
                    input: &x,
                    output: &q,
                    more: 10,
                    len: N,
                },
            )?;
            cap.join(&main, side)?;
            let next = main.scratch::<u32>(format!("x{layer}"), LEN)?;
            main.launch(
                &self.kernels.sum,
                sum {
                    left: &q,
                    right: &k,
                    output: &next,
                    len: N,
                },
            )?;
            x = next;
        }
        main.copy(&self.y, &x)
    }

    fn replayed(&self, graph: &Graph) -> Vec<u32> {
        let stream = self.device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        self.y.download().unwrap()
    }
}

fn planned(name: &str) -> CaptureOptions {
    CaptureOptions::new(name).planned()
}

#[test]
fn one_closure_serves_live_planned_and_eager() {
    for seed in 0..20 {
        let engine = Engine::new(seed);
        let live = engine
            .capture("layers".into(), |cap| engine.layers(cap))
            .unwrap();
        let plan = engine
            .capture(planned("layers"), |cap| engine.layers(cap))
            .unwrap();
        assert!(plan.certificate().is_some(), "{}", plan.report());
        let bits = engine.replayed(&live);
        engine.y.upload(&[0; LEN]).unwrap();
        assert_eq!(engine.replayed(&plan), bits, "seed {seed}");
        engine.y.upload(&[0; LEN]).unwrap();
        engine
            .device
            .eager::<_, Error>(planned("layers"), |cap| engine.layers(cap))
            .unwrap();
        assert_eq!(engine.y.download().unwrap(), bits, "seed {seed}");
    }
}

#[test]
fn side_work_emitted_before_its_join_saves_lanes() {
    let engine = Engine::new(1);
    let live = engine
        .capture("layers".into(), |cap| engine.layers(cap))
        .unwrap();
    let plan = engine
        .capture(planned("layers"), |cap| engine.layers(cap))
        .unwrap();
    // Recorded early, the side takes the main chain's lane in each layer.
    assert_eq!(live.replay_streams(), 4);
    assert_eq!(plan.replay_streams(), 2);
    assert_eq!(live.trace().edges, plan.trace().edges, "edge for edge");
}

/// Its library keeps it from one replay to the next, so that no buffer may have
/// its bytes, not even before its first and after its last use.
#[test]
fn a_workspace_shares_bytes_with_nothing() {
    for policy in [Policy::ISOLATED, Policy::ORDERED] {
        let engine = Engine::new(1);
        let graph = engine
            .capture(planned("workspace").policy(policy), |cap| {
                let main = cap.origin();
                let before = main.scratch::<u32>("before", LEN)?;
                main.copy(&before, &engine.x)?;
                let held = main.workspace("held", 4 * LEN)?;
                main.fill(&held, 0)?;
                let after = main.scratch::<u32>("after", LEN)?;
                main.copy(&after, &engine.x)?;
                main.copy(&engine.y, &after)
            })
            .unwrap();
        let buffers = &graph.trace().buffers;
        let held = buffers.iter().find(|buffer| buffer.name == "held").unwrap();
        let sharing = buffers
            .iter()
            .filter(|other| other.range.overlaps(&held.range));
        assert_eq!(sharing.count(), 1, "{policy}: {buffers:?}");
    }
}

#[test]
fn buffers_share_bytes_once_their_last_use_is_ordered() {
    let engine = Engine::new(1);
    // All are dropped at the end, so that live pools can use nothing again.
    let chain = |cap: &Capture| {
        let main = cap.origin();
        let mut all = vec![main.scratch::<u32>("0", LEN)?];
        main.copy(&all[0], &engine.x)?;
        for i in 1..6 {
            let next = main.scratch::<u32>(i.to_string(), LEN)?;
            main.launch(
                &engine.kernels.plus,
                plus {
                    input: &all[i - 1],
                    output: &next,
                    more: 1,
                    len: N,
                },
            )?;
            all.push(next);
        }
        main.copy(&engine.y, &all[5])
    };
    let live = engine.capture("chain".into(), chain).unwrap();
    let plan = engine.capture(planned("chain"), chain).unwrap();
    assert_eq!(live.pools().reserved, 6 * 256);
    assert_eq!(plan.pools().reserved, 2 * 256);
    assert_eq!(plan.pools().streams[0].reserved, 2 * 256);
    let held: u64 = plan.trace().reserved.iter().map(|r| r.range.len()).sum();
    assert_eq!(held, 2 * 256);
    assert_eq!(engine.replayed(&plan), [6, 7, 8, 9]);
}

#[test]
fn isolated_pools_are_disjoint_and_ordered_ones_share() {
    let engine = Engine::new(1);
    let record = |cap: &Capture| {
        let main = cap.origin();
        let a = main.scratch::<u32>("a", LEN)?;
        main.copy(&a, &engine.x)?;
        main.copy(&engine.y, &a)?;
        let side = cap.fork(&main, "side")?;
        let b = side.scratch::<u32>("b", LEN)?;
        side.copy(&b, &engine.y)?;
        side.copy(&engine.y, &b)?;
        cap.join(&main, side).map(drop)
    };
    let ranges = |policy| {
        let graph = engine
            .capture(planned("two").policy(policy), record)
            .unwrap();
        let buffers = graph.trace().buffers.iter();
        let scratch = buffers.filter(|b| b.name == "a" || b.name == "b");
        let ranges: Vec<_> = scratch.map(|b| b.range).collect();
        (ranges, graph.pools().reserved)
    };
    let (isolated, bytes) = ranges(Policy::ISOLATED);
    assert!(!isolated[0].overlaps(&isolated[1]));
    assert_eq!(bytes, 512);
    let (ordered, bytes) = ranges(Policy::ORDERED);
    assert_eq!(ordered[0], ordered[1]);
    assert_eq!(bytes, 256);
}

#[test]
fn a_missing_join_is_refused_as_in_a_live_capture() {
    let engine = Engine::new(1);
    let record = |cap: &Capture| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let a = side.scratch::<u32>("a", LEN)?;
        side.copy(&a, &engine.x)?;
        main.copy(&engine.y, &a)?;
        cap.join(&main, side).map(drop)
    };
    let [live, plan] = [CaptureOptions::new("early"), planned("early")].map(|options| {
        let error = engine.capture(options, record).unwrap_err();
        let report = error.report().expect("it is refused").clone();
        let rules: Vec<Rule> = report.hazards.iter().map(|hazard| hazard.rule).collect();
        rules
    });
    assert!(plan.contains(&Rule::UnorderedConflict));
    assert_eq!(live, plan);
    engine
        .capture(planned("next"), |cap| engine.layers(cap))
        .unwrap();
}

#[test]
fn an_arena_that_cannot_grow_names_the_bytes() {
    let sim = SimDriver::with_memory(1, 64 << 10);
    let device = Device::with_driver(sim.clone());
    let y = device.persistent::<u8>("y", 1024).unwrap();
    let before = live(&sim);
    let record = |cap: &Capture, bytes: usize| {
        let main = cap.origin();
        let a = main.scratch::<u8>("a", bytes)?;
        main.fill(&a, 0)
    };
    let options = || planned("large").arena(SMALL);
    let error = device
        .capture::<_, Error>(options(), |cap| record(cap, 128 << 10))
        .unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    assert!(error.to_string().contains("131072 bytes"), "{error}");
    device.collect();
    assert_eq!(live(&sim), before);
    device
        .capture::<_, Error>(options(), |cap| record(cap, 32 << 10))
        .unwrap();
    drop((y, device));
    assert_eq!(sim.live(), NOTHING);
}

#[test]
fn a_larger_bucket_makes_the_arena_longer_in_place() {
    let (device, driver) = sim(1);
    let group = device.replay_group("buckets", SMALL);
    let capture = |bytes: usize| {
        let record = |cap: &Capture| {
            let main = cap.origin();
            let a = main.scratch::<u8>("a", bytes)?;
            main.fill(&a, 0)?;
            Ok::<_, Error>(a)
        };
        let options = planned("bucket").group(&group);
        let (graph, a) = device.capture(options, record).unwrap();
        (graph, a.range().unwrap())
    };
    let (small, before) = capture(4 << 10);
    assert_eq!(group.reserved(), 4 << 10);
    let (large, after) = capture(24 << 10);
    assert_eq!(group.reserved(), 24 << 10, "the most, not the sum");
    assert_eq!(after.start, before.start, "in place");
    assert_eq!(driver.live().reservations, 1);
    let stream = device.stream("replay").unwrap();
    large.replay(&stream).unwrap();
    small.replay(&stream).unwrap();
    device.synchronize().unwrap();
    drop(large);
    device.synchronize().unwrap();
    assert_eq!(group.trim(), 20 << 10, "what only the larger one covered");
    // The end was unmapped, so a further bucket grows into the same addresses.
    let (further, again) = capture(12 << 10);
    assert_eq!(group.reserved(), 12 << 10);
    assert_eq!(again.start, before.start);
    assert_eq!(driver.live().reservations, 1);
    drop((small, further));
    device.synchronize().unwrap();
    assert_eq!(group.trim(), 12 << 10);
    assert_eq!(live(&driver), NOTHING);
}
