//! Recordings with more pairs than are listed, and those that the searches are for: each
//! layout is checked by a sweep that shares nothing with the planner.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use streamweir_place::{Budget, FloorKind, Item, Life, Lives, Plan, Problem, Sharing};

/// Sizes over several powers of two and lives of very different lengths, as traces have them.
fn trace(count: usize, seed: u64) -> (Vec<(u64, u64)>, Vec<u64>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let span = count as u64 * 4;
    let lives = (0..count).map(|_| {
        let from = rng.random_range(0..span);
        let longest = 1 << rng.random_range(2..13);
        (from, from + rng.random_range(1..=longest))
    });
    let lives: Vec<(u64, u64)> = lives.collect();
    let bytes = (0..count).map(|_| (1 << rng.random_range(9..24)) + 512 * rng.random_range(0..8));
    (lives, bytes.collect())
}

/// Lives and sizes cut out of a rectangle of 1 MiB, again and again along time or bytes.
fn cut(count: usize, seed: u64) -> (Vec<(u64, u64)>, Vec<u64>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut pieces = vec![(0_u64, 4096_u64, 1024_u64)];
    while pieces.len() < count {
        let at = rng.random_range(0..pieces.len());
        let (from, to, bytes) = pieces[at];
        if rng.random_range(0..3) == 0 && to - from > 1 {
            let middle = rng.random_range(from + 1..to);
            pieces[at].1 = middle;
            pieces.push((middle, to, bytes));
        } else if bytes > 1 {
            let less = rng.random_range(1..bytes);
            pieces[at].2 = less;
            pieces.push((from, to, bytes - less));
        }
    }
    let lives = pieces.iter().map(|&(from, to, _)| (from, to)).collect();
    (lives, pieces.iter().map(|piece| piece.2 << 10).collect())
}

fn problem(lives: &[(u64, u64)], bytes: &[u64]) -> Problem {
    let item = |&bytes: &u64| Item {
        bytes,
        align: 512,
        pool: 0,
    };
    let items = bytes.iter().map(item).collect();
    Problem::new(items, Lives::on_one_axis(lives)).unwrap()
}

/// Goes through time with the bytes that are in use, by address: no two overlap.
fn check(lives: &[(u64, u64)], bytes: &[u64], plan: &Plan) {
    let mut events: Vec<(u64, bool, usize)> = Vec::new();
    for (at, &(from, to)) in lives.iter().enumerate() {
        assert_eq!(plan.offsets[at] % 512, 0);
        assert!(plan.offsets[at] + bytes[at] <= plan.height, "{at}");
        events.push((from, true, at));
        events.push((to, false, at));
    }
    // What ends at a moment makes room for what begins there.
    events.sort_unstable();
    let mut used = std::collections::BTreeMap::new();
    for (_, begins, at) in events {
        let start = plan.offsets[at];
        if !begins {
            used.remove(&start);
            continue;
        }
        let below = used.range(..start + bytes[at]).next_back();
        let apart = below.is_none_or(|(_, &(end, _))| end <= start);
        assert!(apart, "{at} and {:?}", below.map(|(_, &(_, other))| other));
        used.insert(start, (start + bytes[at], at));
    }
}

#[test]
fn a_recording_with_more_pairs_than_are_listed_is_placed_near_its_floor() {
    let (mut lives, bytes) = trace(6000, 1);
    // All in use at one time or another over a tenth of the whole: some ten million pairs.
    for (from, to) in &mut lives {
        (*from, *to) = (*from / 16, *from / 16 + (*to - *from));
    }
    let problem = problem(&lives, &bytes);
    let budget = Budget::steps(40_000_000);
    let plan = problem.plan(Sharing::Ordered, budget, None);
    check(&lives, &bytes, &plan);
    let floor = problem.floor();
    assert_eq!(floor.kind, FloorKind::MaximumLoad);
    let ratio = plan.height as f64 / floor.bytes as f64;
    assert!(ratio < 1.06, "{ratio}");
}

#[test]
fn the_same_steps_give_the_same_plan_whoever_watches() {
    let (lives, bytes) = trace(400, 2);
    let problem = problem(&lives, &bytes);
    let budget = Budget::steps(3_000_000);
    let alone = problem.plan(Sharing::Ordered, budget, None);
    let mut heights = Vec::new();
    let watched = problem.plan_watched(Sharing::Ordered, budget, None, &mut |progress| {
        assert!(progress.floor <= progress.height);
        heights.push(progress.height);
    });
    assert_eq!(alone, watched);
    check(&lives, &bytes, &alone);
    assert!(heights.is_sorted_by(|a, b| a >= b), "{heights:?}");
    assert!(heights.last().is_none_or(|&last| last >= watched.height));
}

#[test]
fn what_was_cut_out_of_a_rectangle_goes_back_into_it() {
    for seed in 0..4 {
        let (lives, bytes) = cut(60, seed);
        let problem = problem(&lives, &bytes);
        let plan = problem.plan(Sharing::Ordered, Budget::steps(30_000_000), None);
        check(&lives, &bytes, &plan);
        assert_eq!(plan.height, 1 << 20, "seed {seed}");
    }
}

/// Four streams that are joined now and then, one buffer for each kernel and its successor.
fn streams(count: u32) -> Lives {
    let mut rng = StdRng::seed_from_u64(3);
    let mut frontiers = [[0_u32; 4]; 4];
    let mut lives = Lives::new(4);
    for at in 0..count {
        let stream = rng.random_range(0..4);
        if rng.random_range(0..6) == 0 {
            let theirs = frontiers[rng.random_range(0..4)];
            for (mine, theirs) in frontiers[stream].iter_mut().zip(theirs) {
                *mine = theirs.max(*mine);
            }
        }
        let begin = frontiers[stream];
        frontiers[stream][stream] += 1;
        let mut end = [0; 4];
        end[stream] = frontiers[stream][stream] + rng.random_range(0..4);
        lives.push(&Life {
            begin: &begin,
            end: &end,
            // The order of the list agrees with the streams, and so do these places.
            span: (at, at),
            chain: Some(stream as u32),
        });
    }
    lives
}

/// The heaviest set that holds a given buffer and grows greedily is no heavier than the floor
/// that windows give, and that is no more than all bytes that can be in use together.
#[test]
fn the_floor_of_a_long_recording_is_at_least_that_of_any_part_of_it() {
    let count = 12_000;
    let lives = streams(count);
    let mut rng = StdRng::seed_from_u64(5);
    let bytes = (0..count)
        .map(|_| rng.random_range(1..1000))
        .collect::<Vec<u64>>();
    let whole = streamweir_place::floor(&lives, &bytes);
    assert_eq!(whole.kind, FloorKind::Window);
    for first in (0..count as usize).step_by(97) {
        let (mut set, mut weight) = (Vec::new(), 0);
        for (at, bytes) in bytes.iter().enumerate().skip(first).take(200) {
            if set.iter().all(|&other| lives.conflict(other, at)) {
                set.push(at);
                weight += bytes;
            }
        }
        assert!(weight <= whole.bytes, "from {first}: {weight}");
    }
}
