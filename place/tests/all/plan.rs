//! Plans held against slow and obvious truths: all pairs for validity, all
//! subsets for floors, all orders for the exact search.

use std::time::Duration;

use proptest::prelude::*;
use streamweir_place::{
    Budget, FloorKind, Item, Life, Lives, LogPlanError, Plan, PlanError, Problem, Recorded,
    Sharing, floor,
};
use streamweir_trace::{AllocLog, BufferId, ByteRange, LogBuffer, LogEvent, StreamId};

use crate::programs::{Slow, log, programs};

fn range(problem: &Problem, plan: &Plan, at: usize) -> ByteRange {
    ByteRange::new(plan.offsets[at], plan.offsets[at] + problem.held()[at])
}

/// All that a plan promises, by all pairs.
fn check(slow: &Slow, problem: &Problem, plan: &Plan, sharing: Sharing) {
    let items = problem.items();
    let isolated = sharing == Sharing::Isolated;
    for a in 0..items.len() {
        let place = range(problem, plan, a);
        assert_eq!(place.start % items[a].align, 0, "buffer {a} at {place}");
        assert!(place.len() >= items[a].bytes.max(1));
        assert!(place.end <= plan.height, "buffer {a} at {place}");
        let pool = plan.pools.iter().find(|(_, bytes)| bytes.contains(&place));
        let owner = pool.expect("in a pool").0;
        assert_eq!(owner, isolated.then_some(items[a].pool));
        for b in 0..a {
            let apart = isolated && items[a].pool != items[b].pool;
            if slow.conflict(a, b) || apart {
                let other = range(problem, plan, b);
                assert!(!place.overlaps(&other), "{b} at {other}, {a} at {place}");
            }
        }
    }
}

/// The heaviest set without a pair in `ordered`, by all subsets.
fn heaviest(bytes: &[u64], ordered: impl Fn(usize, usize) -> bool) -> u64 {
    let count = bytes.len();
    let has = |set: u32, at: usize| set >> at & 1 == 1;
    (0..1_u32 << count)
        .filter(|&set| {
            let inside = |at: &usize| has(set, *at);
            (0..count)
                .filter(inside)
                .all(|a| (0..count).filter(inside).all(|b| a == b || !ordered(a, b)))
        })
        .map(|set| {
            (0..count)
                .filter(|&at| has(set, at))
                .map(|at| bytes[at])
                .sum()
        })
        .max()
        .unwrap_or(0)
}

/// The lowest layout, by all orders in which each buffer is put at the lowest
/// place above those that are there.
fn lowest(bytes: &[u64], align: &[u64], conflict: &dyn Fn(usize, usize) -> bool) -> u64 {
    fn go(
        bytes: &[u64],
        align: &[u64],
        conflict: &dyn Fn(usize, usize) -> bool,
        placed: &mut Vec<(usize, u64)>,
        height: u64,
        best: &mut u64,
    ) {
        if height >= *best {
            return;
        }
        if placed.len() == bytes.len() {
            *best = height;
        }
        for at in 0..bytes.len() {
            if placed.iter().any(|&(other, _)| other == at) {
                continue;
            }
            let tops = placed.iter().filter(|&&(other, _)| conflict(at, other));
            let top = tops.map(|&(_, top)| top).max().unwrap_or(0);
            let end = top.next_multiple_of(align[at]) + bytes[at];
            placed.push((at, end));
            go(bytes, align, conflict, placed, height.max(end), best);
            placed.pop();
        }
    }
    let mut best = u64::MAX;
    go(bytes, align, conflict, &mut Vec::new(), 0, &mut best);
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_plan_keeps_what_it_promises(log in programs(), steps in 0..60_000_u64) {
        let slow = Slow::of(&log);
        let problem = Recorded::of(&log).unwrap().problem().unwrap();
        for sharing in [Sharing::Ordered, Sharing::Isolated] {
            let plan = problem.plan(sharing, Budget::steps(steps), None);
            check(&slow, &problem, &plan, sharing);
            prop_assert!(plan.height >= problem.floor().bytes);
            prop_assert_eq!(&plan, &problem.plan(sharing, Budget::steps(steps), None));
        }
        let reserved = problem.plan(Sharing::Ordered, Budget::steps(steps), None);
        let by_stream: u64 = reserved.reserved_by_stream(&problem).iter().sum();
        prop_assert_eq!(by_stream, reserved.height);
    }

    #[test]
    fn lives_of_a_log_say_what_its_kernels_say(log in programs()) {
        let slow = Slow::of(&log);
        let recorded = Recorded::of(&log).unwrap();
        for a in 0..log.buffers.len() {
            for b in (0..log.buffers.len()).filter(|&b| b != a) {
                prop_assert_eq!(recorded.accessed.before(a, b), slow.ordered(a, b), "{} {}", a, b);
            }
        }
    }

    #[test]
    fn floors_are_the_heaviest_sets(
        choices in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), any::<u16>()), 0..36),
        streams in 1..5_u32,
    ) {
        let log = log(&choices, streams);
        prop_assume!(log.buffers.len() <= 13);
        let slow = Slow::of(&log);
        let recorded = Recorded::of(&log).unwrap();
        let problem = recorded.problem().unwrap();
        let used = |at: usize| !slow.accesses[at].is_empty();
        let held: Vec<u64> = (0..log.buffers.len())
            .map(|at| if used(at) { problem.held()[at] } else { 0 })
            .collect();
        let found = problem.floor();
        prop_assert_eq!(found.bytes, heaviest(&held, |a, b| slow.ordered(a, b)));
        let kind = if streams == 1 { FloorKind::MaximumLoad } else { FloorKind::Antichain };
        prop_assert_eq!(found.kind, kind);
        let online = floor(&recorded.held, problem.held());
        let slow = heaviest(problem.held(), |a, b| recorded.held.before(a, b));
        prop_assert_eq!(online.bytes, slow);
    }

    #[test]
    fn the_exact_search_finds_the_lowest(
        rows in prop::collection::vec((0..9_u64, 1..6_u64, 0..40_u64, 0..3_u32), 0..8)
    ) {
        let intervals: Vec<(u64, u64)> = rows.iter().map(|r| (r.0, r.0 + r.1)).collect();
        let lives = Lives::on_one_axis(&intervals);
        let items: Vec<Item> = rows
            .iter()
            .map(|r| Item { bytes: r.2, align: 1 << r.3, pool: 0 })
            .collect();
        let align: Vec<u64> = items.iter().map(|item| item.align).collect();
        let problem = Problem::new(items, lives.clone()).unwrap();
        let plan = problem.plan(Sharing::Ordered, Budget::steps(u64::MAX), None);
        let conflict = |a: usize, b: usize| lives.conflict(a, b);
        let least = if rows.is_empty() { 0 } else { lowest(problem.held(), &align, &conflict) };
        prop_assert_eq!(plan.height, least);
    }
}

/// Ten lives of which greedy placement wastes some.
fn hard() -> Problem {
    hard_times(1)
}

/// So many times the same ten, one after the other.
fn hard_times(times: u64) -> Problem {
    let rows = [
        (0, 4, 5),
        (2, 7, 3),
        (0, 2, 6),
        (4, 9, 4),
        (7, 12, 7),
        (9, 14, 2),
        (5, 11, 1),
        (11, 15, 5),
        (12, 16, 4),
        (1, 6, 2),
    ];
    let all = (0..times).flat_map(|at| rows.map(|r| (r.0 + 100 * at, r.1 + 100 * at, r.2)));
    let all: Vec<(u64, u64, u64)> = all.collect();
    let intervals: Vec<(u64, u64)> = all.iter().map(|r| (r.0, r.1)).collect();
    let items = all.iter().map(|r| Item {
        bytes: r.2,
        align: 1,
        pool: 0,
    });
    Problem::new(items.collect(), Lives::on_one_axis(&intervals)).unwrap()
}

/// What ends the work on one part does not end it on the others.
#[test]
fn parts_that_have_nothing_in_common_are_all_brought_down() {
    let one = hard().plan(Sharing::Ordered, Budget::steps(u64::MAX), None);
    let first = hard().plan(Sharing::Ordered, Budget::steps(0), None);
    assert!(one.height < first.height, "nothing to bring down");
    let five = hard_times(5).plan(Sharing::Ordered, Budget::steps(u64::MAX), None);
    assert_eq!(five.height, one.height);
}

#[test]
fn a_deadline_that_is_over_still_gives_a_plan() {
    let plan = hard().plan(Sharing::Ordered, Budget::time(Duration::ZERO), None);
    assert!(plan.height >= hard().floor().bytes);
    assert_eq!(plan.offsets.len(), 10);
}

#[test]
fn a_capacity_that_is_met_ends_the_search() {
    let loose = hard().plan(Sharing::Ordered, Budget::steps(u64::MAX), Some(1000));
    assert_eq!(loose, hard().plan(Sharing::Ordered, Budget::steps(0), None));
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let item = |bytes, align| Item {
        bytes,
        align,
        pool: 0,
    };
    let lives = || Lives::on_one_axis(&[(0, 1), (0, 1)]);
    let problem = |a, b| Problem::new(vec![a, b], lives()).map(|_| ());
    assert_eq!(
        problem(item(1, 1), item(1, 0)),
        Err(PlanError::Alignment { item: 1 })
    );
    for huge in [u64::MAX, u64::MAX - 300, 1 << 62] {
        assert_eq!(
            problem(item(1, 1), item(huge, 256)),
            Err(PlanError::TooLarge { item: 1 })
        );
    }
    let half = 1 << 61;
    assert_eq!(
        problem(item(half, 1), item(half, 1)),
        Err(PlanError::TooLarge { item: 1 })
    );
    assert_eq!(
        Problem::new(vec![item(1, 1)], lives()).map(|_| ()),
        Err(PlanError::Lengths { items: 1, lives: 2 })
    );
}

#[test]
fn above_the_limit_the_floor_says_that_it_is_a_bound() {
    let mut lives = Lives::new(2);
    for at in 0..10_001_u32 {
        lives.push(&Life {
            begin: &[at, 0],
            end: &[at + 1, 0],
            span: (at, at),
            chain: Some(0),
        });
    }
    let floor = floor(&lives, &vec![7; 10_001]);
    assert_eq!((floor.bytes, floor.kind), (7, FloorKind::Window));
}

#[test]
fn a_use_that_nothing_orders_after_the_alloc_point_is_refused() {
    let buffer = BufferId(0);
    let (main, side) = (StreamId(0), StreamId(1));
    let kernel = |stream| LogEvent::Kernel {
        stream,
        reads: Vec::new(),
        writes: vec![buffer],
    };
    let before = LogEvent::Kernel {
        stream: main,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    let mut log = AllocLog {
        streams: 2,
        buffers: vec![LogBuffer {
            name: "keys".to_owned(),
            stream: main,
            bytes: 1,
            align: 256,
        }],
        events: vec![before, LogEvent::Alloc(buffer), kernel(side)],
    };
    let error = Recorded::of(&log).unwrap_err();
    assert_eq!(
        error,
        LogPlanError::BeforeAllocPoint {
            event: 2,
            stream: 1,
            buffer: "keys".to_owned(),
            alloc: 1,
            owner: 0,
        }
    );
    log.events.insert(
        2,
        LogEvent::Join {
            from: main,
            to: side,
        },
    );
    assert!(Recorded::of(&log).is_ok());
}
