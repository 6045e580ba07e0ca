//! Whether pools of different tags may share bytes.
//!
//! A policy decides which bytes are handed out. To hand out bytes is safe; to let
//! kernels use them that a policy shares too early is not, and whoever configures
//! captures vouches for that.

use std::fmt;

/// How a capture's pools use the bytes of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Policy(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Kind {
    #[default]
    Isolated,
    Ordered,
    HostOrder,
}

impl Policy {
    /// Pools of different tags are disjoint address ranges. Within a tag a
    /// freed block is used again once every access of the old buffer happens
    /// before the new one's alloc point. The default.
    pub const ISOLATED: Self = Self(Kind::Isolated);

    /// All tags share one set of bytes. A freed block may go to another tag
    /// where happens-before already orders the two buffers; no edge is added
    /// for it.
    pub const ORDERED: Self = Self(Kind::Ordered);

    /// One pool for all streams, in which a freed block is at once anybody's:
    /// the order of host calls is taken for the order of the device. This is
    /// what a caching allocator with one capture pool does, and it is wrong as
    /// soon as two streams overlap at replay. Here it models such an engine in
    /// demonstrations and tests.
    ///
    /// The pools themselves are none the worse for it: kernels of a graph that is
    /// captured under this policy may overwrite each other's buffers, so whoever
    /// runs one must not rely on any result.
    pub const HOST_ORDER: Self = Self(Kind::HostOrder);

    /// Whether each tag has address ranges of its own.
    #[inline]
    pub const fn is_isolated(self) -> bool {
        matches!(self.0, Kind::Isolated)
    }

    /// Whether reuse looks at happens-before at all.
    #[inline]
    pub const fn is_ordered_by_graph(self) -> bool {
        !matches!(self.0, Kind::HostOrder)
    }

    /// The word that reports print.
    pub const fn word(self) -> &'static str {
        match self.0 {
            Kind::Isolated => "isolated",
            Kind::Ordered => "ordered",
            Kind::HostOrder => "host order (unsafe)",
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({})", self.word())
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
