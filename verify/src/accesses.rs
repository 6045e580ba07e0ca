//! The accesses of a trace by buffer, in device addresses, and the first and
//! last of them on each chain.

use streamweir_trace::{Access, AccessMode, BufferId, ByteRange, NodeId, Phase, Trace};

use crate::reach::Reach;

/// One access that touches at least one byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) node: NodeId,
    pub(crate) phase: Phase,
    pub(crate) mode: AccessMode,
    pub(crate) buffer: BufferId,
    /// Device addresses.
    pub(crate) bytes: ByteRange,
}

impl Touch {
    /// `access` in device addresses, or `None` when it touches no byte.
    fn new(trace: &Trace, access: &Access) -> Option<Self> {
        // The form check has established that the access lies in its buffer.
        let bytes = access
            .bytes
            .shifted(trace.buffer(access.buffer).range.start)?;
        (!bytes.is_empty()).then_some(Self {
            node: access.node,
            phase: access.phase,
            mode: access.mode,
            buffer: access.buffer,
            bytes,
        })
    }
}

/// What is known of the accesses of one buffer as a whole.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) buffer: BufferId,
    /// From the lowest to the highest byte touched.
    pub(crate) hull: ByteRange,
    pub(crate) writes: bool,
    /// The first and the last node that touches the buffer on each chain that
    /// has one.
    pub(crate) ends: Vec<(NodeId, NodeId)>,
}

/// The accesses of a trace, grouped by buffer.
#[derive(Debug)]
pub(crate) struct Accesses {
    first: Vec<u32>,
    touches: Vec<Touch>,
}

impl Accesses {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut touches: Vec<Touch> = trace
            .accesses
            .iter()
            .filter_map(|access| Touch::new(trace, access))
            .collect();
        touches.sort_unstable_by_key(|t| {
            (
                t.buffer,
                t.bytes.start,
                t.node,
                t.mode,
                t.phase,
                t.bytes.end,
            )
        });
        let mut first = vec![0; trace.buffers.len() + 1];
        for touch in &touches {
            first[touch.buffer.index() + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        Self { first, touches }
    }

    /// Every access, buffer by buffer.
    pub(crate) fn all(&self) -> &[Touch] {
        &self.touches
    }

    /// The accesses of one buffer, sorted by their first byte.
    pub(crate) fn of(&self, buffer: BufferId) -> &[Touch] {
        let at = buffer.index();
        &self.touches[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// One entry for each buffer that is touched at all.
    pub(crate) fn usage(&self, reach: &Reach) -> Vec<Usage> {
        let mut all = Vec::new();
        let mut places: Vec<(u32, u32, NodeId)> = Vec::new();
        for touches in self.touches.chunk_by(|a, b| a.buffer == b.buffer) {
            places.clear();
            places.extend(touches.iter().map(|touch| {
                let (chain, index) = reach.place(touch.node);
                (chain, index, touch.node)
            }));
            places.sort_unstable();
            all.push(Usage {
                buffer: touches[0].buffer,
                hull: ByteRange::new(
                    touches[0].bytes.start,
                    touches
                        .iter()
                        .map(|t| t.bytes.end)
                        .max()
                        .unwrap_or_default(),
                ),
                writes: touches.iter().any(|touch| touch.mode.writes()),
                ends: places
                    .chunk_by(|a, b| a.0 == b.0)
                    .map(|chain| (chain[0].2, chain[chain.len() - 1].2))
                    .collect(),
            });
        }
        all
    }
}
