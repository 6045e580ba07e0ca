//! The same programs through the pools that captures use.

use proptest::prelude::*;
use streamweir_alloc::Policy;
use streamweir_alloc::replay::{Users, replay};

use crate::programs::{Slow, programs};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

#[test]
    fn pools_respect_what_a_log_orders(log in programs()) {
        let slow = Slow::of(&log);
        for users in [Users::Known, Users::Unknown] {
            for policy in [Policy::ORDERED, Policy::ISOLATED] {
                let replayed = replay(&log, policy, users).unwrap();
                for a in 0..log.buffers.len() {
                    for b in (0..a).filter(|&b| slow.conflict(a, b)) {
                        prop_assert!(!replayed.ranges[a].overlaps(&replayed.ranges[b]));
                    }
                }
            }
        }
    }
}
