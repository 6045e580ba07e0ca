//! The scratch pools of a capture, as its scratch buffers hold them: they may
//! be dropped anywhere, and outlive the capture.

use std::sync::{Arc, OnceLock};

use streamweir_alloc::{AllocError, Block, BlockId, Pools};
use streamweir_base::sync::Mutex;
use streamweir_trace::ByteRange;

use crate::error::{Error, Name};

/// What scratch buffers share with their capture.
pub(crate) struct ScratchPools {
    /// The name of the capture.
    pub(crate) capture: Name,
    /// Of a planned capture they work on addresses that no device has.
    pub(crate) pools: Pools,
    /// Where the blocks of a planned capture lie, once that is known; none for a
    /// capture whose pools place them.
    placed: Option<OnceLock<Arc<[ByteRange]>>>,
    /// Buffers that the host has dropped and whose bytes are still theirs. None
    /// where a drop frees at once, or when the capture has ended.
    dropped: Option<Mutex<Option<Vec<Block>>>>,
}

impl ScratchPools {
    pub(super) fn new(capture: Name, pools: Pools) -> Self {
        Self {
            capture,
            pools,
            placed: None,
            dropped: None,
        }
    }

    /// The blocks are placed when the recording is complete.
    pub(super) fn placed_later(mut self) -> Self {
        self.placed = Some(OnceLock::new());
        self
    }

    /// What the host drops is put aside until somebody asks for it.
    pub(super) fn with_drops_put_aside(mut self) -> Self {
        self.dropped = Some(Mutex::new(Some(Vec::new())));
        self
    }

    pub(crate) fn block_name(&self, block: BlockId) -> String {
        let buffers = self.pools.buffers();
        buffers
            .get(block.index())
            .map(|b| b.name.to_string())
            .unwrap_or_default()
    }

    /// Where a block lies that its pool put at `range`; none while a planned
    /// capture is being recorded.
    pub(crate) fn range_of(&self, block: BlockId, range: ByteRange) -> Option<ByteRange> {
        match &self.placed {
            None => Some(range),
            Some(placed) => placed.get()?.get(block.index()).copied(),
        }
    }

    /// The blocks of a planned capture have been placed.
    pub(super) fn set_placed(&self, ranges: Arc<[ByteRange]>) {
        if let Some(placed) = &self.placed {
            // A capture is placed once, when it ends.
            let _ = placed.set(ranges);
        }
    }

    /// The refusal of what needs the address of a block that has none yet.
    #[cold]
    pub(crate) fn no_address(&self, block: BlockId) -> Error {
        Error::Unplannable {
            what: format!(
                "taking the address of scratch buffer \"{}\"",
                self.block_name(block)
            ),
            capture: self.capture.to_string(),
            instead: "its bytes are placed when the recording ends: use the addresses that \
                      `foreign_call` hands to the call, or capture live",
        }
    }

    /// The host lets go of a block.
    pub(super) fn let_go(&self, block: Block) -> Result<(), AllocError> {
        if let Some(dropped) = &self.dropped
            && let Some(dropped) = &mut *dropped.lock()
        {
            dropped.push(block);
            return Ok(());
        }
        self.pools.free(block.id)
    }

    /// The blocks that were put aside since the last call, which are freed by
    /// whoever takes them.
    pub(super) fn take_dropped(&self) -> Vec<Block> {
        let Some(dropped) = &self.dropped else {
            return Vec::new();
        };
        let mut dropped = dropped.lock();
        dropped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// From here on a drop frees at once, and so is freed what was put aside.
    pub(super) fn free_drops(&self) -> Result<(), AllocError> {
        let Some(dropped) = &self.dropped else {
            return Ok(());
        };
        let rest = dropped.lock().take();
        let freed = rest
            .into_iter()
            .flatten()
            .map(|block| self.pools.free(block.id));
        freed.fold(Ok(()), Result::and)
    }
}
