//! Indices into the tables of one [`Trace`](crate::Trace).
//!
//! An id means nothing outside the trace it was given by.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of table position `index`.
            ///
            /// # Panics
            /// When `index` does not fit 32 bits; a trace holds fewer than 2^32
            /// entries of each kind.
            #[inline]
            pub const fn at(index: usize) -> Self {
                assert!(index <= u32::MAX as usize, "a trace table holds at most 2^32 entries");
                Self(index as u32)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A captured stream of a trace.
    StreamId,
    "s"
);
id!(
    /// A node of a trace. Ids follow the order in which the host recorded the
    /// nodes, where that order is known.
    NodeId,
    "n"
);
id!(
    /// A buffer of a trace: an identity, not an address.
    BufferId,
    "b"
);
id!(
    /// A scope path of a trace, such as `layer 17/indexer`.
    ScopeId,
    "p"
);
id!(
    /// An event of a session.
    EventId,
    "e"
);
id!(
    /// An executable graph of a session.
    GraphId,
    "g"
);
id!(
    /// A step of a session. Reports print it as a node, with the same number.
    StepId,
    "n"
);
