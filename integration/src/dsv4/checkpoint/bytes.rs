//! Bytes of a tensor: a part of a mapped file, or memory.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use memmap2::Mmap;

/// Bytes that many can hold at once. Cloning copies none of them.
#[derive(Clone)]
pub struct Bytes {
    whole: Whole,
    range: Range<usize>,
}

#[derive(Clone)]
enum Whole {
    Mapped(Arc<Mmap>),
    Owned(Arc<[u8]>),
}

impl Bytes {
    /// A part of a mapped file; none where the file has no such part.
    pub(super) fn mapped(file: &Arc<Mmap>, range: Range<usize>) -> Option<Self> {
        file.get(range.clone())?;
        Some(Self {
            whole: Whole::Mapped(Arc::clone(file)),
            range,
        })
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            range: 0..bytes.len(),
            whole: Whole::Owned(bytes.into()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.whole {
            Whole::Mapped(file) => file,
            Whole::Owned(bytes) => bytes,
        };
        &whole[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
