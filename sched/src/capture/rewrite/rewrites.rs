//! The rewrites of one capture together.

use std::sync::Arc;

use streamweir_alloc::Block;

use super::added::{Added, Holder, Taken};
use super::poison::{Poison, Reuse, fill};
use super::tapping::Tapping;
use super::taps::Taps;
use crate::capture::pools::ScratchPools;
use crate::capture::recording::{Recording, Spot};
use crate::capture::strand::{ORIGIN, Strands};
use crate::device::DeviceInner;
use crate::error::Result;

/// The rewrites of one capture.
pub(in crate::capture) struct Rewrites {
    poison: Poison,
    reuse: Reuse,
    /// Whether the pools go by the order of the graph.
    by_graph: bool,
    tapping: Option<Tapping>,
    /// By block.
    taken: Vec<Taken>,
}

impl Rewrites {
    /// Those that are asked for; none in most captures.
    ///
    /// # Errors
    /// When taps are in use or of another device.
    pub(in crate::capture) fn new(
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
    pub(in crate::capture) fn behind(
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

    /// The fill of a block that has just been taken, if it gets one.
    pub(in crate::capture) fn taken(&mut self, taken: Taken) -> Option<Added> {
        self.taken.push(taken);
        let fills = match self.poison {
            Poison::Every => true,
            // What is compared must not differ in bytes that no kernel writes.
            _ if self.tapping.is_some() => true,
            Poison::Reused => self.reuse.again(taken.block.range) && self.by_graph,
            Poison::Off => false,
        };
        (fills && taken.holder != Holder::Library).then(|| fill(taken.spot, taken.block))
    }

    /// The fill of a block that the host has dropped.
    pub(in crate::capture) fn dropped(&self, block: Block) -> Option<Added> {
        let taken = self.taken.get(block.id.index())?;
        let spot = Spot {
            stream: ORIGIN,
            ..taken.spot
        };
        (taken.holder != Holder::Library).then(|| fill(spot, block))
    }
}
