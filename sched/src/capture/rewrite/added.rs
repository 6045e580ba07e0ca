//! What rewrites look at and what they add.

use streamweir_alloc::Block;

use super::element::ElementKind;
use crate::capture::recording::{Draft, Spot, What};

/// A block as it was taken.
#[derive(Clone, Copy)]
pub(in crate::capture) struct Taken {
    pub(in crate::capture) block: Block,
    pub(in crate::capture) spot: Spot,
    pub(in crate::capture) element: ElementKind,
    pub(in crate::capture) holder: Holder,
}

/// Who knows what is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Holder {
    /// Whoever took it, and declares what is done to it.
    User,
    /// A library, during one call.
    Call,
    /// A library, from one call to the next.
    Library,
}

/// A command that a rewrite adds.
pub(in crate::capture) struct Added {
    pub(in crate::capture) spot: Spot,
    pub(in crate::capture) what: What,
    pub(in crate::capture) draft: Draft,
}
