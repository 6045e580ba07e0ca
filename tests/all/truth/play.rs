//! A trace played out: kernels that do what the accesses say.
//!
//! Each byte of the trace is a cell of eight bytes on the device, and each node
//! has a register there. A node reads first: every cell of its reads is mixed
//! into its register. Then it writes: a cell gets a mixture of register, node,
//! buffer and offset, and an atomic adds one to the cell, so that atomics
//! commute. Each access is a slice of its own. Mixtures of 64 bits that differ
//! in anything differ.
//!
//! What counts are the registers, which is what each node has seen, and what is
//! left in the carried buffers where the trace touches them. Scratch begins
//! with what stood at its address before, which in the memory of its own is
//! something else: a read of it shows.

use std::ffi::c_void;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use streamweir::driver::sim::explore::{Bounds, Exploration, ExploreError};
use streamweir::driver::sim::{Choose, SimBlock, SimDriver, SimFault, SimKernel, TaskId};
use streamweir::driver::{
    CaptureCalls, CaptureMode, EventScope, ExecHandle, GraphCalls, LaunchShape, MemoryCalls,
    ModuleCalls, ModuleImage, ParamSlot, Start, StreamCalls, StreamHandle,
};
use streamweir::trace::{AccessMode, ByteRange, RangeSet, Trace};

const CELL: u64 = 8;

/// A graph that does what a trace says.
pub(crate) struct Play {
    sim: Arc<SimDriver>,
    stream: StreamHandle,
    exec: ExecHandle,
    observe: Vec<ByteRange>,
    /// Where memory begins to be written for a run, and with what.
    initial: Vec<(u64, Vec<u64>)>,
}

/// Whether buffers have the addresses of the trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    OfTheTrace,
    ForEachBuffer,
}

#[derive(Clone, Copy)]
enum Act {
    Read,
    Write,
    Add,
}

/// One slice: what is done to `count` cells from `address` on, which are those
/// of `buffer` from `offset` on.
#[derive(Clone, Copy)]
struct Step {
    act: Act,
    address: u64,
    count: u64,
    buffer: u64,
    offset: u64,
}

fn mix(parts: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// What the memory at an address of the trace holds at first.
fn at_first(address: u64) -> u64 {
    mix(&[1, address])
}

impl Play {
    /// The trace at its own addresses.
    pub(crate) fn of(trace: &Trace) -> Self {
        Self::build(trace, Memory::OfTheTrace)
    }

    /// What the trace means: the bits of a run in the order of recording, in
    /// which no two buffers share memory.
    pub(crate) fn meaning(trace: &Trace) -> Vec<u8> {
        let play = Self::build(trace, Memory::ForEachBuffer);
        play.sim.schedule(InOrder);
        play.run()
    }

    fn build(trace: &Trace, kind: Memory) -> Self {
        let sim = SimDriver::new(0);
        let mut initial = Vec::new();
        let mut place = |cells: Vec<u64>| {
            let address = sim.mem_alloc(CELL * cells.len().max(1) as u64).unwrap();
            initial.push((address, cells));
            address
        };
        let registers = place(vec![0; trace.nodes.len()]);
        let bases: Vec<u64> = match kind {
            Memory::ForEachBuffer => trace
                .buffers
                .iter()
                .enumerate()
                .map(|(at, buffer)| {
                    let cells = (buffer.range.start..buffer.range.end).map(|address| match buffer
                        .carried
                    {
                        true => at_first(address),
                        false => mix(&[2, at as u64, address]),
                    });
                    place(cells.collect())
                })
                .collect(),
            Memory::OfTheTrace => {
                // The bytes that some buffer has, as disjoint runs.
                let occupied: RangeSet = trace.buffers.iter().map(|b| b.range).collect();
                let runs: Vec<(ByteRange, u64)> = (occupied.as_slice().iter())
                    .map(|&run| (run, place((run.start..run.end).map(at_first).collect())))
                    .collect();
                let base = |range: &ByteRange| {
                    let (run, address) = runs.iter().find(|(run, _)| run.contains(range)).unwrap();
                    address + CELL * (range.start - run.start)
                };
                trace.buffers.iter().map(|b| base(&b.range)).collect()
            }
        };
        let mut observe =
            vec![ByteRange::from_len(registers, CELL * trace.nodes.len() as u64).unwrap()];
        observe.extend(touched(trace).into_iter().map(|(buffer, bytes)| {
            let start = bases[buffer] + CELL * bytes.start;
            ByteRange::from_len(start, CELL * bytes.len()).unwrap()
        }));
        let programs = programs(trace, &bases);
        let (stream, exec) = capture(&sim, trace, programs, registers);
        let play = Self {
            sim,
            stream,
            exec,
            observe,
            initial,
        };
        play.reset();
        play
    }

    fn reset(&self) {
        for (address, cells) in &self.initial {
            let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
            // SAFETY: nothing runs, and the bytes are all in an allocation.
            unsafe { self.sim.copy_to_device(*address, &bytes) }.unwrap();
        }
    }

    /// What one replay under the schedule of the moment gives.
    fn run(&self) -> Vec<u8> {
        self.reset();
        // SAFETY: the graph, its module and all memory are alive.
        unsafe {
            self.sim.exec_launch(self.exec, self.stream).unwrap();
            self.sim.stream_synchronize(self.stream).unwrap();
        }
        let mut bits = Vec::new();
        for range in &self.observe {
            let mut bytes = vec![0; range.len() as usize];
            // SAFETY: the replay has ended.
            unsafe { self.sim.copy_to_host(&mut bytes, range.start) }.unwrap();
            bits.extend(bytes);
        }
        bits
    }

    /// What one replay under `seed` gives.
    pub(crate) fn seeded(&self, seed: u64) -> Vec<u8> {
        self.sim.reseed(seed);
        self.run()
    }

    /// What all interleavings give, unless there are too many.
    pub(crate) fn explore(&self) -> Option<Exploration> {
        let bounds = Bounds {
            nodes: Bounds::MOST_NODES,
            slices: 60_000,
            ..Bounds::default()
        };
        self.reset();
        match self.sim.explore(self.exec, &self.observe, &bounds) {
            Ok(exploration) => Some(exploration),
            Err(ExploreError::TooManySlices { .. } | ExploreError::TooManyNodes { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs the nodes one after the other, in the order of recording.
#[derive(Debug)]
struct InOrder;

impl Choose for InOrder {
    fn choose(&mut self, _: &[TaskId]) -> usize {
        0
    }
}

/// What is touched of the carried buffers.
fn touched(trace: &Trace) -> Vec<(usize, ByteRange)> {
    trace
        .accesses
        .iter()
        .filter(|access| trace.buffer(access.buffer).carried && !access.bytes.is_empty())
        .map(|access| (access.buffer.index(), access.bytes))
        .collect()
}

/// The slices of each node: its reads, then its writes.
fn programs(trace: &Trace, bases: &[u64]) -> Vec<Vec<Step>> {
    let mut programs = vec![Vec::new(); trace.nodes.len()];
    for reading in [true, false] {
        for access in trace.accesses.iter().filter(|a| !a.bytes.is_empty()) {
            let act = match (reading, access.mode) {
                (true, AccessMode::Read | AccessMode::ReadWrite) => Act::Read,
                (false, AccessMode::Write | AccessMode::ReadWrite) => Act::Write,
                (false, AccessMode::Atomic) => Act::Add,
                _ => continue,
            };
            programs[access.node.index()].push(Step {
                act,
                address: bases[access.buffer.index()] + CELL * access.bytes.start,
                count: access.bytes.len(),
                buffer: u64::from(access.buffer.0),
                offset: access.bytes.start,
            });
        }
    }
    programs
}

fn act(block: &mut SimBlock<'_>, node: u64, step: Step, register: u64) -> Result<(), SimFault> {
    let seen = block.read::<u64>(register, 1)?[0];
    let mixture = |at: u64| mix(&[3, seen, node, step.buffer, step.offset + at]);
    let cells: Vec<u64> = match step.act {
        Act::Read => {
            let cells = block.read::<u64>(step.address, step.count as usize)?;
            let seen = cells.iter().fold(seen, |seen, &cell| mix(&[seen, cell]));
            return block.write(register, &[seen]);
        }
        Act::Write => (0..step.count).map(mixture).collect(),
        Act::Add => block
            .read::<u64>(step.address, step.count as usize)?
            .iter()
            .zip(0..)
            .map(|(cell, at)| cell.wrapping_add(mixture(at)))
            .collect(),
    };
    block.write(step.address, &cells)
}

/// Captures one kernel for each node, with the trace's edges and no others.
fn capture(
    sim: &SimDriver,
    trace: &Trace,
    programs: Vec<Vec<Step>>,
    registers: u64,
) -> (StreamHandle, ExecHandle) {
    let blocks: Vec<u32> = programs.iter().map(|p| p.len().max(1) as u32).collect();
    let kernel = SimKernel {
        symbol: "act",
        params: vec![ParamSlot { offset: 0, size: 8 }],
        run: Arc::new(move |block| {
            let node = u64::from_le_bytes(block.params().try_into().expect("eight bytes"));
            let slice = block.index()[0] as usize;
            match programs[node as usize].get(slice) {
                Some(&step) => act(block, node, step, registers + CELL * node),
                None => Ok(()),
            }
        }),
    };
    let module = sim.module_load(&ModuleImage::Sim(vec![kernel])).unwrap();
    let main = sim.stream_create(0).unwrap();
    let wait = |on: StreamHandle, by: StreamHandle| {
        let event = sim.event_create(false).unwrap();
        // SAFETY: the simulated device checks every handle.
        unsafe {
            sim.event_record(event, on, EventScope::Internal).unwrap();
            sim.stream_wait(by, event, EventScope::Internal).unwrap();
            sim.event_destroy(event).unwrap();
        }
    };
    // SAFETY: as above; the parameter is the one that the kernel has.
    unsafe {
        let function = sim.module_function(module, "act").unwrap();
        sim.capture_begin(main, CaptureMode::ThreadLocal).unwrap();
        let mut streams = Vec::new();
        for (node, &blocks) in blocks.iter().enumerate() {
            let stream = sim.stream_create(0).unwrap();
            wait(main, stream);
            for edge in trace.edges.iter().filter(|edge| edge.to.index() == node) {
                assert!(edge.from < edge.to, "recorded in an order of the edges");
                wait(streams[edge.from.index()], stream);
            }
            let shape = LaunchShape::from(([blocks, 1, 1], [1, 1, 1]));
            let mut number = node as u64;
            let mut params: [*mut c_void; 1] = [(&raw mut number).cast()];
            sim.launch(stream, function, shape, Start::InOrder, &mut params)
                .unwrap();
            streams.push(stream);
        }
        for stream in streams {
            wait(stream, main);
        }
        let graph = sim.capture_end(main).unwrap();
        (main, sim.graph_instantiate(graph).unwrap())
    }
}
