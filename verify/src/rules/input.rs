//! What every check reads.

use crate::context::Context;
use crate::sweep::Suspects;

/// What every check reads.
#[derive(Debug)]
pub(super) struct Input<'c, 't> {
    pub(super) context: &'c Context<'t>,
    /// What the sweep over all bytes leaves to be judged.
    pub(super) suspects: Suspects,
}
