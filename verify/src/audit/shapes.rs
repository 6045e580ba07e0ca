//! Whether accesses that overlap from first to last byte share a byte at all.

use std::collections::HashMap;

use streamweir_trace::dump::Tensor;
use streamweir_trace::{BufferId, ByteRange, NodeId, Trace};

use crate::audit::strided::Strided;

/// One access of a trace: node, buffer, bytes from first to last, written.
pub(super) type Key = (NodeId, BufferId, ByteRange, bool);

/// How the bytes of an access lie between its first and its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Without gaps.
    Dense,
    /// With gaps that are known.
    Exact(Strided),
    /// Perhaps with gaps: of these bytes only the first and the last are certain.
    Unknown,
}

impl Shape {
    /// That of a tensor with at least one byte.
    pub(super) fn of(tensor: &Tensor) -> Self {
        match &tensor.view {
            None if tensor.bytes == tensor.storage => Self::Dense,
            None => Self::Unknown,
            Some(view) => match Strided::of(tensor.bytes.start, view) {
                bytes if bytes.is_dense() => Self::Dense,
                bytes => Self::Exact(bytes),
            },
        }
    }
}

/// Whether two accesses share a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meeting {
    Never,
    Perhaps,
    Surely,
}

/// The accesses of a trace that may have gaps; all others have none.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes(HashMap<Key, Vec<Shape>>);

impl Shapes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes note of the shape of an access, which may have been `known` before.
    pub(super) fn add(&mut self, key: Key, shape: Shape, known: bool) {
        match self.0.get_mut(&key) {
            Some(shapes) if shapes.contains(&shape) => {}
            Some(shapes) => shapes.push(shape),
            None if shape == Shape::Dense => {}
            // What was known and has no entry is dense.
            None if known => drop(self.0.insert(key, vec![Shape::Dense, shape])),
            None => drop(self.0.insert(key, vec![shape])),
        }
    }

    /// Whether two accesses share a byte, by address.
    pub(super) fn meeting(&self, trace: &Trace, a: Key, b: Key) -> Meeting {
        let at = |(_, buffer, bytes, _): Key| bytes.shifted(trace.buffer(buffer).range.start);
        let (Some(x), Some(y)) = (at(a), at(b)) else {
            return Meeting::Never;
        };
        if !x.overlaps(&y) {
            return Meeting::Never;
        }
        const DENSE: &[Shape] = &[Shape::Dense];
        let shapes = |key| self.0.get(&key).map_or(DENSE, Vec::as_slice);
        let pairs = shapes(a)
            .iter()
            .flat_map(|one| shapes(b).iter().map(move |other| (one, other)));
        pairs
            .map(|(one, other)| meeting((one, x), (other, y)))
            .max()
            .unwrap_or(Meeting::Surely)
    }
}

fn meeting((one, x): (&Shape, ByteRange), (other, y): (&Shape, ByteRange)) -> Meeting {
    let set = |shape: &Shape, range| match shape {
        Shape::Dense => Some(Strided::dense(range)),
        Shape::Exact(bytes) => Some(bytes.clone()),
        Shape::Unknown => None,
    };
    let ends = |range: ByteRange| [range.start, range.end - 1];
    let meets = |set: &Strided, range| set.meets(&Strided::dense(range));
    match (set(one, x), set(other, y)) {
        (Some(one), Some(other)) => match one.meets(&other) {
            Some(true) => Meeting::Surely,
            Some(false) => Meeting::Never,
            None => Meeting::Perhaps,
        },
        (Some(known), None) => beside(&known, y, ends(y), meets),
        (None, Some(known)) => beside(&known, x, ends(x), meets),
        (None, None) => match ends(x).iter().any(|byte| ends(y).contains(byte)) {
            true => Meeting::Surely,
            false => Meeting::Perhaps,
        },
    }
}

/// A known set beside one of which only the ends are certain.
fn beside(
    known: &Strided,
    range: ByteRange,
    ends: [u64; 2],
    meets: impl Fn(&Strided, ByteRange) -> Option<bool>,
) -> Meeting {
    if meets(known, range) == Some(false) {
        return Meeting::Never;
    }
    let byte = |at: u64| ByteRange::new(at, at + 1);
    match ends.iter().any(|&at| meets(known, byte(at)) == Some(true)) {
        true => Meeting::Surely,
        false => Meeting::Perhaps,
    }
}
