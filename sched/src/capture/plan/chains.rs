//! The order that was recorded, as what is planned needs it.
//!
//! A captured stream is a chain: each of its commands waits for the one before.
//! So which commands happen before one is known from a number for each stream,
//! how many of its commands do ([`Chains::before`]). Planning reads this order
//! and adds nothing to it.

use streamweir_trace::StreamId;

use crate::capture::recording::Recording;

/// The commands of a recording and what each waits for.
pub(super) struct Chains<'a> {
    nodes: Vec<Node<'a>>,
    streams: usize,
    /// Row by row, `streams` numbers for each command.
    before: Vec<u32>,
}

pub(super) struct Node<'a> {
    pub(super) stream: StreamId,
    /// The place on the stream's chain, counted from 1.
    pub(super) index: u32,
    /// The commands it waits for, in the order in which they were recorded as
    /// such: its own stream's last one first.
    pub(super) after: &'a [u32],
}

impl<'a> Chains<'a> {
    pub(super) fn new(recording: &'a Recording, streams: usize) -> Self {
        let commands = recording.commands.iter();
        Self::of(
            streams,
            commands.map(|command| (command.spot.stream, recording.waits(command))),
        )
    }

    /// Commands in an order in which each comes after those it waits for.
    pub(super) fn of(
        streams: usize,
        commands: impl ExactSizeIterator<Item = (StreamId, &'a [u32])>,
    ) -> Self {
        let mut chains = Self {
            nodes: Vec::with_capacity(commands.len()),
            streams,
            before: Vec::with_capacity(commands.len() * streams),
        };
        let mut lengths = vec![0; streams];
        for (stream, after) in commands {
            let start = chains.before.len();
            chains.before.resize(start + streams, 0);
            for &earlier in after {
                let node = &chains.nodes[earlier as usize];
                let (index, of) = (node.index, node.stream.index());
                let (rows, row) = chains.before.split_at_mut(start);
                let theirs = &rows[earlier as usize * streams..][..streams];
                for (mine, &theirs) in row.iter_mut().zip(theirs) {
                    *mine = (*mine).max(theirs);
                }
                row[of] = row[of].max(index);
            }
            lengths[stream.index()] += 1;
            chains.nodes.push(Node {
                stream,
                index: lengths[stream.index()],
                after,
            });
        }
        chains
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn streams(&self) -> usize {
        self.streams
    }

    pub(super) fn node(&self, command: u32) -> &Node<'a> {
        &self.nodes[command as usize]
    }

    /// For each stream, how many of its commands happen before `command`.
    pub(super) fn before(&self, command: u32) -> &[u32] {
        &self.before[command as usize * self.streams..][..self.streams]
    }
}
