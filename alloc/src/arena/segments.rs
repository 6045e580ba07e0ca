//! The book of an arena: its segments, who uses them, and how far each view has
//! got in each.
//!
//! A view takes spans from a segment front to back and never gives one back
//! before it ends, so one number per segment says what is left for it. This is
//! state alone: the arena locks it and talks to the backing.

use std::collections::BTreeMap;

use streamweir_trace::ByteRange;

/// A segment; never used for another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId(u64);

/// A view; never used for another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ViewId(u64);

/// A part of one segment, given to one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) segment: SegmentId,
    pub(crate) range: ByteRange,
}

#[derive(Debug)]
struct Segment {
    range: ByteRange,
    /// Open views that took bytes of it, and leases that cover it.
    holders: usize,
    /// Whether a capture that succeeded ever used it.
    committed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Segments {
    segments: BTreeMap<SegmentId, Segment>,
    /// For each open view the bytes it took, by segment.
    views: BTreeMap<ViewId, BTreeMap<SegmentId, u64>>,
    next: u64,
    /// Whether somebody is reserving a segment at this moment.
    pub(super) growing: bool,
}

impl Segments {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn open(&mut self) -> ViewId {
        let id = ViewId(self.fresh());
        self.views.insert(id, BTreeMap::new());
        id
    }

    pub(super) fn is_open(&self, view: ViewId) -> bool {
        self.views.contains_key(&view)
    }

    pub(super) fn reserved(&self) -> u64 {
        self.segments.values().map(|s| s.range.len()).sum()
    }

    pub(super) fn ranges(&self) -> Vec<ByteRange> {
        self.segments.values().map(|s| s.range).collect()
    }

    pub(super) fn push(&mut self, range: ByteRange) {
        let id = SegmentId(self.fresh());
        let segment = Segment {
            range,
            holders: 0,
            committed: false,
        };
        self.segments.insert(id, segment);
    }

    /// A span of at least `bytes` from the segment with the least room that is
    /// enough; `span_bytes` of it where there are as many.
    pub(super) fn grant(&mut self, view: ViewId, bytes: u64, span_bytes: u64) -> Option<Span> {
        let used = self.views.get_mut(&view)?;
        let taken = |id: &SegmentId, used: &BTreeMap<_, u64>| used.get(id).copied().unwrap_or(0);
        let (&id, segment) = self
            .segments
            .iter_mut()
            .filter(|(id, s)| s.range.len() - taken(id, used) >= bytes)
            .min_by_key(|(id, s)| s.range.len() - taken(id, used))?;

        let before = taken(&id, used);
        let room = segment.range.len() - before;
        let want = bytes.checked_next_multiple_of(span_bytes).unwrap_or(bytes);
        // The backing may give a segment whose length is no multiple of the
        // alignment: its last bytes stay unused.
        let len = want.min(room - room % crate::ALIGNMENT).max(bytes);
        let start = segment.range.start + before;
        if used.insert(id, before + len).is_none() {
            segment.holders += 1;
        }
        Some(Span {
            segment: id,
            range: ByteRange::new(start, start + len),
        })
    }

    /// Ends a view that succeeded: the bytes it took, by segment.
    pub(super) fn commit(&mut self, view: ViewId) -> Option<Vec<Span>> {
        let used = self.views.remove(&view)?;
        let mut covered = Vec::with_capacity(used.len());
        for (id, bytes) in used {
            if let Some(segment) = self.segments.get_mut(&id) {
                segment.committed = true;
                let start = segment.range.start;
                covered.push(Span {
                    segment: id,
                    range: ByteRange::new(start, start + bytes),
                });
            }
        }
        Some(covered)
    }

    /// Ends a view that failed: the segments to hand back.
    pub(super) fn abort(&mut self, view: ViewId) -> Vec<ByteRange> {
        for id in self.views.remove(&view).into_iter().flatten().map(|u| u.0) {
            self.let_go(id);
        }
        self.take(|segment| segment.holders == 0 && !segment.committed)
    }

    pub(super) fn end_lease(&mut self, covered: impl Iterator<Item = SegmentId>) {
        for id in covered {
            self.let_go(id);
        }
    }

    pub(super) fn take_unused(&mut self) -> Vec<ByteRange> {
        self.take(|segment| segment.holders == 0)
    }

    fn let_go(&mut self, id: SegmentId) {
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.holders -= 1;
        }
    }

    fn take(&mut self, which: impl Fn(&Segment) -> bool) -> Vec<ByteRange> {
        let mut taken = Vec::new();
        self.segments.retain(|_, segment| {
            let goes = which(segment);
            if goes {
                taken.push(segment.range);
            }
            !goes
        });
        taken
    }
}
