//! Buffers that want a place, and the layout that they get.

use streamweir_trace::ByteRange;
use thiserror::Error;

use crate::budget::{Budget, Meter};
use crate::floor::{Floor, floor};
use crate::lives::Lives;
use crate::pool::Pool;

/// Whether buffers of different pools may share bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Each pool has a range of bytes of its own.
    #[default]
    Isolated,
    /// All pools share one range: two buffers may have the same bytes wherever
    /// one is entirely before the other.
    Ordered,
}

/// What a buffer needs of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// How many bytes. None at all are taken for one: every buffer has an
    /// address of its own.
    pub bytes: u64,
    /// What its first byte is a multiple of; its bytes are rounded up to this.
    pub align: u64,
    /// The pool that it is taken from: the number of its stream.
    pub pool: u32,
}

/// Buffers and when each is in use.
#[derive(Clone, Debug)]
pub struct Problem {
    items: Vec<Item>,
    /// Bytes of each, rounded.
    held: Vec<u64>,
    lives: Lives,
}

/// Why there is no plan for some buffers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Lists that do not go together.
    #[error("{items} buffers have {lives} lives; give one life for each buffer")]
    Lengths {
        /// How many buffers.
        items: usize,
        /// How many lives.
        lives: usize,
    },
    /// An alignment of 0.
    #[error("buffer {item} is to be aligned to 0 bytes; 1 means no alignment")]
    Alignment {
        /// The place of the buffer in the list.
        item: usize,
    },
    /// The sizes do not fit an address.
    #[error(
        "the buffers up to number {item} need more than 2^62 bytes in all; check how sizes are computed"
    )]
    TooLarge {
        /// The place of the buffer in the list.
        item: usize,
    },
}

/// No layout reaches further than this, whatever gaps alignment leaves.
const MOST_BYTES: u64 = 1 << 62;

/// Where each buffer goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The offset of each buffer.
    pub offsets: Vec<u64>,
    /// The pools: whose each is, none when all share one, and its bytes.
    pub pools: Vec<(Option<u32>, ByteRange)>,
    /// The bytes of all.
    pub height: u64,
}

/// How far the search for a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The height of the best layout so far: of all pools that have been worked on.
    pub height: u64,
    /// What it cannot come below any more: the pools that are done, and the floor, as far as
    /// it is known, of the one that is worked on.
    pub floor: u64,
}

impl Problem {
    /// Checks the numbers.
    ///
    /// # Errors
    /// When the lists do not go together, an alignment is 0, or the sizes fit no address.
    pub fn new(items: Vec<Item>, lives: Lives) -> Result<Self, PlanError> {
        if items.len() != lives.len() {
            return Err(PlanError::Lengths {
                items: items.len(),
                lives: lives.len(),
            });
        }
        let mut total = 0_u64;
        let mut held = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            if item.align == 0 {
                return Err(PlanError::Alignment { item: at });
            }
            let bytes = item.bytes.max(1).checked_next_multiple_of(item.align);
            // A buffer wastes less than its alignment below itself.
            let most = bytes.and_then(|bytes| bytes.checked_add(item.align));
            let sum = most.and_then(|most| total.checked_add(most));
            match (bytes, sum) {
                (Some(bytes), Some(sum)) if sum <= MOST_BYTES => {
                    held.push(bytes);
                    total = sum;
                }
                _ => return Err(PlanError::TooLarge { item: at }),
            }
        }
        Ok(Self { items, held, lives })
    }

    /// The buffers.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The bytes that each takes: at least one, rounded up to its alignment.
    pub fn held(&self) -> &[u64] {
        &self.held
    }

    /// When each is in use.
    pub fn lives(&self) -> &Lives {
        &self.lives
    }

    /// The least bytes that a layout under [`Sharing::Ordered`] needs.
    pub fn floor(&self) -> Floor {
        floor(&self.lives, &self.held)
    }

    /// The least bytes that the pool of one stream needs when it shares none.
    pub fn floor_of(&self, pool: u32) -> Floor {
        let members = self.members(pool);
        floor(&self.lives.of(&members), &self.held_of(&members))
    }

    /// The numbers of the pools, rising.
    pub fn pools(&self) -> Vec<u32> {
        let mut pools: Vec<u32> = self.items.iter().map(|item| item.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    fn members(&self, pool: u32) -> Vec<u32> {
        let all = (0_u32..).zip(&self.items);
        all.filter(|(_, item)| item.pool == pool)
            .map(|(at, _)| at)
            .collect()
    }

    fn held_of(&self, members: &[u32]) -> Vec<u64> {
        members.iter().map(|&at| self.held[at as usize]).collect()
    }

    /// Places all buffers, as low as can be found within the budget, or, with a
    /// capacity, no higher than that if it can be found. Whether it was is seen
    /// from the plan's height.
    pub fn plan(&self, sharing: Sharing, budget: Budget, capacity: Option<u64>) -> Plan {
        self.plan_watched(sharing, budget, capacity, &mut |_| {})
    }

    /// [`plan`](Self::plan) that says now and then how far it is. What `watch` does
    /// changes nothing in the plan.
    pub fn plan_watched(
        &self,
        sharing: Sharing,
        budget: Budget,
        capacity: Option<u64>,
        watch: &mut dyn FnMut(Progress),
    ) -> Plan {
        let mut plan = Plan {
            offsets: vec![0; self.items.len()],
            pools: Vec::new(),
            height: 0,
        };
        let align: Vec<u64> = self.items.iter().map(|item| item.align).collect();
        let mut meter = Meter::new(budget);
        if sharing == Sharing::Ordered {
            let pool = Pool {
                bytes: &self.held,
                align: &align,
                lives: &self.lives,
            };
            let mut said = |height, floor| watch(Progress { height, floor });
            let found = pool.plan(capacity.unwrap_or(0), &mut meter, &mut said);
            plan.height = found.height;
            plan.offsets = found.offsets;
            plan.pools.push((None, ByteRange::new(0, plan.height)));
            return plan;
        }
        let widest = align.iter().copied().max().unwrap_or(1);
        let mut waiting = self.items.len() as u64;
        let pools = self.pools();
        // How much of it is whose is not said when there are several pools.
        let goal = match (&pools[..], capacity) {
            ([_], Some(capacity)) => capacity,
            _ => 0,
        };
        for number in pools {
            let members = self.members(number);
            let lives = self.lives.of(&members);
            let bytes = self.held_of(&members);
            let align: Vec<u64> = members.iter().map(|&at| align[at as usize]).collect();
            let pool = Pool {
                bytes: &bytes,
                align: &align,
                lives: &lives,
            };
            let mut part = meter.share(members.len() as u64, waiting);
            waiting -= members.len() as u64;
            let start = plan.height.next_multiple_of(widest);
            let mut said = |height, floor| {
                watch(Progress {
                    height: start + height,
                    floor: start + floor,
                });
            };
            let found = pool.plan(goal, &mut part, &mut said);
            meter.reclaim(&part);
            for (&member, offset) in members.iter().zip(found.offsets) {
                plan.offsets[member as usize] = start + offset;
            }
            plan.height = start + found.height;
            let range = ByteRange::new(start, plan.height);
            plan.pools.push((Some(number), range));
        }
        plan
    }
}
