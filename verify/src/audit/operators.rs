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
//! A kernel whose parameters the dump does not hold may touch every tensor of its
//! operator, and all memory that no operator names.
//!
//! # Memory that nobody holds
//! A tensor in memory that was given out during the capture by a pool open to
//! everyone is known to nobody once its owner lets go (R3). One in memory that
//! was not given out at all is used after its free (R4): surely where anyone may
//! take that memory, possibly where only captured graphs may.
//!
//! # How exact it is
//! A tensor is given by its first and last byte, and perhaps by its sizes and
//! strides. One that does not fill its storage may have gaps (a column of a
//! matrix), and two of those may overlap and yet share no byte; see
//! [`crate::audit`] for what becomes of such a pair.
//!
//! An argument that is altered in place counts as written; whether it was read
//! before, the log does not say.

use std::collections::{BTreeSet, HashMap};

use streamweir_trace::dump::{Dump, Operator, Tensor};
use streamweir_trace::{
    Access, AccessMode, BufferId, ByteRange, NodeId, NodeKind, Promise, Promised, StrayMemory,
    StrayWord, Trace, UnknownAccess,
};

use crate::accesses::known::{KnownMemory, Meaning};
use crate::accesses::words::{of_param, scan, scan_with, unknown_word};
use crate::audit::align::Alignment;
use crate::audit::audited::{Audited, Mode};
use crate::audit::blocks::Blocks;
use crate::audit::budget::Budget;
use crate::audit::error::AuditError;
use crate::audit::graph::{Operand, Side, Skeleton};
use crate::audit::host::HostMemory;
use crate::audit::memory::{Buffers, Streams, reserved};
use crate::audit::shapes::{Shape, Shapes};
use crate::audit::storages::{Storage, Storages};

/// The trace that the operator log of `dump` makes of it.
pub(super) fn lower(mut dump: Dump) -> Result<Audited, AuditError> {
    let skeleton = Skeleton::of(&mut dump);
    let unknowns = skeleton.assumptions(&dump);
    let Skeleton {
        mut trace,
        mut operands,
        unknown,
        ..
    } = skeleton;
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
    let is_device = |operand: &Operand| {
        let start = operand.range.start;
        buffers.known.at(start, operand.node).is_some()
    };
    let host = HostMemory::new(&mut operands, is_device, &mut trace);
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
        buffers: &buffers,
        host: &host,
        storages: Storages::new(&dump, &blocks, &buffers, streams),
        pointers: pointers(&trace, &unknown),
        budget: Budget::new(trace.nodes.len(), dump.operators.len()),
        trace,
        accesses: BTreeSet::new(),
        shapes: Shapes::default(),
        named: HashMap::new(),
        untouched: 0,
    };
    for (operator, found) in dump.operators.iter().zip(&alignment.tensors) {
        lowering.operator(operator, found)?;
    }
    for operand in &operands {
        lowering.operand(operand);
    }
    let of_node = |node: NodeId| match declared[node.index()] {
        true => &buffers.unnamed,
        false => &buffers.known,
    };
    let unknown = (0..)
        .map(NodeId)
        .zip(&unknown)
        .filter(|(_, unknown)| **unknown);
    for (node, _) in unknown {
        lowering.anything(node, of_node(node))?;
    }
    let mut audited = lowering.finish();
    audited.trace.assumptions.extend(unknowns);
    for (at, node) in audited.trace.nodes.iter_mut().enumerate() {
        node.analysed &= declared[at] || !matches!(node.kind, NodeKind::Kernel(_));
    }
    let mut words = scan_with(&audited.trace, |at, node| of_node(node).at(at, node));
    let left_over = |at: u64, node: NodeId| declared[node.index()] && buffers.is_refilled(at);
    words.stray.retain(|word| !left_over(word.at, word.node));
    audited.trace.possible.extend(words.possible);
    audited.trace.stray.extend(words.stray);
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

/// What a node has addresses of.
enum Pointers {
    /// It is a kernel with these words among its parameters, sorted.
    Words(Vec<u64>),
    /// It is a kernel whose parameters are not known.
    Unknown,
    /// It is no kernel.
    None,
}

impl Pointers {
    fn leads_into(&self, range: ByteRange) -> bool {
        let Self::Words(words) = self else {
            return false;
        };
        let first = words.partition_point(|&word| word < range.start);
        words.get(first).is_some_and(|&word| word < range.end)
    }
}

/// What each node has addresses of.
fn pointers(trace: &Trace, unknown: &[bool]) -> Vec<Pointers> {
    let nodes = trace.nodes.iter().zip(unknown);
    nodes
        .map(|(node, unknown)| match &node.kind {
            NodeKind::Kernel(_) if *unknown => Pointers::Unknown,
            NodeKind::Kernel(kernel) => {
                let params = kernel.params.iter();
                let words = params.flat_map(|param| of_param(param.offset, &param.bytes));
                let mut words: Vec<u64> = words.map(|(_, word)| word).collect();
                words.sort_unstable();
                words.dedup();
                Pointers::Words(words)
            }
            _ => Pointers::None,
        })
        .collect()
}

struct Lowering<'a> {
    buffers: &'a Buffers,
    host: &'a HostMemory,
    storages: Storages<'a>,
    pointers: Vec<Pointers>,
    trace: Trace,
    accesses: BTreeSet<(NodeId, BufferId, ByteRange, AccessMode)>,
    shapes: Shapes,
    /// For copies and fills the storages that their operators name.
    named: HashMap<NodeId, Vec<(ByteRange, Option<usize>)>>,
    budget: Budget,
    untouched: u64,
}

impl Lowering<'_> {
    fn operator(&mut self, operator: &Operator, found: &[Option<usize>]) -> Result<(), AuditError> {
        let (from, to) = operator.nodes;
        let nodes = u64::from(to - from);
        self.budget
            .take(nodes.saturating_mul(operator.tensors.len() as u64))?;
        let none = |at: u32| matches!(self.pointers[at as usize], Pointers::None);
        for at in (from..to).filter(|&at| none(at)) {
            let named = self.named.entry(NodeId(at)).or_default();
            let tensors = operator.tensors.iter().zip(found);
            named.extend(tensors.map(|(tensor, &block)| (tensor.storage, block)));
        }
        if (from..to).all(none) {
            return Ok(());
        }
        let unknown = |at: &u32| matches!(self.pointers[*at as usize], Pointers::Unknown);
        let unknown: Vec<u32> = (from..to).filter(unknown).collect();
        for (tensor, &block) in operator.tensors.iter().zip(found) {
            if tensor.bytes.is_empty() {
                continue;
            }
            let pointers = &self.pointers;
            let of = |range: ByteRange| {
                let leads = move |at: &u32| pointers[*at as usize].leads_into(range);
                (from..to).filter(leads)
            };
            let mut touching: Vec<u32> = of(tensor.bytes).collect();
            if touching.is_empty() {
                touching = of(tensor.storage).collect();
            }
            if touching.is_empty() && unknown.is_empty() {
                self.untouched += 1;
            }
            for at in touching {
                self.touch(NodeId(at), tensor, block);
            }
            for &at in &unknown {
                self.may_touch(NodeId(at), tensor, block);
            }
        }
        Ok(())
    }

    fn touch(&mut self, node: NodeId, tensor: &Tensor, block: Option<usize>) {
        let mode = match tensor.written {
            true => AccessMode::Write,
            false => AccessMode::Read,
        };
        let buffer = match self.storage(tensor.storage, block) {
            Storage::Buffer(buffer) => buffer,
            Storage::Nobodys => {
                let range = tensor.bytes;
                self.trace.unknown.push(UnknownAccess { node, range, mode });
                return;
            }
            Storage::NotGivenOut => {
                self.not_given_out(node, tensor);
                return;
            }
        };
        let bytes = self.inside(buffer, tensor.bytes);
        let known = !self.accesses.insert((node, buffer, bytes, mode));
        let key = (node, buffer, bytes, mode.writes());
        self.shapes.add(key, Shape::of(tensor), known);
    }

    /// A tensor of the operator of a kernel that may have an address of it.
    fn may_touch(&mut self, node: NodeId, tensor: &Tensor, block: Option<usize>) {
        match self.storage(tensor.storage, block) {
            Storage::Buffer(buffer) => {
                let bytes = self.inside(buffer, tensor.bytes);
                self.trace.possible.push(unknown_word(node, buffer, bytes));
            }
            Storage::Nobodys | Storage::NotGivenOut => self.not_given_out(node, tensor),
        }
    }

    /// Memory that a kernel of unknown parameters may have an address of, besides
    /// what its operator names.
    fn anything(&mut self, node: NodeId, memory: &KnownMemory) -> Result<(), AuditError> {
        self.budget.take(memory.len() as u64)?;
        for (buffer, bytes) in memory.buffers_at(node) {
            self.trace.possible.push(unknown_word(node, buffer, bytes));
        }
        Ok(())
    }

    /// A tensor in memory that nobody held: the word of the kernel that points
    /// there, or the first if none is known.
    fn not_given_out(&mut self, node: NodeId, tensor: &Tensor) {
        let word = match &self.trace.node(node).kind {
            NodeKind::Kernel(kernel) => (0..).zip(&kernel.params).find_map(|(place, param)| {
                let mut words = of_param(param.offset, &param.bytes);
                let (offset, at) = words.find(|&(_, at)| tensor.storage.contains_byte(at))?;
                Some((place, offset, at))
            }),
            _ => None,
        };
        let (param, offset, at) = word.unwrap_or((0, 0, tensor.bytes.start));
        self.trace.stray.push(StrayWord {
            node,
            param,
            offset,
            at,
            memory: StrayMemory::Freed,
            name: String::new(),
        });
    }

    fn inside(&self, buffer: BufferId, range: ByteRange) -> ByteRange {
        let base = self.trace.buffer(buffer).range.start;
        ByteRange::new(range.start - base, range.end - base)
    }

    fn storage(&mut self, storage: ByteRange, block: Option<usize>) -> Storage {
        self.storages.find(&mut self.trace, storage, block)
    }

    /// What a copy or a fill touches.
    fn operand(&mut self, operand: &Operand) {
        let &Operand { node, range, .. } = operand;
        if range.is_empty() {
            return;
        }
        let mode = operand.mode();
        if operand.side == Side::Host {
            let found = self.host.locate(range);
            let access = found.map(|(buffer, bytes)| (node, buffer, bytes, mode));
            self.accesses.extend(access);
            return;
        }
        // Its operator knows which life of the address is meant.
        let named = self.named.get(&node).into_iter().flatten();
        let named = named.copied().find(|(storage, _)| storage.contains(&range));
        let buffer = match named {
            Some((storage, block)) => match self.storage(storage, block) {
                Storage::Buffer(buffer) => Some(buffer),
                Storage::Nobodys | Storage::NotGivenOut => None,
            },
            None => [&self.buffers.known, &self.buffers.early]
                .into_iter()
                .find_map(|known| match known.at(range.start, node)? {
                    Meaning::Buffer(buffer, memory) => {
                        memory.range.contains(&range).then_some(buffer)
                    }
                    Meaning::Live(_) | Meaning::Freed(_) => None,
                }),
        };
        match buffer {
            Some(buffer) => {
                let bytes = self.inside(buffer, range);
                let known = !self.accesses.insert((node, buffer, bytes, mode));
                let key = (node, buffer, bytes, mode.writes());
                self.shapes.add(key, Shape::Dense, known);
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
            "accesses are those of the operator log: an operator touches the tensors that it names and that its kernels have an address of"
                .to_owned(),
        );
        assumptions.push(
            "arguments altered in place count as written: what they held before is not checked"
                .to_owned(),
        );
        assumptions.push(
            "memory that was held before the capture and to its end outlives the graph".to_owned(),
        );
        assumptions.extend(self.storages.assumptions());
        if self.untouched > 0 {
            assumptions.push(format!(
                "{} times an operator names a tensor that none of its kernels has an address of; it is taken not to touch it",
                self.untouched
            ));
        }
        Audited {
            trace: self.trace,
            mode: Mode::Operators,
            shapes: self.shapes,
        }
    }
}
