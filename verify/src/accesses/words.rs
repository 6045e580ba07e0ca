//! Pointers among the bytes of kernel parameters.
//!
//! A kernel that nobody declared still had to be given its addresses. They
//! stand in its parameters as 8-byte words: as parameters of their own, inside
//! structures passed by value, inside TMA descriptors. [`scan`] finds them.
//!
//! # What a word says, and what it does not
//! A word that is an address of a buffer makes an access **possible**: how the
//! kernel touches the memory, and whether it does, the word does not tell. The
//! extent is the whole buffer, since nothing bounds how far the kernel counts
//! from there. So words can show that two nodes may conflict, never that they
//! do not: an address may also be computed, or read from memory.
//!
//! A word is looked at when it lies at a multiple of 8 bytes from the start of
//! the parameters, where the calling convention puts every pointer that is not
//! in a packed structure. In the captures of PyTorch, cuBLAS and cuDNN that
//! this was measured on, no address lies anywhere else.
//!
//! A declared pointer is a word of the buffer that it is declared to point into,
//! wherever it stands. It says nothing new when its node declares what it touches of
//! that buffer, be it nothing.
//!
//! Left out are words that share bytes with a declared pointer, words inside the
//! bytes that a declared access of the same node explains, and words that are
//! no address of known memory: structures passed by value hold padding, and
//! padding holds what was on the host's stack before.

use std::collections::HashSet;

use streamweir_trace::{
    BufferId, ByteRange, NodeId, NodeKind, PossibleAccess, Promised, StrayMemory, StrayWord, Trace,
    clipped,
};

use super::known::{Known, KnownMemory, Meaning};

/// What the words of a trace's parameters make possible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Words inside buffers, at most one per node and piece of a buffer.
    pub possible: Vec<PossibleAccess>,
    /// Words inside memory that is no buffer, or was none any more.
    pub stray: Vec<StrayWord>,
}

/// Looks through the parameters of every kernel of `trace`.
///
/// The result is not added to the trace: put [`Words::possible`] into
/// [`Trace::possible`] and [`Words::stray`] into [`Trace::stray`] to have them
/// judged where they say more than the buffers of the trace do.
pub fn scan(trace: &Trace, memory: &KnownMemory) -> Words {
    scan_with(trace, |address, node| memory.at(address, node))
}

/// The same with whatever says what an address means to a node.
pub(crate) fn scan_with<'m>(
    trace: &Trace,
    memory: impl Fn(u64, NodeId) -> Option<Meaning<'m>>,
) -> Words {
    scan_unexplained(trace, &Explained::of(trace), memory)
}

/// What explains the words of nodes: that a node touches the bytes that a word
/// points to, that somebody has looked at the word, or that somebody keeps the
/// memory or vouches for the word.
#[derive(Debug, Default)]
struct Explained {
    /// Device addresses by node, sorted.
    bytes: Vec<(NodeId, ByteRange)>,
    /// The buffers of which a node declares what it touches.
    buffers: HashSet<(NodeId, BufferId)>,
    left_over: HashSet<NodeId>,
}

impl Explained {
    /// What the accesses, the listed words and the promises of a trace explain.
    fn of(trace: &Trace) -> Self {
        let at =
            |buffer: BufferId, bytes: ByteRange| bytes.shifted(trace.buffer(buffer).range.start);
        let declared = trace.accesses.iter();
        let declared = declared.map(|access| (access.node, at(access.buffer, access.bytes)));
        let listed = trace.possible.iter();
        let listed = listed.map(|word| (word.node, at(word.buffer, word.bytes)));
        let unknown = trace.unknown.iter();
        let unknown = unknown.map(|access| (access.node, Some(access.range)));
        let stray = trace.stray.iter();
        let stray = stray.map(|word| (word.node, ByteRange::from_len(word.at, 1)));
        let all = declared.chain(listed).chain(unknown).chain(stray);
        let mut this = Self {
            bytes: all
                .filter_map(|(node, bytes)| Some((node, bytes?)))
                .collect(),
            buffers: HashSet::new(),
            left_over: HashSet::new(),
        };
        let pointers = trace.nodes.iter().any(|node| match &node.kind {
            NodeKind::Kernel(kernel) => kernel
                .params
                .iter()
                .any(|param| param.pointers().next().is_some()),
            _ => false,
        });
        if pointers {
            let declared = trace.accesses.iter();
            this.buffers = declared
                .map(|access| (access.node, access.buffer))
                .collect();
        }
        for promise in &trace.promises {
            match promise.what {
                Promised::LeftOver { .. } => this.left_over.extend(&promise.nodes),
                Promised::Keeps { range, .. } => {
                    let kept = promise.nodes.iter().map(|&node| (node, range));
                    this.bytes.extend(kept);
                }
                Promised::Touches | Promised::Unchecked | Promised::Waits | Promised::Narrowed => {}
            }
        }
        this.bytes.sort_unstable();
        this
    }

    /// What explains words of this node; `None` when all are left over.
    fn of_node(&self, node: NodeId) -> Option<&[(NodeId, ByteRange)]> {
        if self.left_over.contains(&node) {
            return None;
        }
        let from = self.bytes.partition_point(|(of, _)| *of < node);
        let to = self.bytes.partition_point(|(of, _)| *of <= node);
        Some(&self.bytes[from..to])
    }
}

/// The words that nothing explains.
fn scan_unexplained<'m>(
    trace: &Trace,
    all: &Explained,
    memory: impl Fn(u64, NodeId) -> Option<Meaning<'m>>,
) -> Words {
    let mut words = Words::default();
    let mut seen: HashSet<(BufferId, ByteRange)> = HashSet::new();
    for (at, node) in trace.nodes.iter().enumerate() {
        let NodeKind::Kernel(kernel) = &node.kind else {
            continue;
        };
        let node = NodeId::at(at);
        let Some(explained) = all.of_node(node) else {
            continue;
        };
        seen.clear();
        let mut strays: Vec<u64> = Vec::new();
        for (place, param) in (0_u32..).zip(&kernel.params) {
            let known = |address: u64| {
                let mut bytes = explained.iter().map(|(_, bytes)| bytes);
                bytes.any(|bytes| bytes.contains_byte(address))
            };
            // One past the end of its buffer a declared pointer is a word like others.
            let mut beyond: Vec<(u32, u64)> = Vec::new();
            for (offset, to) in param.pointers() {
                let (Some(buffer), Some(address)) = (to.buffer, param.word(offset)) else {
                    continue;
                };
                let len = trace.buffer(buffer).range.len();
                if all.buffers.contains(&(node, buffer)) || known(address) {
                    continue;
                }
                let bytes = ByteRange::new(0, len);
                if to.offset >= len {
                    beyond.push((offset, address));
                } else if seen.insert((buffer, bytes)) {
                    words.possible.push(PossibleAccess {
                        node,
                        buffer,
                        bytes,
                        param: Some(place),
                        offset,
                    });
                }
            }
            let declared = |offset: u32| param.pointers().any(|(at, _)| at.abs_diff(offset) < 8);
            let others = of_param(param.offset, &param.bytes);
            let others = others.filter(|&(offset, _)| !declared(offset));
            for (offset, address) in others.chain(beyond) {
                let (piece, state) = match memory(address, node) {
                    None => continue,
                    _ if known(address) => continue,
                    Some(Meaning::Buffer(buffer, piece)) => {
                        let Known::Buffer { bytes, .. } = piece.known else {
                            continue;
                        };
                        let all = ByteRange::new(0, trace.buffer(buffer).range.len());
                        if let Some(bytes) = bytes.intersect(&all)
                            && seen.insert((buffer, bytes))
                        {
                            words.possible.push(PossibleAccess {
                                node,
                                buffer,
                                bytes,
                                param: Some(place),
                                offset,
                            });
                        }
                        continue;
                    }
                    Some(Meaning::Live(piece)) => (piece, StrayMemory::Live),
                    Some(Meaning::Freed(piece)) => (piece, StrayMemory::Freed),
                };
                if !strays.contains(&address) {
                    strays.push(address);
                    words.stray.push(StrayWord {
                        node,
                        param: place,
                        offset,
                        at: address,
                        memory: state,
                        name: clipped(&piece.name).into_owned(),
                    });
                }
            }
        }
    }
    words
}

/// The words of one parameter that lies at `start` in the parameters: the
/// offset of each in the parameter, and its value. Null is no address.
pub(crate) fn of_param(start: u32, bytes: &[u8]) -> impl Iterator<Item = (u32, u64)> {
    let skip = (8 - start % 8) % 8;
    bytes
        .get(skip as usize..)
        .unwrap_or_default()
        .chunks_exact(8)
        .zip((skip..).step_by(8))
        .filter_map(|(word, offset)| {
            let value = u64::from_le_bytes(word.try_into().ok()?);
            (value != 0).then_some((offset, value))
        })
}

/// The possible access of a kernel whose parameters are not known.
pub(crate) fn unknown_word(node: NodeId, buffer: BufferId, bytes: ByteRange) -> PossibleAccess {
    PossibleAccess {
        node,
        buffer,
        bytes,
        param: None,
        offset: 0,
    }
}
