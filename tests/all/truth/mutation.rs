//! Every join taken out of every safe capture, one at a time.
//!
//! Either the verifier notices, or the closure shows that the join was
//! redundant: no two conflicting accesses have lost their order. Then the
//! simulated device has nothing to show either.

use std::cell::Cell;

use streamweir::trace::Trace;
use streamweir::verify::{Verdict, verify};

use super::corpus;
use super::fixes::mended;
use super::order::{Order, addresses, common};
use super::play::Play;
use super::random;

#[derive(Default)]
pub(crate) struct Tally {
    noticed: Cell<u32>,
    redundant: Cell<u32>,
}

impl Tally {
    /// Takes out each edge between two streams in turn.
    pub(crate) fn take_out(&self, name: &str, safe: &Trace, replay: bool) {
        assert_eq!(verify(safe).unwrap().verdict, Verdict::Safe, "{name}");
        let order = Order::new(safe, None);
        for (at, edge) in safe.edges.iter().enumerate() {
            if safe.node(edge.from).stream == safe.node(edge.to).stream {
                continue;
            }
            let mut mutant = safe.clone();
            mutant.edges.remove(at);
            let report = verify(&mutant).unwrap();
            if report.verdict == Verdict::Hazard {
                self.noticed.set(self.noticed.get() + 1);
                continue;
            }
            let without = Order::new(safe, Some(at));
            assert!(
                !loses_order(safe, &order, &without),
                "{name}: nobody misses the edge from {} to {}",
                edge.from,
                edge.to
            );
            self.redundant.set(self.redundant.get() + 1);
            if replay && let Some(found) = Play::of(&mutant).explore() {
                let meant = Play::meaning(safe);
                assert!(found.outcomes.iter().all(|o| o.bytes == meant), "{name}");
            }
        }
    }

    /// How many joins were missed, and how many were redundant.
    pub(crate) fn counts(&self) -> (u32, u32) {
        (self.noticed.get(), self.redundant.get())
    }
}

/// Whether two accesses that need an order have lost it.
fn loses_order(trace: &Trace, order: &Order, without: &Order) -> bool {
    trace.accesses.iter().any(|one| {
        trace.accesses.iter().any(|two| {
            let needed = match one.buffer == two.buffer {
                true => one.mode.conflicts(two.mode),
                false => one.mode.writes() || two.mode.writes(),
            };
            needed
                && order.before(one.node, two.node)
                && !without.before(one.node, two.node)
                && !common(addresses(trace, one), addresses(trace, two)).is_empty()
        })
    })
}

#[test]
fn of_minimal_captures() {
    let tally = Tally::default();
    for (name, trace) in corpus::safe() {
        tally.take_out(name, &trace, true);
    }
    for (name, trace) in corpus::breaking() {
        tally.take_out(name, &mended(&trace), true);
    }
    let (noticed, redundant) = tally.counts();
    assert!(noticed >= 8 && redundant >= 1, "{noticed}, {redundant}");
}

#[test]
fn of_layers() {
    let tally = Tally::default();
    let isolated = corpus::layers(corpus::Pools::Isolated, 3);
    tally.take_out("isolated", &isolated, false);
    let (noticed, redundant) = tally.counts();
    assert!(noticed >= 6, "{noticed} noticed, {redundant} redundant");
    let shared = mended(&corpus::layers(corpus::Pools::HostOrder, 3));
    tally.take_out("host order, mended", &shared, false);
}

#[test]
fn of_random_captures() {
    let tally = Tally::default();
    let ran = random::runner(800).run(&random::trace(), |trace| {
        tally.take_out("random", &mended(&trace), true);
        Ok(())
    });
    ran.unwrap();
    let (noticed, redundant) = tally.counts();
    println!("{noticed} noticed, {redundant} redundant");
    assert!(noticed > 400 && redundant > 400, "{noticed}, {redundant}");
}
