//! Invariant 6, drawn at random: everything that a program holds is dropped in any
//! order, on any threads, with replays in flight. Nothing stays behind on the
//! device, and nothing is wrong on the way.

use std::any::Any;

use proptest::prelude::*;
use streamweir::{CaptureOptions, Error};

use crate::common::{Kernels, LEN, N, NOTHING, SMALL, plus, sim};

/// Something to drop.
type Owned = Box<dyn Any + Send>;

/// Two graphs of one replay group and one of its own; buffers, code, streams and
/// the device itself.
fn everything(seed: u64, replays: usize) -> (Vec<Owned>, impl Fn() -> usize) {
    let (device, driver) = sim(seed);
    let kernels = Kernels::load(&device).unwrap();
    let group = device.replay_group("decode", SMALL);
    let x = device.persistent_from("x", &[1_u32, 2, 3, 4]).unwrap();
    let mut owned: Vec<Owned> = Vec::new();
    for (name, planned, grouped) in [
        ("live", false, true),
        ("planned", true, true),
        ("alone", false, false),
    ] {
        let y = device.persistent::<u32>(name, LEN).unwrap();
        let mut options = CaptureOptions::new(name).arena(SMALL);
        if planned {
            options = options.planned();
        }
        if grouped {
            options = options.group(&group);
        }
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let side = cap.fork(&main, "side")?;
                let a = side.scratch::<u32>("a", LEN)?;
                side.launch(
                    &kernels.plus,
                    plus {
                        input: &x,
                        output: &a,
                        more: 1,
                        len: N,
                    },
                )?;
                cap.join(&main, side)?;
                main.launch(
                    &kernels.plus,
                    plus {
                        input: &a,
                        output: &y,
                        more: 1,
                        len: N,
                    },
                )
            })
            .unwrap();
        let stream = device.stream(name).unwrap();
        for _ in 0..replays {
            graph.replay(&stream).unwrap();
        }
        owned.extend([Box::new(graph) as Owned, Box::new(y), Box::new(stream)]);
    }
    owned.extend([Box::new(x) as Owned, Box::new(group), Box::new(kernels)]);
    owned.push(Box::new(device));
    let left = move || {
        let live = driver.live();
        if live == NOTHING {
            0
        } else {
            live.bytes.max(1) as usize
        }
    };
    (owned, left)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn nothing_is_left_whatever_goes_first(
        seed: u64,
        replays in 0..3_usize,
        keys in prop::collection::vec((any::<u32>(), 0..4_usize), 13),
    ) {
        let (owned, left) = everything(seed, replays);
        prop_assert_eq!(owned.len(), keys.len());
        prop_assert!(left() > 0, "there is something to release");
        let mut drops: Vec<_> = keys.into_iter().zip(owned).collect();
        drops.sort_by_key(|((order, _), _)| *order);
        // The order of each thread is drawn; that between threads is the machine's.
        let mut threads: Vec<Vec<Owned>> = (0..4).map(|_| Vec::new()).collect();
        for ((_, thread), one) in drops {
            threads[thread].push(one);
        }
        std::thread::scope(|scope| {
            for mine in threads {
                scope.spawn(move || mine.into_iter().for_each(drop));
            }
        });
        prop_assert_eq!(left(), 0);
    }
}
