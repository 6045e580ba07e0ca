//! How much the pools of a capture use, and for what.
//!
//! Used and peak count what blocks hold, rounded to the alignment. Reserved
//! counts the spans that a stream made its pool take from the arena; where tags
//! share bytes, another stream may be using them. All are bytes.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use streamweir_trace::ByteRange;

use crate::block::BlockKind;
use crate::policy::Policy;
use crate::size::size;

/// A statement of [`Pools::report`](crate::Pools::report). `Display` prints it
/// as a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolReport {
    /// The arena's name.
    pub arena: Arc<str>,
    /// The policy of the pools.
    pub policy: Policy,
    /// Bytes held by blocks now.
    pub used: u64,
    /// The most that was held at one moment of the recording.
    pub peak: u64,
    /// Bytes taken from the arena.
    pub reserved: u64,
    /// The streams, most reserved first.
    pub streams: Vec<StreamUse>,
    /// The blocks that are held, largest first.
    pub buffers: Vec<BufferUse>,
}

/// What one captured stream uses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamUse {
    /// The stream.
    pub stream: Arc<str>,
    /// Its tag.
    pub tag: Arc<str>,
    /// Bytes held by its blocks now.
    pub used: u64,
    /// The most that its blocks held at one moment of the recording.
    pub peak: u64,
    /// Bytes taken from the arena on its behalf.
    pub reserved: u64,
}

/// A block that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferUse {
    /// The buffer's name.
    pub name: Cow<'static, str>,
    /// The stream it was taken on.
    pub stream: Arc<str>,
    /// What it is for.
    pub kind: BlockKind,
    /// Its addresses.
    pub range: ByteRange,
}

/// Rows of a table, the first of them its head; the first columns hold words,
/// the others numbers.
struct Table<const N: usize> {
    words: usize,
    rows: Vec<[String; N]>,
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: [usize; N] = std::array::from_fn(|i| {
            self.rows
                .iter()
                .map(|row| row[i].chars().count())
                .max()
                .unwrap_or(0)
        });
        for row in &self.rows {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
                let cell = if i < self.words {
                    format!("  {cell:<width$}")
                } else {
                    format!("  {cell:>width$}")
                };
                line.push_str(&cell);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Display for PoolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "arena \"{}\", {}: {} used, {} at peak, {} reserved",
            self.arena,
            self.policy,
            size(self.used),
            size(self.peak),
            size(self.reserved)
        )?;
        let head = ["stream", "tag", "used", "peak", "reserved"].map(String::from);
        let rows = self.streams.iter().map(|s| {
            [
                s.stream.to_string(),
                s.tag.to_string(),
                size(s.used),
                size(s.peak),
                size(s.reserved),
            ]
        });
        let rows = std::iter::once(head).chain(rows).collect();
        write!(f, "{}", Table { words: 2, rows })?;
        if self.buffers.is_empty() {
            return Ok(());
        }
        let head = ["buffer", "stream", "kind", "addresses", "bytes"].map(String::from);
        let rows = self.buffers.iter().map(|b| {
            let kind = match b.kind {
                BlockKind::Scratch => "scratch",
                BlockKind::Workspace => "workspace",
            };
            [
                b.name.to_string(),
                b.stream.to_string(),
                kind.to_string(),
                b.range.to_string(),
                size(b.range.len()),
            ]
        });
        let rows = std::iter::once(head).chain(rows).collect();
        write!(f, "held, largest first:\n{}", Table { words: 4, rows })
    }
}
