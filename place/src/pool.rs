//! The plan of one pool: the orders, the local search and the exact one, in turn.
//!
//! What has no conflict with each other needs no common search: the pool is taken
//! apart, and the height is that of the part that needs most. Only that one is
//! worked on; when it cannot be lowered any more, neither can the pool.

use crate::budget::Meter;
use crate::conflict::Conflicts;
use crate::exact::Exact;
use crate::fit::{Fit, Gap, Sizes};
use crate::improve::{Arranged, improve};
use crate::lives::Lives;
use crate::narrow::Narrow;
use crate::order;
use crate::rng::Rng;
use crate::section::Sections;

/// The most buffers that the exact search is tried on. It calls itself once for
/// each buffer.
const MOST_EXACT: usize = 1500;

/// The most buffers of several axes that it is tried on: there it has less to
/// prune with, and more than these it hardly ever lowers.
const MOST_EXACT_PARTIAL: usize = 256;

/// The buffers of one pool.
pub(crate) struct Pool<'a> {
    pub(crate) bytes: &'a [u64],
    pub(crate) align: &'a [u64],
    pub(crate) lives: &'a Lives,
    pub(crate) conflicts: &'a Conflicts,
}

/// A layout of a pool.
pub(crate) struct Layout {
    pub(crate) offsets: Vec<u64>,
    pub(crate) height: u64,
}

impl Pool<'_> {
    /// A layout that is as low as can be found, or no higher than `enough`.
    pub(crate) fn plan(&self, enough: u64, meter: &mut Meter) -> Layout {
        let parts = self.parts();
        let mut jobs: Vec<Job<'_>> = parts.iter().map(|part| part.job(enough, meter)).collect();
        let enough = jobs.iter().map(|job| job.floor).fold(enough, u64::max);
        while let Some(job) = jobs.iter_mut().max_by_key(|job| job.best.height) {
            if job.best.height <= enough || job.is_lowest() || meter.is_spent() {
                break;
            }
            job.turn(enough, meter);
        }
        let mut layout = Layout {
            offsets: vec![0; self.bytes.len()],
            height: 0,
        };
        for (part, job) in parts.iter().zip(&jobs) {
            layout.height = layout.height.max(job.best.height);
            for (&member, &offset) in part.members.iter().zip(&job.best.offsets) {
                layout.offsets[member as usize] = offset;
            }
        }
        layout
    }

    /// The buffers that are connected by conflicts, in the order of their first.
    fn parts(&self) -> Vec<Part> {
        let count = self.bytes.len();
        let mut number = vec![u32::MAX; count];
        let mut parts = 0;
        let mut open = Vec::new();
        for first in 0..count as u32 {
            if number[first as usize] != u32::MAX {
                continue;
            }
            number[first as usize] = parts;
            open.push(first);
            while let Some(at) = open.pop() {
                for &other in self.conflicts.of_item(at) {
                    if number[other as usize] == u32::MAX {
                        number[other as usize] = parts;
                        open.push(other);
                    }
                }
            }
            parts += 1;
        }
        let mut members = vec![Vec::new(); parts as usize];
        for (at, &part) in (0_u32..).zip(&number) {
            members[part as usize].push(at);
        }
        let parts = members.into_iter();
        parts.map(|members| Part::of(self, members)).collect()
    }
}

/// Buffers of a pool that have no conflict with the others.
struct Part {
    members: Vec<u32>,
    bytes: Vec<u64>,
    align: Vec<u64>,
    lives: Lives,
    conflicts: Conflicts,
}

impl Part {
    fn of(pool: &Pool<'_>, members: Vec<u32>) -> Self {
        let pick = |list: &[u64]| members.iter().map(|&at| list[at as usize]).collect();
        Self {
            bytes: pick(pool.bytes),
            align: pick(pool.align),
            lives: pool.lives.of(&members),
            conflicts: pool.conflicts.among(&members),
            members,
        }
    }

    fn job(&self, enough: u64, meter: &mut Meter) -> Job<'_> {
        let sizes = Sizes {
            bytes: &self.bytes,
            align: &self.align,
        };
        let totals = Sections::new(&self.lives).totals(&self.bytes);
        let floor = totals.into_iter().chain(self.bytes.iter().copied()).max();
        let floor = floor.unwrap_or(0);
        let fit = Fit::new(sizes, &self.conflicts);
        let best = self.first(&fit, enough.max(floor), meter);
        let most = if self.lives.has_one_axis() {
            MOST_EXACT
        } else {
            MOST_EXACT_PARTIAL
        };
        let exact = || Exact::new(sizes, &self.lives, &self.conflicts);
        Job {
            floor,
            search: (self.bytes.len() <= most).then(|| Narrow::new(exact(), floor)),
            rng: Rng::new(self.bytes.len() as u64),
            steps: FIRST_TURN,
            fit,
            best,
        }
    }

    /// The lowest layout of the portfolio.
    fn first(&self, fit: &Fit<'_>, enough: u64, meter: &mut Meter) -> Arranged {
        let mut best: Option<Arranged> = None;
        let mut fit = fit.clone();
        let work = self.conflicts.len() as u64 + 8 * self.bytes.len() as u64;
        for order in order::portfolio(&self.lives, &self.bytes, &self.conflicts) {
            for gap in [Gap::Best, Gap::First] {
                let height = best.as_ref().map_or(u64::MAX, |best| best.height);
                if height <= enough || (best.is_some() && !meter.take(work)) {
                    break;
                }
                if let Some(height) = fit.place_all(&order, gap, height) {
                    best = Some(Arranged {
                        order: order.clone(),
                        gap,
                        offsets: fit.offsets.clone(),
                        height,
                    });
                }
            }
        }
        best.unwrap_or_default()
    }
}

/// Steps of the local search in the first turn. Turns grow: a problem that one of
/// the two searches solves quickly is not kept waiting by the other.
const FIRST_TURN: u64 = 1 << 17;

/// How many times as many steps the exact search has.
const EXACT_SHARE: u64 = 4;

/// The work on one part.
struct Job<'a> {
    /// No layout of this part is lower.
    floor: u64,
    fit: Fit<'a>,
    best: Arranged,
    search: Option<Narrow<'a>>,
    rng: Rng,
    steps: u64,
}

impl Job<'_> {
    /// Whether it is proved that no layout of this part is lower.
    fn is_lowest(&self) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.proves(self.best.height))
    }

    /// Works on the layout for a while.
    fn turn(&mut self, enough: u64, meter: &mut Meter) {
        let best = &mut self.best;
        let mut part = meter.part(self.steps);
        improve(&self.fit, best, enough, &mut part, &mut self.rng);
        meter.reclaim(&part);
        if let Some(search) = &mut self.search {
            let mut part = meter.part(self.steps.saturating_mul(EXACT_SHARE));
            search.turn(best, enough, &mut part);
            meter.reclaim(&part);
        }
        self.steps = self.steps.saturating_mul(2);
    }
}
