//! A log played through the pools that captures use, with addresses that no
//! memory is behind: what live and foreign captures of the same program would
//! reserve.

use std::sync::Arc;
use std::time::{Duration, Instant};

use streamweir_base::sync::Mutex;
use streamweir_base::{ALIGNMENT, Backing, BackingError};
use streamweir_trace::{AllocLog, ByteRange, LogBuffer, LogEvent};
use thiserror::Error;

use crate::arena::{Arena, ArenaConfig};
use crate::block::{Block, BlockId};
use crate::error::AllocError;
use crate::policy::Policy;
use crate::pool::Pools;
use crate::report::PoolReport;

/// What the pools know of who uses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Every access is recorded.
    Known,
    /// None is, as behind a C `malloc` and `free`.
    Unknown,
}

/// How a log went through the pools.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The addresses of each buffer.
    pub ranges: Vec<ByteRange>,
    /// Bytes that the pools have taken from the arena.
    pub reserved: u64,
    /// The use of each stream, and what is held at the end.
    pub report: PoolReport,
    /// Calls of the pools: taken, freed, recorded, joined.
    pub calls: u64,
    /// Time that all these calls took together.
    pub took: Duration,
}

/// Why a log cannot be played.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The pools align to less than a buffer needs.
    #[error(
        "{buffer} is to be aligned to {align} bytes and pools align to {ALIGNMENT}; plan it instead"
    )]
    Alignment {
        /// What the log calls the buffer.
        buffer: String,
        /// What it asks for.
        align: u64,
    },
    /// The pools refused a call.
    #[error(transparent)]
    Pools(#[from] AllocError),
}

/// The lowest address, which is one that a device might give.
const BASE: u64 = 1 << 40;

/// Addresses in one piece that can always be made longer.
struct Addresses(Mutex<u64>);

impl Backing for Addresses {
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError> {
        let mut end = self.0.lock();
        let start = *end;
        let new = start
            .checked_add(bytes)
            .ok_or_else(|| BackingError::out_of_memory("the addresses of 64 bits are used up"))?;
        *end = new;
        Ok(ByteRange::new(start, new))
    }

    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        if *self.0.lock() != piece.end {
            return Ok(None);
        }
        self.reserve(bytes).map(Some)
    }

    fn release(&self, _piece: ByteRange) {}
}

/// Plays `log` through the pools of one capture.
///
/// # Errors
/// When a buffer needs more alignment than pools give, or the pools refuse a
/// call, as they do for a use after the free, which a log that was read has not.
pub fn replay(log: &AllocLog, policy: Policy, users: Users) -> Result<Replayed, ReplayError> {
    let unaligned = |align: u64| !ALIGNMENT.is_multiple_of(align);
    if let Some(buffer) = log.buffers.iter().find(|buffer| unaligned(buffer.align)) {
        return Err(ReplayError::Alignment {
            buffer: buffer.name.clone(),
            align: buffer.align,
        });
    }
    let config = ArenaConfig {
        segment_bytes: 1 << 20,
        span_bytes: 256 << 10,
    };
    let arena = Arena::new("log", Arc::new(Addresses(Mutex::new(BASE))), config);
    let pools = Pools::new(arena.open(), policy);
    for stream in 0..log.streams {
        let name = format!("stream {stream}");
        pools.add_stream(&*name, &*name)?;
    }
    // By buffer: a log need not take them in the order of their numbers. The
    // readers refuse a use of what has not been taken.
    let mut blocks: Vec<Option<Block>> = vec![None; log.buffers.len()];
    let mut touched: Vec<BlockId> = Vec::new();
    let start = Instant::now();
    for event in &log.events {
        match event {
            LogEvent::Join { from, to } => pools.join(*to, *from)?,
            LogEvent::Alloc(buffer) => {
                let LogBuffer { stream, bytes, .. } = log.buffers[buffer.index()];
                blocks[buffer.index()] = Some(pools.alloc(stream, bytes, "")?);
            }
            LogEvent::Kernel {
                stream,
                reads,
                writes,
            } => {
                touched.clear();
                if users == Users::Known {
                    let all = reads.iter().chain(writes);
                    let taken = all.filter_map(|buffer| blocks[buffer.index()]);
                    touched.extend(taken.map(|block| block.id));
                }
                pools.record(*stream, &touched)?;
            }
            LogEvent::Free(buffer) => {
                if let Some(Block { id, .. }) = blocks[buffer.index()] {
                    match users {
                        Users::Known => pools.free(id)?,
                        Users::Unknown => pools.free_unknown(id)?,
                    }
                }
            }
        }
    }
    let took = start.elapsed();
    let report = pools.report();
    pools.finish()?;
    let range = |block: &Option<Block>| block.map_or(ByteRange::default(), |block| block.range);
    Ok(Replayed {
        ranges: blocks.iter().map(range).collect(),
        reserved: report.reserved,
        report,
        calls: log.events.len() as u64,
        took,
    })
}
