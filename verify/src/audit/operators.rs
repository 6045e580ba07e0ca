//! The operator log: what each node touches, from what its operator names.
//!
//! # From tensors to nodes
//! An operator that records one node touches its tensors with that node. One
//! that records several does so with those that have an address of the tensor
//! among their parameters; each of them is taken to read, or to write, all that
//! the operator reads or writes of it. Which of them really writes makes no
//! difference to a verdict between operators: events are recorded and waited
//! for between operators, so whatever is ordered with one node of an operator
//! is ordered with all, and the nodes of one operator stand on one stream.
//!
//! A tensor that no node of its operator has an address of is not taken to be
//! touched: `zeros_like` names the tensor whose shape it copies. Its kernel may
//! still reach it through addresses in memory, which the verdict says.
//!
//! What else a node has an address of may be touched without a log entry, if no
//! operator names it as a tensor: the workspaces of libraries, an operator's own
//! scratch. Such accesses are possible. An address of a tensor that the node's
//! operator does not name is left over from the operators that do: structures
//! passed by value have unused bytes, and PyTorch's iterators and reductions
//! leave whole pointers in them.
//!
//! Copies and fills say themselves what they touch, exactly, and are not asked
//! through their operators.
//!
//! # How exact it is
//! A tensor is given by its first and last byte. One that does not fill its
//! storage may have gaps (a column of a matrix), and two of those may overlap
//! and yet share no byte. What rests on such a pair alone is possible, not
//! proven; see [`crate::audit`].
//!
//! An argument that is altered in place counts as written; whether it was read
//! before, the log does not say.

use std::collections::{BTreeSet, HashMap, HashSet};

use streamweir_trace::dump::{Dump, Operator, Tensor};
use streamweir_trace::{
    Access, AccessMode, Buffer, BufferId, ByteRange, NodeId, NodeKind, Promise, Promised, Trace,
    UnknownAccess,
};

use crate::accesses::known::{KnownMemory, Meaning};
use crate::accesses::words::{of_param, scan, scan_with};
use crate::audit::align::Alignment;
use crate::audit::audited::{Audited, Loose, Mode};
use crate::audit::blocks::Blocks;
use crate::audit::error::AuditError;
use crate::audit::graph::{Operand, skeleton};
use crate::audit::memory::{Buffers, Streams, reserved};

/// Accesses per thing that is in the file, above which operators cannot mean
/// what they say.
const DENSITY: u64 = 64;

/// The trace that the operator log of `dump` makes of it.
pub(super) fn lower(mut dump: Dump) -> Result<Audited, AuditError> {
    let (mut trace, operands) = skeleton(&mut dump);
    let blocks = Blocks::of(&dump);
    let alignment = Alignment::new(&dump, &blocks);
    let mut streams = Streams::default();
    let declared = place(&dump, &mut streams, &mut trace);
    let buffers = Buffers::new(
        &dump,
        &blocks,
        &alignment,
        &operands,
        &mut streams,
        &mut trace,
    );
    reserved(&dump, &mut trace, &mut streams);
    if let Some(origin) = trace.streams.first_mut() {
        let mut leaves = vec![true; trace.nodes.len()];
        for edge in &trace.edges {
            leaves[edge.from.index()] = false;
        }
        let leaves = (0..leaves.len()).filter(|&at| leaves[at]);
        origin.end.frontier = leaves.map(NodeId::at).collect();
    }
    let mut lowering = Lowering {
        blocks: &blocks,
        buffers: &buffers,
        pointers: pointers(&trace),
        left: DENSITY * (trace.nodes.len() + dump.operators.len() + 1024) as u64,
        trace,
        unlisted: HashMap::new(),
        accesses: BTreeSet::new(),
        loose: HashSet::new(),
        named: HashMap::new(),
        untouched: 0,
    };
    for (operator, found) in dump.operators.iter().zip(&alignment.tensors) {
        lowering.operator(operator, found)?;
    }
    for operand in &operands {
        lowering.operand(operand);
    }
    let mut audited = lowering.finish();
    for (at, node) in audited.trace.nodes.iter_mut().enumerate() {
        node.analysed &= declared[at] || !matches!(node.kind, NodeKind::Kernel(_));
    }
    let mut words = scan_with(&audited.trace, |node| match declared[node.index()] {
        true => &buffers.unnamed,
        false => &buffers.known,
    });
    let left_over = |at: u64, node: NodeId| declared[node.index()] && buffers.is_refilled(at);
    words.stray.retain(|word| !left_over(word.at, word.node));
    audited.trace.possible = words.possible;
    audited.trace.stray = words.stray;
    vouch_for_words(&mut audited.trace, &declared);
    Ok(audited)
}

/// Of a kernel whose operator was logged the log is believed: the other words of
/// its parameters are left over, and that is said.
fn vouch_for_words(trace: &mut Trace, declared: &[bool]) {
    let mut words = scan(trace, &KnownMemory::of_trace(trace, []));
    words.possible.retain(|word| declared[word.node.index()]);
    words.stray.retain(|word| declared[word.node.index()]);
    let possible = words.possible.iter().map(|word| word.node);
    let stray = words.stray.iter().map(|word| word.node);
    let nodes: BTreeSet<NodeId> = possible.chain(stray).collect();
    if nodes.is_empty() {
        return;
    }
    let buffers: BTreeSet<BufferId> = words.possible.iter().map(|word| word.buffer).collect();
    trace.promises.push(Promise {
        of: "kernels of logged operators".to_owned(),
        nodes: nodes.into_iter().collect(),
        what: Promised::LeftOver {
            words: (words.possible.len() + words.stray.len()) as u64,
            buffers: buffers.into_iter().collect(),
            reason: "the log names what its operators touch".to_owned(),
        },
        line: None,
    });
}

/// Puts each node on the stream and into the scope of its operator. Says which
/// nodes have one.
fn place(dump: &Dump, streams: &mut Streams, trace: &mut Trace) -> Vec<bool> {
    let mut scopes = HashMap::new();
    let mut declared = vec![false; trace.nodes.len()];
    for operator in &dump.operators {
        let (from, to) = operator.nodes;
        // Of operators that enclose others the innermost is logged first or
        // last; either way each node is placed once.
        for at in (from as usize..to as usize)
            .filter(|&at| !declared[at])
            .collect::<Vec<_>>()
        {
            declared[at] = true;
            let stream = streams.get(trace, operator.stream);
            let scope = *scopes
                .entry(operator.name.as_str())
                .or_insert_with(|| trace.add_scope(operator.name.clone()));
            trace.nodes[at].stream = Some(stream);
            trace.nodes[at].scope = Some(scope);
        }
    }
    declared
}

/// The words of each kernel's parameters, sorted; `None` for other nodes.
fn pointers(trace: &Trace) -> Vec<Option<Vec<u64>>> {
    let nodes = trace.nodes.iter();
    nodes
        .map(|node| match &node.kind {
            NodeKind::Kernel(kernel) => {
                let params = kernel.params.iter();
                let words = params.flat_map(|param| of_param(param.offset, &param.bytes));
                let mut words: Vec<u64> = words.map(|(_, word)| word).collect();
                words.sort_unstable();
                words.dedup();
                Some(words)
            }
            _ => None,
        })
        .collect()
}

struct Lowering<'a> {
    blocks: &'a Blocks,
    buffers: &'a Buffers,
    pointers: Vec<Option<Vec<u64>>>,
    trace: Trace,
    /// Storages that the allocator's record does not hold.
    unlisted: HashMap<ByteRange, BufferId>,
    accesses: BTreeSet<(NodeId, BufferId, ByteRange, AccessMode)>,
    loose: HashSet<Loose>,
    /// For copies and fills the storages that their operators name.
    named: HashMap<NodeId, Vec<(ByteRange, Option<usize>)>>,
    left: u64,
    untouched: u64,
}

impl Lowering<'_> {
    fn operator(&mut self, operator: &Operator, found: &[Option<usize>]) -> Result<(), AuditError> {
        let (from, to) = operator.nodes;
        let nodes = u64::from(to - from);
        let cost = nodes.saturating_mul(operator.tensors.len() as u64);
        self.left = self.left.saturating_sub(cost);
        if self.left == 0 {
            let nodes = self.trace.nodes.len();
            let limit = DENSITY * (nodes as u64 + 1024);
            return Err(AuditError::TooManyAccesses { limit, nodes });
        }
        for at in (from..to).filter(|&at| self.pointers[at as usize].is_none()) {
            let named = self.named.entry(NodeId(at)).or_default();
            let tensors = operator.tensors.iter().zip(found);
            named.extend(tensors.map(|(tensor, &block)| (tensor.storage, block)));
        }
        if (from..to).all(|at| self.pointers[at as usize].is_none()) {
            return Ok(());
        }
        for (tensor, &block) in operator.tensors.iter().zip(found) {
            if tensor.bytes.is_empty() {
                continue;
            }
            let points = |at: u32, range: ByteRange| {
                self.pointers[at as usize].as_ref().is_some_and(|words| {
                    let first = words.partition_point(|&word| word < range.start);
                    words.get(first).is_some_and(|&word| word < range.end)
                })
            };
            let of = |range| (from..to).filter(move |&at| points(at, range));
            let mut touching: Vec<u32> = of(tensor.bytes).collect();
            if touching.is_empty() {
                touching = of(tensor.storage).collect();
            }
            if touching.is_empty() {
                self.untouched += 1;
            }
            for at in touching {
                self.touch(NodeId(at), tensor, block);
            }
        }
        Ok(())
    }

    fn touch(&mut self, node: NodeId, tensor: &Tensor, block: Option<usize>) {
        let mode = match tensor.written {
            true => AccessMode::Write,
            false => AccessMode::Read,
        };
        let Some(buffer) = self.buffer(tensor.storage, block) else {
            let range = tensor.bytes;
            self.trace.unknown.push(UnknownAccess { node, range, mode });
            return;
        };
        let base = self.trace.buffer(buffer).range.start;
        let bytes = ByteRange::new(tensor.bytes.start - base, tensor.bytes.end - base);
        self.accesses.insert((node, buffer, bytes, mode));
        if tensor.bytes != tensor.storage {
            self.loose.insert((node, buffer, bytes));
        }
    }

    /// The buffer of a storage; `None` when its owner has let go of it.
    fn buffer(&mut self, storage: ByteRange, block: Option<usize>) -> Option<BufferId> {
        match block {
            Some(block) if self.blocks.all[block].abandoned() => None,
            Some(block) => self.buffers.of_block[block],
            None => Some(*self.unlisted.entry(storage).or_insert_with(|| {
                let name = format!("memory at {:#x}", storage.start);
                self.trace.add_buffer(Buffer::persistent(name, storage))
            })),
        }
    }

    /// What a copy or a fill touches.
    fn operand(&mut self, operand: &Operand) {
        let &Operand {
            node,
            range,
            written,
        } = operand;
        if range.is_empty() {
            return;
        }
        let mode = match written {
            true => AccessMode::Write,
            false => AccessMode::Read,
        };
        // Its operator knows which life of the address is meant.
        let named = self.named.get(&node).into_iter().flatten();
        let named = named.copied().find(|(storage, _)| storage.contains(&range));
        let buffer = match (named, self.buffers.known.at(range.start, node)) {
            (Some((storage, block)), _) => self.buffer(storage, block),
            (None, Some(Meaning::Buffer(buffer, memory))) if memory.range.contains(&range) => {
                Some(buffer)
            }
            _ => None,
        };
        match buffer {
            Some(buffer) => {
                let base = self.trace.buffer(buffer).range.start;
                let bytes = ByteRange::new(range.start - base, range.end - base);
                self.accesses.insert((node, buffer, bytes, mode));
            }
            None => self.trace.unknown.push(UnknownAccess { node, range, mode }),
        }
    }

    fn finish(mut self) -> Audited {
        let accesses = std::mem::take(&mut self.accesses).into_iter();
        self.trace.accesses = accesses
            .map(|(node, buffer, bytes, mode)| Access::new(node, buffer, bytes, mode))
            .collect();
        let assumptions = &mut self.trace.assumptions;
        assumptions.push(
            "accesses are those of the operator log: an operator touches the tensors that it names and that its kernels have an address of, each from its first byte to its last"
                .to_owned(),
        );
        assumptions.push(
            "arguments altered in place count as written: what they held before is not checked"
                .to_owned(),
        );
        assumptions.push(
            "memory that was held before the capture and to its end outlives the graph".to_owned(),
        );
        if !self.unlisted.is_empty() {
            assumptions.push(format!(
                "{} storages lie outside of the allocator's record and are taken to outlive the graph",
                self.unlisted.len()
            ));
        }
        if self.untouched > 0 {
            assumptions.push(format!(
                "{} times an operator names a tensor that none of its kernels has an address of; it is taken not to touch it",
                self.untouched
            ));
        }
        Audited {
            trace: self.trace,
            mode: Mode::Operators,
            loose: self.loose,
        }
    }
}
