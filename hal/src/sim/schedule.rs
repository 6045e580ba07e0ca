//! Which of several concurrent pieces of work runs next.

use std::fmt;

/// A piece of work that has been enqueued, numbered in the order of enqueuing.
pub type TaskId = u64;

/// Decides the interleaving of a simulated device.
///
/// The device asks once for every slice, so whoever answers has the whole
/// interleaving in hand: at random under a seed, or one after another through
/// all that a small graph has.
pub trait Choose: fmt::Debug + Send {
    /// The position in `ready` of the task that runs its next slice. `ready` is
    /// not empty and ascends; a position past its end means the last.
    fn choose(&mut self, ready: &[TaskId]) -> usize;
}

/// Random interleavings, the same for the same seed.
///
/// A fair coin for every slice would nearly always give the same picture:
/// everything half done at any time. Races hide in the lopsided orders, so the
/// habit changes at random: take turns, stay with one task to its end, hold one
/// back until nothing else can run, or toss the coin.
#[derive(Debug)]
pub struct RandomChoice {
    random: SplitMix,
    habit: Habit,
    left: u64,
}

#[derive(Debug)]
enum Habit {
    Any,
    Turns(TaskId),
    Stay(TaskId),
    HoldBack(TaskId),
}

impl RandomChoice {
    /// The interleavings of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            random: SplitMix(seed),
            habit: Habit::Any,
            left: 0,
        }
    }
}

impl Choose for RandomChoice {
    fn choose(&mut self, ready: &[TaskId]) -> usize {
        if self.left == 0 {
            let task = ready[self.random.below(ready.len())];
            (self.habit, self.left) = match self.random.below(4) {
                0 => (Habit::Any, 1 + self.random.below(32) as u64),
                1 => (Habit::Turns(task), 1 + self.random.below(32) as u64),
                2 => (Habit::Stay(task), u64::MAX),
                _ => (Habit::HoldBack(task), 1 + self.random.below(256) as u64),
            };
        }
        self.left -= 1;
        match &mut self.habit {
            Habit::Any => self.random.below(ready.len()),
            Habit::Turns(last) => {
                let next = ready.iter().position(|id| id > last).unwrap_or(0);
                *last = ready[next];
                next
            }
            Habit::Stay(task) => match ready.binary_search(task) {
                Ok(at) => at,
                Err(_) => {
                    self.left = 0;
                    self.random.below(ready.len())
                }
            },
            Habit::HoldBack(task) => match ready.binary_search(task) {
                Ok(held) if ready.len() > 1 => {
                    let at = self.random.below(ready.len() - 1);
                    at + usize::from(at >= held)
                }
                Ok(_) => 0,
                Err(_) => self.random.below(ready.len()),
            },
        }
    }
}

/// Steele, Lea and Flood's SplitMix64: every seed is a good one.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
