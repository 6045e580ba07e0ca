//! What every check reads, and how it may end.

use crate::context::Context;
use crate::error::VerifyError;
use crate::sweep::Suspects;

/// What every check reads.
#[derive(Debug)]
pub(super) struct Input<'c, 't> {
    pub(super) context: &'c Context<'t>,
    /// What the sweep over all bytes leaves to be judged.
    pub(super) suspects: Suspects,
}

/// A check ends early where it would take too long.
pub(super) type Checked = Result<(), VerifyError>;
