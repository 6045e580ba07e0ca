//! What the pools say about themselves: buffers that nobody freed, and bytes in use.

use std::sync::Arc;

use super::state::{Held, State};
use crate::block::BlockKind;
use crate::leaks::{Leak, Leaks};
use crate::policy::Policy;
use crate::report::{BufferUse, PoolReport, StreamUse};

impl State {
    pub(super) fn leaks(&self, arena: Arc<str>) -> Leaks {
        let held = |held: &&Held| !held.handle_dropped && held.record.kind == BlockKind::Scratch;
        let leak = |Held { record, .. }: &Held| {
            let (stream, tag) = self.names(record.stream);
            Leak {
                buffer: record.name.clone(),
                stream,
                tag,
                range: record.range,
            }
        };
        let mut buffers: Vec<Leak> = self.blocks.iter().filter(held).map(leak).collect();
        buffers.sort_by_key(|leak| std::cmp::Reverse(leak.range.len()));
        Leaks { arena, buffers }
    }

    pub(super) fn report(&self, policy: Policy, arena: Arc<str>) -> PoolReport {
        let mut streams: Vec<StreamUse> = self
            .streams
            .iter()
            .map(|member| StreamUse {
                stream: Arc::clone(&member.name),
                tag: Arc::clone(&member.tag),
                used: member.usage.used,
                peak: member.usage.peak,
                reserved: member.reserved,
            })
            .collect();
        streams.sort_by_key(|member| std::cmp::Reverse((member.reserved, member.peak)));
        let held = self.blocks.iter().map(|held| &held.record);
        let mut buffers: Vec<BufferUse> = held
            .filter(|record| record.freed_before.is_none())
            .map(|record| BufferUse {
                name: record.name.clone(),
                stream: Arc::clone(&self.streams[record.stream.index()].name),
                kind: record.kind,
                range: record.range,
            })
            .collect();
        buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.range.len()));
        PoolReport {
            arena,
            policy,
            used: self.total.used,
            peak: self.total.peak,
            reserved: self.streams.iter().map(|member| member.reserved).sum(),
            streams,
            buffers,
        }
    }
}
