//! Small graphs to explore: drawn by hand or at random, and run one interleaving at a time.

use std::sync::Arc;

use streamweir_hal::driver::{
    ExecHandle, GraphCalls, GraphHandle, LaunchShape, MemoryCalls, ModuleCalls, ModuleImage,
    NodeHandle, Start, StreamCalls, StreamHandle,
};
use streamweir_hal::sim::explore::{Bounds, Exploration, ExploreError, Reduction, Schedule};
use streamweir_hal::sim::{SimBlock, SimDriver, SimKernel};
use streamweir_trace::ByteRange;

use super::super::common::{begin, end, order, replay, write};

pub(super) const CELLS: usize = 8;

pub(super) const NAMES: [&str; 12] = [
    "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11",
];

/// One node of a test graph over [`CELLS`] cells of eight bytes.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// Block `i` reads the cells of `blocks[i].0` and writes `blocks[i].1` with
    /// a mixture of them and its own number.
    Kernel(Vec<(Vec<usize>, usize)>),
    /// Copies four cells, in two slices.
    Copy { to: usize, from: usize },
    /// Fills four cells, in two slices.
    Fill { to: usize, value: u8 },
}

impl Op {
    pub(super) fn slices(&self) -> usize {
        match self {
            Self::Kernel(blocks) => blocks.len(),
            Self::Copy { .. } | Self::Fill { .. } => 2,
        }
    }
}

/// A captured graph, its memory, and the stream to replay it on.
pub(super) struct Rig {
    pub(super) sim: Arc<SimDriver>,
    pub(super) main: StreamHandle,
    pub(super) exec: ExecHandle,
    pub(super) graph: GraphHandle,
    pub(super) nodes: Vec<NodeHandle>,
    pub(super) cells: u64,
}

pub(super) fn mixture(values: impl Iterator<Item = u64>, seed: u64) -> u64 {
    values.fold(seed, |mixed, value| {
        (mixed.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

pub(super) fn body(node: usize, cells: u64, blocks: Vec<(Vec<usize>, usize)>) -> SimKernel {
    let run = move |block: &mut SimBlock<'_>| {
        let index = block.index()[0] as usize;
        let (reads, write) = &blocks[index];
        let mut values = Vec::new();
        for &cell in reads {
            values.push(block.read::<u64>(cells + 8 * cell as u64, 1)?[0]);
        }
        let mixed = mixture(values.into_iter(), (node * 100 + index + 1) as u64);
        block.write(cells + 8 * *write as u64, &[mixed])
    };
    SimKernel {
        symbol: NAMES[node],
        params: Vec::new(),
        run: Arc::new(run),
    }
}

/// Captures `ops`, each on a stream of its own, with `edges` and no others.
pub(super) fn rig(ops: &[Op], edges: &[(usize, usize)]) -> Rig {
    let sim = SimDriver::new(1);
    let cells = sim.mem_alloc((CELLS * 8) as u64).unwrap();
    let kernels = ops
        .iter()
        .enumerate()
        .filter_map(|(node, op)| match op {
            Op::Kernel(blocks) => Some(body(node, cells, blocks.clone())),
            _ => None,
        })
        .collect();
    let module = sim.module_load(&ModuleImage::Sim(kernels)).unwrap();
    let main = sim.stream_create(0).unwrap();
    let streams: Vec<_> = ops.iter().map(|_| sim.stream_create(0).unwrap()).collect();
    begin(&*sim, main).unwrap();
    for (node, op) in ops.iter().enumerate() {
        let stream = streams[node];
        order(&*sim, main, stream).unwrap();
        for &(from, to) in edges {
            if to == node {
                order(&*sim, streams[from], stream).unwrap();
            }
        }
        let at = |cell: usize| cells + 8 * cell as u64;
        match *op {
            Op::Kernel(ref blocks) => unsafe {
                let function = sim.module_function(module, NAMES[node]).unwrap();
                let shape = LaunchShape::from(([blocks.len() as u32, 1, 1], [1, 1, 1]));
                sim.launch(stream, function, shape, Start::InOrder, &mut [])
                    .unwrap();
            },
            Op::Copy { to, from } => unsafe {
                sim.copy_async(stream, at(to), at(from), 32).unwrap();
            },
            Op::Fill { to, value } => unsafe {
                sim.fill_async(stream, at(to), value, 32).unwrap();
            },
        }
    }
    for &stream in &streams {
        order(&*sim, stream, main).unwrap();
    }
    let graph = end(&*sim, main).unwrap();
    let exec = unsafe { sim.graph_instantiate(graph) }.unwrap();
    let nodes = unsafe { sim.graph_nodes(graph) }.unwrap();
    let rig = Rig {
        sim,
        main,
        exec,
        graph,
        nodes,
        cells,
    };
    rig.reset();
    rig
}

impl Rig {
    pub(super) fn reset(&self) {
        let values: Vec<u32> = (1..=2 * CELLS as u32).collect();
        write(&*self.sim, self.cells, &values);
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; CELLS * 8];
        unsafe { self.sim.copy_to_host(&mut bytes, self.cells) }.unwrap();
        bytes
    }

    pub(super) fn explore(&self, bounds: &Bounds) -> Result<Exploration, ExploreError> {
        let all = ByteRange::from_len(self.cells, (CELLS * 8) as u64).unwrap();
        self.sim.explore(self.exec, &[all], bounds)
    }

    pub(super) fn reduced(&self) -> Exploration {
        self.explore(&Bounds::default()).unwrap()
    }

    pub(super) fn brute(&self) -> Exploration {
        let bounds = Bounds {
            reduction: Reduction::None,
            ..Bounds::default()
        };
        self.explore(&bounds).unwrap()
    }

    pub(super) fn replayed(&self, schedule: Schedule) -> Vec<u8> {
        self.reset();
        self.sim.schedule(schedule);
        replay(&*self.sim, self.exec, self.main).unwrap();
        let bytes = self.bytes();
        self.reset();
        bytes
    }
}

pub(super) fn contents(exploration: &Exploration) -> Vec<&[u8]> {
    exploration
        .outcomes
        .iter()
        .map(|outcome| &outcome.bytes[..])
        .collect()
}

/// A kernel of blocks that each write one cell and read some.
pub(super) fn kernel<const N: usize>(blocks: [(&[usize], usize); N]) -> Op {
    Op::Kernel(
        blocks
            .iter()
            .map(|&(reads, write)| (reads.to_vec(), write))
            .collect(),
    )
}

pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Up to five nodes with at most `most` slices in all, sparsely ordered.
pub(super) fn random(seed: u64, most: usize) -> (Vec<Op>, Vec<(usize, usize)>) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut ops = Vec::new();
    let mut slices = 0;
    while ops.len() < 5 {
        let op = match dice.below(5) {
            0 => Op::Copy {
                to: 4 * dice.below(2),
                from: 2 * dice.below(3),
            },
            1 => Op::Fill {
                to: 2 * dice.below(3),
                value: ops.len() as u8 + 1,
            },
            _ => Op::Kernel(
                (0..1 + dice.below(3))
                    .map(|_| {
                        let reads = (0..dice.below(3)).map(|_| dice.below(CELLS)).collect();
                        (reads, dice.below(CELLS))
                    })
                    .collect(),
            ),
        };
        slices += op.slices();
        if slices > most {
            break;
        }
        ops.push(op);
    }
    let edges = (0..ops.len())
        .flat_map(|to| (0..to).map(move |from| (from, to)))
        .filter(|_| dice.below(4) == 0)
        .collect();
    (ops, edges)
}
