//! All that a capture has come to so far: the recording, what the driver made of
//! it, and what it lives on.

use std::any::Any;
use std::sync::Arc;

use streamweir_alloc::{AllocError, BlockId, BlockKind, BlockRecord, Lease, PoolReport};
use streamweir_trace::{AccessMode, ByteRange, Reserved, StreamId};

use super::buffer::{Memory, Place};
use super::lane::{Lane, lane_of};
use super::nodes::{Nodes, Sent};
use super::options::Verify;
use super::plan::Placed;
use super::pools::ScratchPools;
use super::recording::{BufferKey, Draft, Recording, Spot, What};
use super::strand::Strands;
use crate::device::{Claim, DeviceInner, EventInner, PersistentInner};
use crate::error::{Error, Name, Result};
use crate::graph::{GroupInner, Keep};
use streamweir_base::inside::Inside;

pub(super) struct Recorded {
    pub(super) device: Arc<DeviceInner>,
    pub(super) pools: Arc<ScratchPools>,
    pub(super) home: Arc<GroupInner>,
    pub(super) verify: Verify,
    pub(super) recording: Recording,
    pub(super) nodes: Nodes,
    pub(super) strands: Strands,
    /// The replay group that an engine's graph shares an arena with, by somebody's word.
    pub(super) shares_with: Option<Name>,
    /// That it records events, once it records one.
    pub(super) claim: Option<Arc<Claim>>,
    /// What foreign calls asked to be kept.
    pub(super) asked: Vec<Arc<dyn Any + Send + Sync>>,
    /// Where the blocks lie, when that was decided after they had been taken.
    pub(super) placed: Option<Placed>,
    /// The thread is inside this capture.
    pub(super) inside: Option<Inside>,
}

impl Recorded {
    /// The name of the capture.
    pub(super) fn name(&self) -> &Name {
        &self.pools.capture
    }

    /// Enters a command and what became of it.
    ///
    /// # Errors
    /// When a block that it touches has been freed, or the pools have ended.
    pub(super) fn push(
        &mut self,
        spot: Spot,
        what: What,
        draft: &mut Draft,
        sent: Sent,
    ) -> std::result::Result<u32, AllocError> {
        self.pools.pools.record(spot.stream, &draft.blocks)?;
        let frontier = &mut self.strands.get_mut(spot.stream).frontier;
        let command = self.recording.push(spot, what, draft, frontier);
        frontier.clear();
        frontier.push(command);
        self.nodes.push(sent);
        Ok(command)
    }

    /// Makes the capture, and then its graph, one that records an event.
    ///
    /// # Errors
    /// When somebody else records it.
    pub(super) fn claim(&mut self, event: &EventInner) -> Result<()> {
        let claim = || Claim::of(&self.pools.capture, &self.home.turns);
        event.claim(self.claim.get_or_insert_with(claim))
    }

    /// What is being done when a command is sent, for errors.
    pub(super) fn doing(&self, what: &What, spot: Spot) -> String {
        let scope = spot
            .scope
            .map(|id| format!(" in \"{}\"", self.recording.scopes[id.index()]))
            .unwrap_or_default();
        format!(
            "{} on stream \"{}\"{scope} of capture \"{}\"",
            what.doing(),
            self.strands.get(spot.stream).name,
            self.name()
        )
    }

    /// The same of a recorded command.
    pub(super) fn doing_command(&self, command: u32) -> String {
        let command = &self.recording.commands[command as usize];
        self.doing(&command.what, command.spot)
    }

    /// The blocks of the capture, where they lie.
    pub(super) fn blocks(&self) -> Vec<BlockRecord> {
        let mut blocks = self.pools.pools.buffers();
        if let Some(placed) = &self.placed {
            placed.relocate(&mut blocks);
        }
        blocks
    }

    /// The use of the pools.
    pub(super) fn pool_report(&self) -> PoolReport {
        let mut report = self.pools.pools.report();
        if let Some(placed) = &self.placed {
            placed.correct(&mut report, &self.strands, &self.pools.pools.buffers());
        }
        report
    }

    /// The memory that the pools hold for scratch, used or not. A workspace lies
    /// in a pool, too, but is no scratch that could have been packed closer.
    pub(super) fn held_for_scratch(&self) -> Vec<Reserved> {
        let held = match &self.placed {
            None => {
                let pools = self.pools.pools.reserved().into_iter();
                pools
                    .map(|(stream, range)| Reserved { stream, range })
                    .collect()
            }
            Some(placed) => placed.reserved(),
        };
        let mut workspaces: Vec<ByteRange> = (self.blocks().into_iter())
            .filter(|block| block.kind == BlockKind::Workspace)
            .map(|block| block.range)
            .collect();
        workspaces.sort_unstable();
        let mut scratch = Vec::with_capacity(held.len());
        for Reserved { stream, range } in held {
            let mut from = range.start;
            let inside = workspaces.iter().filter(|other| other.overlaps(&range));
            let end = ByteRange::new(range.end, range.end);
            for workspace in inside.chain([&end]) {
                if from < workspace.start {
                    let range = ByteRange::new(from, workspace.start);
                    scratch.push(Reserved { stream, range });
                }
                from = from.max(workspace.end);
            }
        }
        scratch
    }

    /// Everything that the nodes of this capture may refer to, but for its
    /// scratch.
    pub(super) fn keeps(&self) -> Keep {
        let mut keep = self.recording.keeps();
        keep.foreign.clone_from(&self.asked);
        keep.claim.clone_from(&self.claim);
        keep
    }

    /// Ends the pools well. The lease holds their memory.
    ///
    /// # Errors
    /// When they have ended already.
    pub(super) fn finish_pools(&self) -> Result<Lease> {
        self.pools.free_drops()?;
        Ok(self.pools.pools.finish()?)
    }

    /// Notes that the command in the making touches a place.
    ///
    /// # Errors
    /// When it is of another capture or device.
    #[inline]
    pub(super) fn touch(
        &mut self,
        draft: &mut Draft,
        place: &Place<'_>,
        mode: AccessMode,
    ) -> Result<BufferKey> {
        match place.memory {
            Memory::Scratch { pools, block, .. } => {
                if !Arc::ptr_eq(pools, &self.pools) {
                    return Err(other_capture(self, pools, block));
                }
                Ok(draft.add_block(block, place.bytes, mode))
            }
            Memory::Persistent(inner) => {
                let buffer = match self.recording.known(inner) {
                    Some(buffer) => buffer,
                    None => self.enter(inner)?,
                };
                draft.add_access(buffer, place.bytes, mode);
                Ok(buffer)
            }
        }
    }

    /// A buffer that was not found at once.
    #[cold]
    fn enter(&mut self, inner: &Arc<PersistentInner>) -> Result<BufferKey> {
        if !inner.is_on(&self.device) {
            return Err(Error::OtherDevice {
                what: format!("persistent buffer \"{}\"", inner.name),
                used_on: self.device.reclaim.info().name.clone(),
            });
        }
        Ok(self.recording.persistent(inner))
    }

    /// Refuses a lane type that stands for another stream.
    pub(super) fn check_lane<L: Lane>(&self, id: Option<StreamId>) -> Result<()> {
        let Some((lane, type_name)) = lane_of::<L>() else {
            return Ok(());
        };
        match self.strands.of_lane(lane) {
            Some(taken) if Some(taken) != id => Err(Error::LaneTaken {
                lane: type_name,
                capture: self.name().to_string(),
                first: self.strands.get(taken).name.to_string(),
            }),
            _ => Ok(()),
        }
    }
}

#[cold]
fn other_capture(recorded: &Recorded, pools: &ScratchPools, block: BlockId) -> Error {
    Error::OtherCapture {
        what: format!("scratch buffer \"{}\"", pools.block_name(block)),
        made_in: pools.capture.to_string(),
        used_in: recorded.name().to_string(),
    }
}
