//! The order in which locks are taken.

use std::fmt;

/// The place of a lock in the order. Of two locks that one thread holds, the one
/// it took later has the higher rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    level: u8,
    /// Within a level, for locks of one kind that are taken together.
    order: u64,
    name: &'static str,
}

impl Rank {
    /// Under such a lock no other one is taken, not even of its kind.
    pub const LEAF: Self = Self::new(u8::MAX, "a leaf");

    /// A rank of its own, called `name` in messages.
    pub const fn new(level: u8, name: &'static str) -> Self {
        Self {
            level,
            order: 0,
            name,
        }
    }

    /// The rank of number `order` of several locks of one kind, which are taken
    /// in the order of their numbers.
    #[must_use]
    pub const fn of(mut self, order: u64) -> Self {
        self.order = order;
        self
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rank {}.{})", self.name, self.level, self.order)
    }
}
