//! What the driver itself does, and to which bytes: copies, fills, allocations
//! and frees. Unlike a kernel such a node says exactly what it touches.

use serde::{Deserialize, Serialize};

use crate::range::ByteRange;

/// The operands of an allocation node; all zero when not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocNode {
    /// The first byte of the memory, a device address.
    #[serde(with = "crate::hex::address")]
    pub at: u64,
    /// How many bytes were asked for.
    pub bytes: u64,
}

/// The operand of a free node; zero when not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreeNode {
    /// The first byte of the memory, a device address.
    #[serde(with = "crate::hex::address")]
    pub at: u64,
}

/// The operands of a copy; addresses and bytes are zero when not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyNode {
    /// The first byte written: a device address, or a host address.
    #[serde(with = "crate::hex::address")]
    pub to: u64,
    /// The first byte read: a device address, or a host address.
    #[serde(with = "crate::hex::address")]
    pub from: u64,
    /// How many bytes of each row are copied.
    pub bytes: u64,
    /// How many rows are copied.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rows: u64,
    /// From the first byte of one row to that of the next, where it is written.
    /// No matter when there is one row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_pitch: u64,
    /// The same where it is read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from_pitch: u64,
}

impl CopyNode {
    /// A copy of one run of bytes.
    pub const fn linear(to: u64, from: u64, bytes: u64) -> Self {
        Self {
            to,
            from,
            bytes,
            rows: 1,
            to_pitch: 0,
            from_pitch: 0,
        }
    }

    /// The same copy with as few rows as its pitches allow, so that two
    /// descriptions of one copy are equal.
    #[must_use]
    pub const fn flattened(self) -> Self {
        let packed = self.to_pitch == self.bytes && self.from_pitch == self.bytes;
        match self.bytes.checked_mul(self.rows) {
            Some(bytes) if self.rows == 1 || packed => Self::linear(self.to, self.from, bytes),
            _ => self,
        }
    }

    /// From the first byte written to the last, gaps between rows included;
    /// `None` when it runs past 2^64.
    pub const fn written(&self) -> Option<ByteRange> {
        extent(self.to, self.bytes, self.rows, self.to_pitch)
    }

    /// From the first byte read to the last, gaps between rows included; `None`
    /// when it runs past 2^64.
    pub const fn read(&self) -> Option<ByteRange> {
        extent(self.from, self.bytes, self.rows, self.from_pitch)
    }
}

impl Default for CopyNode {
    fn default() -> Self {
        Self::linear(0, 0, 0)
    }
}

/// The operands of a fill; address and bytes are zero when not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FillNode {
    /// The first byte written, a device address.
    #[serde(with = "crate::hex::address")]
    pub to: u64,
    /// How many bytes of each row are written.
    pub bytes: u64,
    /// The value of every element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    #[serde(default = "one_byte", skip_serializing_if = "is_one_byte")]
    pub element: u8,
    /// How many rows are written.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub rows: u64,
    /// From the first byte of one row to that of the next. No matter when there
    /// is one row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pitch: u64,
}

impl FillNode {
    /// A fill of one run of bytes, each with `value`.
    pub const fn linear(to: u64, bytes: u64, value: u8) -> Self {
        Self {
            to,
            bytes,
            value: value as u32,
            element: 1,
            rows: 1,
            pitch: 0,
        }
    }

    /// The same fill with as few rows and as small elements as it can be said
    /// with, so that two descriptions of one fill are equal. A driver may widen
    /// the elements of a fill.
    #[must_use]
    pub const fn flattened(mut self) -> Self {
        if self.rows == 1 {
            self.pitch = 0;
        } else if self.pitch == self.bytes
            && let Some(bytes) = self.bytes.checked_mul(self.rows)
        {
            (self.bytes, self.rows, self.pitch) = (bytes, 1, 0);
        }
        let [a, b, c, d] = self.value.to_le_bytes();
        if self.element == 4 && a == c && b == d {
            (self.element, self.value) = (2, self.value & 0xffff);
        }
        if self.element == 2 && a == b {
            (self.element, self.value) = (1, self.value & 0xff);
        }
        self
    }

    /// From the first byte written to the last, gaps between rows included;
    /// `None` when it runs past 2^64.
    pub const fn written(&self) -> Option<ByteRange> {
        extent(self.to, self.bytes, self.rows, self.pitch)
    }
}

impl Default for FillNode {
    fn default() -> Self {
        Self::linear(0, 0, 0)
    }
}

const fn extent(start: u64, bytes: u64, rows: u64, pitch: u64) -> Option<ByteRange> {
    if rows == 0 || bytes == 0 {
        return Some(ByteRange { start, end: start });
    }
    let Some(before_last) = (rows - 1).checked_mul(pitch) else {
        return None;
    };
    match before_last.checked_add(bytes) {
        Some(len) => ByteRange::from_len(start, len),
        None => None,
    }
}

fn one() -> u64 {
    1
}

fn is_one(value: &u64) -> bool {
    *value == 1
}

fn one_byte() -> u8 {
    1
}

fn is_one_byte(value: &u8) -> bool {
    *value == 1
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
