//! The plan of one pool: the orders, the local search and the exact one, in turn.
//!
//! What has no conflict with each other needs no common search: the pool is taken
//! apart, and the height is that of the part that needs most. Only that one is
//! worked on; when it cannot be lowered any more, neither can the pool.

use crate::budget::Meter;
use crate::eject::{Eject, Layout};
use crate::exact::Exact;
use crate::fit::{Fit, Gap, Sizes};
use crate::floor::floor;
use crate::lives::{Lives, within};
use crate::narrow::Narrow;
use crate::neighbours::Neighbours;
use crate::order::ORDERS;
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
}

impl Pool<'_> {
    /// A layout that is as low as can be found, or no higher than `enough`. Tells `said` the
    /// height and the floor now and then.
    pub(crate) fn plan(
        &self,
        enough: u64,
        meter: &mut Meter,
        said: &mut dyn FnMut(u64, u64),
    ) -> Layout {
        let parts = self.parts();
        let neighbours = parts.iter().map(|part| Neighbours::new(&part.lives));
        let neighbours: Vec<Neighbours<'_>> = neighbours.collect();
        let pairs = parts.iter().zip(&neighbours);
        let jobs = pairs.map(|(part, neighbours)| part.job(neighbours, enough, meter));
        let mut jobs: Vec<Job<'_>> = jobs.collect();
        let enough = jobs.iter().map(|job| job.floor).fold(enough, u64::max);
        while let Some(job) = jobs.iter_mut().max_by_key(|job| job.best.height) {
            let enough = enough.max(job.floor);
            if job.best.height <= enough || job.is_lowest() || meter.is_spent() {
                break;
            }
            said(job.best.height, job.floor);
            job.turn(enough, meter);
        }
        // What nothing touches is in nobody's way anywhere.
        let mut layout = Layout {
            offsets: vec![0; self.bytes.len()],
            height: self.untouched().max().unwrap_or(0),
        };
        for (part, job) in parts.iter().zip(&jobs) {
            layout.height = layout.height.max(job.best.height);
            for (&member, &offset) in part.members.iter().zip(&job.best.offsets) {
                layout.offsets[member as usize] = offset;
            }
        }
        layout
    }

    /// The bytes of each buffer that nothing touches.
    fn untouched(&self) -> impl Iterator<Item = u64> {
        let all = (0..).zip(self.bytes);
        all.filter(|&(at, _)| self.lives.span(at).is_none())
            .map(|(_, &bytes)| bytes)
    }

    /// The buffers that are connected by conflicts. Such parts are one after the other in the
    /// order of the lives, and hence in the order of their spans: between two of them all that
    /// comes before has ended when anything begins that comes after.
    fn parts(&self) -> Vec<Part> {
        let touched = (0..self.bytes.len() as u32).zip(0..);
        let touched = touched.filter_map(|(at, place)| Some((self.lives.span(place)?, at)));
        let mut order: Vec<_> = touched.collect();
        order.sort_unstable();
        let axes = self.lives.axes();
        // For each place in the order what is reached when all from there on begin.
        let mut begun = vec![u32::MAX; axes * (order.len() + 1)];
        for (place, &(_, at)) in order.iter().enumerate().rev() {
            let (here, later) = begun[place * axes..].split_at_mut(axes);
            let own = self.lives.begin(at as usize).iter().zip(later);
            for (least, (&own, &mut later)) in here.iter_mut().zip(own) {
                *least = own.min(later);
            }
        }
        let mut parts = Vec::new();
        let mut members = Vec::new();
        let mut ended = vec![0; axes];
        for (place, &(_, at)) in order.iter().enumerate() {
            members.push(at);
            for (most, &end) in ended.iter_mut().zip(self.lives.end(at as usize)) {
                *most = end.max(*most);
            }
            let rest = &begun[(place + 1) * axes..][..axes];
            if within(&ended, rest) {
                members.sort_unstable();
                parts.push(Part::of(self, std::mem::take(&mut members)));
            }
        }
        parts
    }
}

/// Buffers of a pool that have no conflict with the others.
struct Part {
    members: Vec<u32>,
    bytes: Vec<u64>,
    align: Vec<u64>,
    lives: Lives,
}

impl Part {
    fn of(pool: &Pool<'_>, members: Vec<u32>) -> Self {
        let pick = |list: &[u64]| members.iter().map(|&at| list[at as usize]).collect();
        Self {
            bytes: pick(pool.bytes),
            align: pick(pool.align),
            lives: pool.lives.of(&members),
            members,
        }
    }

    fn job<'a>(
        &'a self,
        neighbours: &'a Neighbours<'a>,
        enough: u64,
        meter: &mut Meter,
    ) -> Job<'a> {
        let sizes = Sizes {
            bytes: &self.bytes,
            align: &self.align,
        };
        let totals = Sections::new(&self.lives).totals(&self.bytes);
        let floor = totals.into_iter().chain(self.bytes.iter().copied()).max();
        let floor = floor.unwrap_or(0);
        let fit = Fit::new(sizes, neighbours);
        let best = self.first(&fit, enough.max(floor), meter);
        let most = if self.lives.has_one_axis() {
            MOST_EXACT
        } else {
            MOST_EXACT_PARTIAL
        };
        let list = neighbours.list().filter(|_| self.bytes.len() <= most);
        let exact = list.map(|list| Exact::new(sizes, &self.lives, list));
        Job {
            bytes: &self.bytes,
            lives: &self.lives,
            floor,
            knows_floor: self.lives.has_one_axis(),
            exact: exact.map(|exact| Narrow::new(exact, floor)),
            eject: Eject::new(fit, &self.lives, floor),
            steps: FIRST_TURN,
            taken: 0,
            best,
        }
    }

    /// The lowest layout of the first orders: of one, and of more where that is quick.
    fn first(&self, fit: &Fit<'_>, enough: u64, meter: &mut Meter) -> Layout {
        let mut fit = fit.clone();
        let mut best = Layout::default();
        let mut took = 0;
        let ways = ORDERS
            .iter()
            .flat_map(|&order| [(order, Gap::Best), (order, Gap::First)]);
        for (number, (order, gap)) in ways.enumerate() {
            let below = if number == 0 { u64::MAX } else { best.height };
            if number > 0 && (below <= enough || took > ORDER_STEPS || meter.is_spent()) {
                break;
            }
            let Some(order) = order.sort(&self.lives, &self.bytes, fit.neighbours) else {
                continue;
            };
            let before = meter.left();
            if let Some(height) = fit.place_all(&order, gap, below, meter) {
                let offsets = fit.offsets.clone();
                best = Layout { offsets, height };
            }
            took += before - meter.left();
        }
        best
    }
}

/// Steps after which no other order is tried: the local search gets further with them.
const ORDER_STEPS: u64 = 1 << 21;

/// Steps of the local search in the first turn. Turns grow: a problem that one of
/// the two searches solves quickly is not kept waiting by the other.
const FIRST_TURN: u64 = 1 << 17;

/// The longest turn: half a second or so.
const LAST_TURN: u64 = 1 << 25;

/// How many times as many steps the exact search has.
const EXACT_SHARE: u64 = 3;

/// Steps of all turns, for each buffer, after which it costs little beside them to find the floor
/// of several axes.
const FLOOR_STEPS: u64 = 20_000;

/// The work on one part.
struct Job<'a> {
    bytes: &'a [u64],
    lives: &'a Lives,
    /// No layout is lower than this.
    floor: u64,
    /// Whether it is the floor of all sets of buffers already.
    knows_floor: bool,
    best: Layout,
    eject: Eject<'a>,
    exact: Option<Narrow<'a>>,
    /// Of the next turn.
    steps: u64,
    /// Of the turns so far.
    taken: u64,
}

impl Job<'_> {
    /// Whether it is proved that no layout of this part is lower.
    fn is_lowest(&self) -> bool {
        let exact = self.exact.as_ref();
        exact.is_some_and(|exact| exact.proves(self.best.height))
    }

    /// Works on the layout for a while.
    fn turn(&mut self, enough: u64, meter: &mut Meter) {
        let best = &mut self.best;
        let mut part = meter.part(self.steps);
        self.eject.improve(best, enough, &mut part);
        meter.reclaim(&part);
        if let Some(exact) = &mut self.exact {
            let mut part = meter.part(self.steps.saturating_mul(EXACT_SHARE));
            exact.turn(best, enough, &mut part);
            meter.reclaim(&part);
        }
        self.steps = self.steps.saturating_mul(2).min(LAST_TURN);
        let worth_it = FLOOR_STEPS.saturating_mul(self.lives.len() as u64);
        self.taken = self.taken.saturating_add(self.steps);
        if !self.knows_floor && self.taken > worth_it {
            // The orders and moments that it was taken from at first say less than all sets do.
            self.knows_floor = true;
            self.floor = self.floor.max(floor(self.lives, self.bytes).bytes);
            self.eject.raise_floor(self.floor);
            if let Some(exact) = &mut self.exact {
                exact.raise_floor(self.floor);
            }
        }
    }
}
