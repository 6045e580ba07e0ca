//! Rewrites: what a capture can be made to do besides its work, so that an
//! error shows itself.
//!
//! | rewrite | what it adds |
//! | --- | --- |
//! | [`Poison`] | fills of scratch whose content nobody may rely on |
//! | [`Taps`] | copies of what each command read and wrote |
//!
//! A rewrite looks at one command, or at one block that is taken or dropped, and
//! returns the commands to be added. It sends nothing and records nothing: the
//! recorder does that with the added commands as with any other, and does not
//! rewrite them again. So the verifier sees them, and graphs, planned captures
//! and eager runs have them alike. This goes command by command, for a live
//! capture sends each at once. A capture without rewrites has no node and makes
//! no call for them.

mod element;
mod poison;
mod readings;
mod tapping;
mod taps;

use std::sync::Arc;

use streamweir_alloc::Block;

pub(super) use self::element::ElementKind;
pub use self::poison::Poison;
use self::poison::Reuse;
pub use self::readings::{Difference, Differential, Readings};
use self::tapping::Tapping;
pub use self::taps::Taps;
use super::pools::ScratchPools;
use super::recording::{Draft, Recording, Spot, What};
use super::strand::Strands;
use crate::device::DeviceInner;
use crate::error::Result;

/// The rewrites of one capture.
pub(super) struct Rewrites {
    poison: Poison,
    reuse: Reuse,
    /// Whether the pools go by the order of the graph.
    by_graph: bool,
    tapping: Option<Tapping>,
    /// By block.
    taken: Vec<Taken>,
}

/// A block as it was taken.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub(super) block: Block,
    pub(super) spot: Spot,
    pub(super) element: ElementKind,
    pub(super) holder: Holder,
}

/// Who knows what is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Whoever took it, and declares what is done to it.
    User,
    /// A library, during one call.
    Call,
    /// A library, from one call to the next.
    Library,
}

/// A command that a rewrite adds.
pub(super) struct Added {
    pub(super) spot: Spot,
    pub(super) what: What,
    pub(super) draft: Draft,
}

impl Rewrites {
    /// Those that are asked for; none in most captures.
    ///
    /// # Errors
    /// When taps are in use or of another device.
    pub(super) fn new(
        poison: Poison,
        taps: Option<&Taps>,
        by_graph: bool,
        device: &Arc<DeviceInner>,
        capture: &str,
    ) -> Result<Option<Box<Self>>> {
        if poison == Poison::Off && taps.is_none() {
            return Ok(None);
        }
        let tapping = match taps {
            None => None,
            Some(taps) => {
                taps.begin(device, capture)?;
                Some(Tapping::new(taps.clone()))
            }
        };
        Ok(Some(Box::new(Self {
            poison,
            reuse: Reuse::default(),
            by_graph,
            tapping,
            taken: Vec::new(),
        })))
    }

    /// What is added behind a command that has just been recorded.
    ///
    /// # Errors
    /// When there is no memory for copies.
    pub(super) fn behind(
        &mut self,
        command: u32,
        recording: &mut Recording,
        strands: &Strands,
        pools: &ScratchPools,
    ) -> Result<Vec<Added>> {
        match &mut self.tapping {
            None => Ok(Vec::new()),
            Some(tapping) => tapping.behind(command, recording, strands, pools, &self.taken),
        }
    }
}
