//! What the lock of [`Pools`](super::Pools) protects. Nothing here locks, waits
//! or calls out.

use std::borrow::Cow;
use std::sync::Arc;

use streamweir_trace::{ByteRange, StreamId};

use super::space::{Space, Whose};
use crate::arena::{Span, Tail};
use crate::block::{Block, BlockId, BlockKind, BlockRecord};
use crate::clocks::{Clock, Clocks, Position};
use crate::error::AllocError;
use crate::policy::Policy;

#[derive(Debug)]
pub(super) struct State {
    pub(super) ended: bool,
    pub(super) clocks: Clocks,
    pub(super) blocks: Vec<Held>,
    policy: Policy,
    capture: u32,
    pub(super) streams: Vec<Member>,
    /// One for each stream, or one for all.
    spaces: Vec<Space>,
    pub(super) total: Usage,
}

/// A captured stream.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) tag: Arc<str>,
    pub(super) usage: Usage,
    /// Bytes taken from the arena because this stream asked for them.
    pub(super) reserved: u64,
}

/// A running count with its maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) used: u64,
    pub(super) peak: u64,
}

impl Usage {
    #[inline]
    pub(super) fn take(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    #[inline]
    pub(super) fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) record: BlockRecord,
    chunk: u32,
    alloc_point: Clock,
    /// For each stream its last node that accessed the block.
    users: Clock,
    /// Whether its handle is gone. After the end of the capture that changes without a
    /// free: the bytes are used for nothing else then.
    pub(super) handle_dropped: bool,
}

impl State {
    pub(super) fn new(policy: Policy, capture: u32) -> Self {
        let shared = (!policy.is_isolated()).then(|| Space::new(Whose::All));
        Self {
            ended: false,
            clocks: Clocks::default(),
            blocks: Vec::new(),
            policy,
            capture,
            streams: Vec::new(),
            spaces: shared.into_iter().collect(),
            total: Usage::default(),
        }
    }

    pub(super) fn add_stream(
        &mut self,
        name: Arc<str>,
        tag: Arc<str>,
    ) -> Result<StreamId, AllocError> {
        if let Some(holder) = self.streams.iter().find(|member| member.tag == tag) {
            return Err(AllocError::TagTaken {
                stream: name,
                tag,
                holder: Arc::clone(&holder.name),
            });
        }
        let id = self.clocks.add_stream();
        self.streams.push(Member {
            name,
            tag,
            usage: Usage::default(),
            reserved: 0,
        });
        if self.policy.is_isolated() {
            self.spaces.push(Space::new(Whose::One(id)));
        }
        self.open_reached(id);
        Ok(id)
    }

    #[inline]
    pub(super) fn has(&self, stream: StreamId) -> Result<(), AllocError> {
        let count = self.streams.len();
        if stream.index() < count {
            return Ok(());
        }
        Err(AllocError::UnknownStream { stream, count })
    }

    #[inline]
    pub(super) fn owns(&self, block: BlockId) -> Result<(), AllocError> {
        if block.capture == self.capture && block.index() < self.blocks.len() {
            return Ok(());
        }
        Err(AllocError::OtherCapture { block })
    }

    fn holds(&self, block: BlockId) -> Result<(), AllocError> {
        self.owns(block)?;
        let record = &self.blocks[block.index()].record;
        if record.freed_before.is_none() {
            return Ok(());
        }
        Err(AllocError::Freed {
            buffer: record.name.to_string(),
            stream: Arc::clone(&self.streams[record.stream.index()].name),
        })
    }

    pub(super) fn names(&self, stream: StreamId) -> (Arc<str>, Arc<str>) {
        let member = &self.streams[stream.index()];
        (Arc::clone(&member.name), Arc::clone(&member.tag))
    }

    pub(super) fn wait_for(&mut self, waiting: StreamId, on: StreamId) -> Result<(), AllocError> {
        self.has(waiting)?;
        self.has(on)?;
        self.clocks.wait_for(waiting, on);
        self.open_reached(waiting);
        Ok(())
    }

    pub(super) fn wait(&mut self, stream: StreamId, event: &Clock) -> Result<(), AllocError> {
        self.has(stream)?;
        self.clocks.wait(stream, event);
        self.open_reached(stream);
        Ok(())
    }

    /// Opens to requests what the frontier of the stream has come to reach.
    fn open_reached(&mut self, stream: StreamId) {
        let space = self.space(stream);
        self.spaces[space].open_reached(stream, &self.clocks);
    }

    pub(super) fn tails(&self, stream: StreamId) -> Vec<Tail> {
        self.spaces[self.space(stream)].tails(stream, &self.clocks)
    }

    pub(super) fn record(
        &mut self,
        stream: StreamId,
        touched: &[BlockId],
    ) -> Result<Position, AllocError> {
        self.has(stream)?;
        for &block in touched {
            self.holds(block)?;
        }
        let position = self
            .clocks
            .record(stream)
            .ok_or(AllocError::TableFull { table: "nodes" })?;
        for block in touched {
            self.blocks[block.index()].users.raise(position);
        }
        Ok(position)
    }

    #[inline]
    fn space(&self, stream: StreamId) -> usize {
        if self.policy.is_isolated() {
            stream.index()
        } else {
            0
        }
    }

    /// A chunk of `held` bytes that the stream may use, if there is one.
    pub(super) fn find(&mut self, stream: StreamId, held: u64) -> Result<Option<u32>, AllocError> {
        if self.blocks.len() >= u32::MAX as usize {
            return Err(AllocError::TableFull { table: "buffers" });
        }
        let space = self.space(stream);
        Ok(self.spaces[space].take(stream, held, &self.clocks))
    }

    pub(super) fn add_span(&mut self, stream: StreamId, span: Span) {
        let at = self.space(stream);
        self.spaces[at].add(span, &self.clocks);
        self.streams[stream.index()].reserved += span.range.len();
    }

    pub(super) fn reserved(&self) -> Vec<(Option<StreamId>, ByteRange)> {
        let spaces = self.spaces.iter().enumerate();
        spaces
            .flat_map(|(at, space)| {
                let stream = self.policy.is_isolated().then(|| StreamId::at(at));
                space.granted().map(move |range| (stream, range))
            })
            .collect()
    }

    /// Makes the chunk that was found a block.
    pub(super) fn bind(
        &mut self,
        chunk: u32,
        stream: StreamId,
        bytes: u64,
        name: Cow<'static, str>,
        kind: BlockKind,
    ) -> Block {
        let chunk_range = self.spaces[self.space(stream)].range(chunk);
        let held = chunk_range.len();
        let len = if bytes == 0 { held } else { bytes };
        let range = ByteRange::new(chunk_range.start, chunk_range.start + len);
        let id = BlockId {
            capture: self.capture,
            // `find` has checked that there is an id left.
            index: self.blocks.len() as u32,
        };
        self.blocks.push(Held {
            record: BlockRecord {
                id,
                name,
                kind,
                stream,
                range,
                held,
                alloc_before: self.clocks.nodes(),
                freed_before: None,
            },
            chunk,
            alloc_point: self.clocks.frontier(stream).clone(),
            users: Clock::default(),
            handle_dropped: false,
        });
        self.streams[stream.index()].usage.take(held);
        self.total.take(held);
        Block { id, range }
    }

    /// Takes every stream for a user of the block that is ordered after its alloc
    /// point, up to the last node it has recorded.
    pub(super) fn assume_users(&mut self, block: BlockId) -> Result<(), AllocError> {
        self.holds(block)?;
        let held = &mut self.blocks[block.index()];
        for stream in (0..self.streams.len()).map(StreamId::at) {
            let frontier = self.clocks.frontier(stream);
            if held.alloc_point.within(frontier) {
                let index = frontier.get(stream);
                held.users.raise(Position { stream, index });
            }
        }
        Ok(())
    }

    pub(super) fn free(&mut self, block: BlockId) -> Result<(), AllocError> {
        self.holds(block)?;
        let at = &mut self.blocks[block.index()];
        if at.record.kind == BlockKind::Workspace {
            return Ok(());
        }
        at.record.freed_before = Some(self.clocks.nodes());
        at.handle_dropped = true;
        let mut need = std::mem::take(&mut at.alloc_point);
        need.join(&at.users);
        if !self.policy.is_ordered_by_graph() {
            need = Clock::default();
        }
        let (chunk, stream, held) = (at.chunk, at.record.stream, at.record.held);
        let space = self.space(stream);
        self.spaces[space].give(chunk, need, &self.clocks);
        self.streams[stream.index()].usage.give(held);
        self.total.give(held);
        Ok(())
    }

    pub(super) fn visible(&self, block: BlockId, stream: StreamId) -> bool {
        if self.ended || self.has(stream).is_err() || self.holds(block).is_err() {
            return false;
        }
        let held = &self.blocks[block.index()];
        let elsewhere = held.record.kind == BlockKind::Workspace && held.record.stream != stream;
        !elsewhere && held.alloc_point.within(self.clocks.frontier(stream))
    }

    /// Notes that a handle was dropped after the end of the capture, when bytes are no
    /// longer used again.
    pub(super) fn note_dropped(&mut self, block: BlockId) {
        self.blocks[block.index()].handle_dropped = true;
    }
}
