//! Fixes: applied one after the other they end in a safe verdict, each mends
//! the hazard it stands beside, and what was wrong comes out right.

use streamweir::trace::Trace;
use streamweir::verify::{Verdict, verify};

use super::corpus;
use super::play::Play;

/// The trace with the first suggested fix applied until there is none.
#[track_caller]
pub(crate) fn mended(trace: &Trace) -> Trace {
    let mut trace = trace.clone();
    for _ in 0..200 {
        let report = verify(&trace).unwrap();
        let Some(hazard) = report.hazards.first() else {
            assert_eq!(report.verdict, Verdict::Safe, "{report}");
            return trace;
        };
        trace = hazard.fix.apply(&trace);
        trace.check().unwrap();
        let left = verify(&trace).unwrap();
        assert!(!left.hazards.contains(hazard), "not mended:\n{hazard}");
    }
    panic!("fixes do not end: {}", verify(&trace).unwrap());
}

/// Before: the breaking captures that must show are wrong in some interleaving
/// and under some seed. After: never.
#[test]
fn minimal_captures() {
    for (name, trace) in corpus::breaking() {
        let report = verify(&trace).unwrap();
        assert_eq!(report.verdict, Verdict::Hazard, "{name}");
        let (play, meant) = (Play::of(&trace), Play::meaning(&trace));
        let found = play.explore().unwrap();
        assert!(found.outcomes.iter().any(|o| o.bytes != meant), "{name}");
        let wrong = (0..200).find(|&seed| play.seeded(seed) != meant);
        assert!(wrong.is_some(), "{name}: no seed is wrong");

        let mended = mended(&trace);
        let (play, meant) = (Play::of(&mended), Play::meaning(&mended));
        for outcome in play.explore().unwrap().outcomes {
            assert_eq!(outcome.bytes, meant, "{name}: {}", outcome.schedule);
        }
    }
}

/// The nearest safe captures, and the shapes that must not be flagged.
#[test]
fn safe_captures() {
    for (name, trace) in corpus::safe() {
        let report = verify(&trace).unwrap();
        assert_eq!(report.verdict, Verdict::Safe, "{name}: {report}");
        let meant = Play::meaning(&trace);
        for outcome in Play::of(&trace).explore().unwrap().outcomes {
            assert_eq!(outcome.bytes, meant, "{name}: {}", outcome.schedule);
        }
    }
}

/// Layers that a pool in host order gives memory to: too many nodes to explore,
/// so seeds speak.
#[test]
fn layers_in_host_order() {
    let trace = corpus::layers(corpus::Pools::HostOrder, 3);
    assert_eq!(verify(&trace).unwrap().verdict, Verdict::Hazard);
    let (play, meant) = (Play::of(&trace), Play::meaning(&trace));
    let wrong = (0..40).filter(|&seed| play.seeded(seed) != meant).count();
    assert!(wrong > 0, "no seed of 40 is wrong");
    let mended = mended(&trace);
    let (play, meant) = (Play::of(&mended), Play::meaning(&mended));
    for seed in 0..40 {
        assert_eq!(play.seeded(seed), meant, "seed {seed}");
    }
}
