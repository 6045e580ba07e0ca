//! Where an arena gets address ranges from.

use std::error::Error;

use streamweir_trace::ByteRange;
use thiserror::Error as ThisError;

/// Every range of a [`Backing`] starts at a multiple of this many bytes: what the
/// CUDA driver's own allocator promises.
pub const ALIGNMENT: u64 = 256;

/// A source of address ranges: a device allocator, a simulated device, a test.
///
/// An arena calls it while it holds no lock. A call may come from any thread,
/// `release` also from the drop of the last lease, possibly while a capture is
/// going on: a backing whose device cannot free under capture puts the range
/// aside. No call may call back into the arena.
pub trait Backing: Send + Sync {
    /// Reserves at least `bytes` bytes, aligned to [`ALIGNMENT`]
    /// and disjoint from every range that is reserved and not yet released.
    ///
    /// # Errors
    /// When the memory cannot be had; [`BackingError::out_of_memory`] when
    /// there is none left.
    fn reserve(&self, bytes: u64) -> Result<ByteRange, BackingError>;

    /// Reserves at least `bytes` bytes that begin exactly where `piece` ends, so
    /// that both can be used as one; `None` when that cannot be done there, as is
    /// always the case where memory comes in pieces of any address. `piece` came
    /// from this backing and nothing follows it yet.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    fn extend(&self, piece: ByteRange, bytes: u64) -> Result<Option<ByteRange>, BackingError> {
        let (_, _) = (piece, bytes);
        Ok(None)
    }

    /// Takes back a range that `reserve` or `extend` gave. Nothing refers to it
    /// any more.
    fn release(&self, piece: ByteRange);
}

/// Why a backing could not reserve memory.
#[derive(Debug, ThisError)]
#[error("the backing could not reserve memory")]
pub struct BackingError {
    out_of_memory: bool,
    source: Box<dyn Error + Send + Sync>,
}

impl BackingError {
    /// There is no memory left; `source` says it in the device's words.
    pub fn out_of_memory(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            out_of_memory: true,
            source: source.into(),
        }
    }

    /// The reservation failed for another reason.
    pub fn failed(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            out_of_memory: false,
            source: source.into(),
        }
    }

    /// Whether there was no memory left.
    pub fn is_out_of_memory(&self) -> bool {
        self.out_of_memory
    }

    /// What the device said.
    pub fn into_source(self) -> Box<dyn Error + Send + Sync> {
        self.source
    }
}
