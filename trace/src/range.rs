//! Half-open ranges of bytes.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hex::Address;

/// The bytes `start..end`: device addresses, or offsets inside a buffer.
///
/// A range may be empty; an empty range overlaps nothing. In files the two
/// bounds are hexadecimal strings, because a JSON number does not hold every
/// 64-bit address in every reader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// One past the last byte; never below `start`.
    pub end: u64,
}

impl ByteRange {
    /// The bytes `start..end`.
    ///
    /// # Panics
    /// When `end` is below `start`.
    #[inline]
    #[track_caller]
    pub const fn new(start: u64, end: u64) -> Self {
        assert!(start <= end, "a byte range ends at or after its start");
        Self { start, end }
    }

    /// The `len` bytes from `start`, or `None` when they run past 2^64.
    #[inline]
    pub const fn from_len(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// Length in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // is_empty is just below
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the two ranges share a byte.
    #[inline]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end && !self.is_empty() && !other.is_empty()
    }

    /// The shared bytes, or `None` when there are none.
    #[inline]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        self.overlaps(other).then(|| Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        })
    }

    /// Whether every byte of `other` lies in this range.
    #[inline]
    pub const fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the byte at `address` lies in this range.
    #[inline]
    pub const fn contains_byte(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// The range moved up by `offset`, or `None` when it would run past 2^64.
    #[inline]
    pub const fn shifted(&self, offset: u64) -> Option<Self> {
        match (self.start.checked_add(offset), self.end.checked_add(offset)) {
            (Some(start), Some(end)) => Some(Self { start, end }),
            _ => None,
        }
    }
}

impl fmt::Debug for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

impl Serialize for ByteRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [format!("{:#x}", self.start), format!("{:#x}", self.end)].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [Address(start), Address(end)] = Deserialize::deserialize(deserializer)?;
        if end < start {
            return Err(D::Error::custom(format!(
                "byte range {start:#x}..{end:#x} ends before it starts"
            )));
        }
        Ok(Self { start, end })
    }
}
