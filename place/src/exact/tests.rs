//! The search alone, without the local search that finds most small layouts
//! before it, held against all orders of placement.

use proptest::prelude::*;

use super::{Exact, Outcome, Taste};
use crate::budget::{Budget, Meter};
use crate::fit::Sizes;
use crate::lives::{Life, Lives};
use crate::neighbours::Neighbours;
use crate::rng::Rng;

/// Buffers with their sizes and alignments.
#[derive(Clone, Debug)]
struct Case {
    lives: Lives,
    bytes: Vec<u64>,
    align: Vec<u64>,
}

/// Few different sizes and moments, so that many buffers are alike and many
/// heights are reached exactly.
fn sizes() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        4 => (1..7_u64, Just(1)),
        1 => (1..4_u64, 1..3_u32).prop_map(|(count, power)| (count << power, 1 << power)),
    ]
}

fn on_one_axis() -> impl Strategy<Value = Case> {
    let row = (0..8_u64, 1..5_u64, sizes());
    prop::collection::vec(row, 1..8).prop_map(|rows| {
        let intervals: Vec<_> = rows.iter().map(|row| (row.0, row.0 + row.1)).collect();
        Case {
            lives: Lives::on_one_axis(&intervals),
            bytes: rows.iter().map(|row| row.2.0).collect(),
            align: rows.iter().map(|row| row.2.1).collect(),
        }
    })
}

/// Kernels of three streams with joins between them; each begins a buffer, and
/// may be the last that uses earlier ones.
fn on_streams() -> impl Strategy<Value = Case> {
    let row = (0..3_usize, 0..6_usize, any::<u8>(), sizes());
    prop::collection::vec(row, 1..8).prop_map(|rows| {
        let mut frontiers = [[0_u32; 3]; 3];
        // What comes before, what has ended, the span, and the stream.
        type Row = ([u32; 3], [u32; 3], (u32, u32), u32);
        let mut open: Vec<Row> = Vec::new();
        for (at, (stream, from, users, _)) in (0..).zip(&rows) {
            if let Some(theirs) = frontiers.get(*from).copied() {
                for (mine, theirs) in frontiers[*stream].iter_mut().zip(theirs) {
                    *mine = theirs.max(*mine);
                }
            }
            let begin = frontiers[*stream];
            frontiers[*stream][*stream] += 1;
            for (place, (begun, end, span, _)) in open.iter_mut().enumerate() {
                // Only what this kernel is ordered after may it use.
                let after = begun.iter().zip(&begin).all(|(a, b)| a <= b);
                if after && users >> place & 1 == 1 {
                    end[*stream] = frontiers[*stream][*stream];
                    span.1 = at;
                }
            }
            let mut end = [0; 3];
            end[*stream] = frontiers[*stream][*stream];
            open.push((begin, end, (at, at), *stream as u32));
        }
        let mut lives = Lives::new(3);
        for (begin, end, span, stream) in &open {
            lives.push(&Life {
                begin,
                end,
                span: *span,
                chain: Some(*stream),
            });
        }
        Case {
            lives,
            bytes: rows.iter().map(|row| row.3.0).collect(),
            align: rows.iter().map(|row| row.3.1).collect(),
        }
    })
}

impl Case {
    /// The lowest height, by all orders in which each buffer is put at the lowest
    /// place above those that are there.
    fn least(&self, placed: &mut Vec<(usize, u64)>, height: u64, best: &mut u64) {
        if height >= *best {
            return;
        }
        if placed.len() == self.bytes.len() {
            *best = height;
        }
        for at in 0..self.bytes.len() {
            if placed.iter().any(|&(other, _)| other == at) {
                continue;
            }
            let below = placed
                .iter()
                .filter(|&&(other, _)| self.lives.conflict(at, other));
            let below = below.map(|&(_, top)| top).max().unwrap_or(0);
            let top = below.next_multiple_of(self.align[at]) + self.bytes[at];
            placed.push((at, top));
            self.least(placed, height.max(top), best);
            placed.pop();
        }
    }

    /// That the search finds a layout of the least height and none below it,
    /// whatever it prefers.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut least = u64::MAX;
        self.least(&mut Vec::new(), 0, &mut least);
        let neighbours = Neighbours::new(&self.lives);
        let conflicts = neighbours.list().expect("few");
        let sizes = Sizes {
            bytes: &self.bytes,
            align: &self.align,
        };
        let exact = Exact::new(sizes, &self.lives, conflicts);
        for run in 0..12 {
            let solve = |bound: u64| {
                let mut meter = Meter::new(Budget::steps(u64::MAX));
                exact.solve(bound, Taste::number(run), &mut meter)
            };
            prop_assert_eq!(solve(least - 1), Outcome::Impossible, "run {}", run);
            let Outcome::Solved(offsets) = solve(least) else {
                return Err(TestCaseError::fail(format!("run {run}: none at {least}")));
            };
            self.check_layout(&offsets, least)?;
        }
        Ok(())
    }

    fn check_layout(&self, offsets: &[u64], height: u64) -> Result<(), TestCaseError> {
        for a in 0..offsets.len() {
            let end = offsets[a] + self.bytes[a];
            prop_assert!(end <= height, "{} reaches {}", a, end);
            prop_assert_eq!(offsets[a] % self.align[a], 0);
            for b in (0..a).filter(|&b| self.lives.conflict(a, b)) {
                let other = offsets[b] + self.bytes[b];
                prop_assert!(end <= offsets[b] || other <= offsets[a], "{} on {}", a, b);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_least_height_on_one_axis(case in on_one_axis()) {
        case.check()?;
    }

    #[test]
    fn the_least_height_of_a_partial_order(case in on_streams()) {
        case.check()?;
    }
}

#[test]
fn steps_that_are_used_up_prove_nothing() {
    // Two pairs that fit a height of 12 in one way only.
    let lives = Lives::on_one_axis(&[(0, 3), (0, 2), (2, 5), (3, 5), (1, 4), (0, 5)]);
    let (bytes, align) = ([5, 4, 4, 5, 2, 1], [1; 6]);
    let sizes = Sizes {
        bytes: &bytes,
        align: &align,
    };
    let neighbours = Neighbours::new(&lives);
    let conflicts = neighbours.list().expect("few");
    let exact = Exact::new(sizes, &lives, conflicts);
    let solve = |bound, steps| {
        let mut meter = Meter::new(Budget::steps(steps));
        exact.solve(bound, Taste::number(0), &mut meter)
    };
    let is_solved = |outcome: &Outcome| matches!(outcome, Outcome::Solved(_));
    let least = (0..).find(|&bound| is_solved(&solve(bound, u64::MAX)));
    let least = least.expect("all beside each other");
    for steps in 0..2000 {
        assert_ne!(solve(least, steps), Outcome::Impossible, "{steps} steps");
    }
}

/// Lives and sizes cut out of a rectangle of this height: a layout of that
/// height exists, and no section has room to spare.
fn cut(count: usize, height: u64, seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let mut pieces = vec![(0_u64, 64_u64, height)];
    while pieces.len() < count {
        let at = rng.below(pieces.len() as u64) as usize;
        let (from, to, bytes) = pieces[at];
        if rng.below(2) == 0 && to - from > 1 {
            let middle = from + 1 + rng.below(to - from - 1);
            pieces[at].1 = middle;
            pieces.push((middle, to, bytes));
        } else if bytes > 1 {
            let less = 1 + rng.below(bytes - 1);
            pieces[at].2 = less;
            pieces.push((from, to, bytes - less));
        }
    }
    let intervals: Vec<_> = pieces.iter().map(|piece| (piece.0, piece.1)).collect();
    Case {
        lives: Lives::on_one_axis(&intervals),
        bytes: pieces.iter().map(|piece| piece.2).collect(),
        align: vec![1; count],
    }
}

#[test]
fn what_is_possible_is_not_ruled_out() {
    let height = 64;
    let mut solved = 0;
    for seed in 0..120 {
        let case = cut(12 + (seed as usize % 8) * 6, height, seed);
        let neighbours = Neighbours::new(&case.lives);
        let conflicts = neighbours.list().expect("few");
        let sizes = Sizes {
            bytes: &case.bytes,
            align: &case.align,
        };
        let exact = Exact::new(sizes, &case.lives, conflicts);
        for run in 0..4 {
            // Some with room to spare.
            let bound = height + run * seed % 7;
            let mut meter = Meter::new(Budget::steps(100_000));
            match exact.solve(bound, Taste::number(run), &mut meter) {
                Outcome::Solved(offsets) => {
                    case.check_layout(&offsets, bound).expect("a layout");
                    solved += 1;
                }
                Outcome::Impossible => panic!("seed {seed}, run {run}: there is one"),
                Outcome::Stopped => {}
            }
        }
    }
    assert!(solved > 240, "{solved} of 480");
}
