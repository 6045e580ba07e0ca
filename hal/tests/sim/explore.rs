//! The explorer finds what a search through every single interleaving finds.

mod rig;

use std::collections::BTreeSet;
use std::sync::Arc;

use streamweir_hal::driver::{
    ErrorClass, ExecHandle, GraphCalls, LaunchShape, MemoryCalls, ModuleCalls, ModuleImage, Start,
    StreamCalls,
};
use streamweir_hal::sim::explore::{Bounds, ExploreError, Reduction};
use streamweir_hal::sim::{SimBlock, SimDriver, SimFault, SimKernel};
use streamweir_trace::ByteRange;

use self::rig::{CELLS, NAMES, Op, contents, kernel, mixture, random, rig};
use super::common::{begin, end, load, order, replay, upload};

#[test]
fn what_is_disabled_is_left_out_of_every_interleaving() {
    // A copy of what a fill has written, and another fill over it, in any order.
    let ops = [
        Op::Fill { to: 0, value: 7 },
        Op::Copy { to: 4, from: 0 },
        Op::Fill { to: 4, value: 9 },
    ];
    let rig = rig(&ops, &[(0, 1)]);
    assert!(rig.reduced().outcomes.len() > 1);
    for (disabled, value) in [(1, 9), (2, 7)] {
        let enable = |enabled| unsafe {
            let node = rig.nodes[disabled];
            rig.sim.exec_enable(rig.exec, node, enabled).unwrap();
        };
        enable(false);
        for found in [rig.reduced(), rig.brute()] {
            assert_eq!(contents(&found).len(), 1);
            assert_eq!(contents(&found)[0][32..], [value; 32]);
        }
        let replayed = rig.replayed(rig.reduced().outcomes[0].schedule.clone());
        assert_eq!(replayed[32..], [value; 32]);
        enable(true);
    }
    assert!(rig.reduced().outcomes.len() > 1);
}

#[test]
fn a_node_of_a_graph_that_is_gone_cannot_be_disabled() {
    let rig = rig(&[Op::Fill { to: 0, value: 7 }], &[]);
    let graph = rig.graph;
    unsafe { rig.sim.graph_destroy(graph) }.unwrap();
    let error = unsafe { rig.sim.exec_enable(rig.exec, rig.nodes[0], false) }.unwrap_err();
    assert_eq!(error.class, ErrorClass::InvalidHandle);
}

#[test]
fn as_every_single_interleaving() {
    let (mut racing, mut all, mut run) = (0, 0, 0);
    for seed in 0..400 {
        let (ops, edges) = random(seed, 7);
        let rig = rig(&ops, &edges);
        let before = rig.bytes();
        let (brute, reduced) = (rig.brute(), rig.reduced());
        assert_eq!(
            contents(&brute),
            contents(&reduced),
            "seed {seed}: {ops:?} {edges:?}"
        );
        assert_eq!(rig.bytes(), before, "seed {seed}: memory is put back");
        assert!(reduced.interleavings <= brute.interleavings);
        racing += u32::from(brute.outcomes.len() > 1);
        all += brute.interleavings;
        run += reduced.interleavings;
    }
    assert!(racing > 150, "{racing} of 400 graphs race");
    assert!(run * 5 < all, "{run} of {all} interleavings");
}

#[test]
fn no_replay_gives_anything_else() {
    let mut outcomes = 0;
    for seed in 1000..1060 {
        let (ops, edges) = random(seed, 14);
        let rig = rig(&ops, &edges);
        let found = rig.reduced();
        let known: BTreeSet<_> = contents(&found).into_iter().collect();
        for replays in 0..20 {
            rig.reset();
            rig.sim.reseed(replays);
            replay(&*rig.sim, rig.exec, rig.main).unwrap();
            assert!(known.contains(&rig.bytes()[..]), "seed {seed}: {ops:?}");
        }
        for outcome in &found.outcomes {
            assert_eq!(
                rig.replayed(outcome.schedule.clone()),
                outcome.bytes,
                "seed {seed}: {}",
                outcome.schedule
            );
        }
        outcomes += found.outcomes.len();
    }
    assert!(outcomes > 120, "{outcomes} outcomes of 60 graphs");
}

#[test]
fn one_interleaving_where_nothing_conflicts() {
    // Eight nodes of five blocks: 40!/(5!)^8 interleavings, one class.
    let ops: Vec<_> = (0..CELLS)
        .map(|node| Op::Kernel(vec![(vec![], node); 5]))
        .collect();
    let quiet = rig(&ops, &[]);
    let found = quiet.reduced();
    assert_eq!((found.interleavings, found.slices), (1, 40));
    // Readers of one cell do not conflict either.
    let readers: Vec<_> = (0..6).map(|node| kernel([(&[7], node)])).collect();
    assert_eq!(rig(&readers, &[]).reduced().interleavings, 1);
}

#[test]
fn one_interleaving_for_each_order_of_what_conflicts() {
    // Four writers of one cell: every one may be the last.
    let writers = vec![kernel([(&[], 0)]); 4];
    let found = rig(&writers, &[]).reduced();
    assert_eq!(found.interleavings, 24);
    assert_eq!(found.outcomes.len(), 4);
    // Two pairs: each pair in either order, whatever the other does.
    let pairs = [0, 0, 1, 1].map(|cell| kernel([(&[], cell)]));
    assert_eq!(rig(&pairs, &[]).reduced().interleavings, 4);
    // An edge leaves one order.
    let found = rig(&pairs, &[(0, 1), (2, 3)]).reduced();
    assert_eq!((found.interleavings, found.outcomes.len()), (1, 1));
    // ... also where it goes over a third node.
    let chain = [0, 2, 0].map(|cell| kernel([(&[], cell)]));
    assert_eq!(rig(&chain, &[(0, 1), (1, 2)]).reduced().interleavings, 1);
}

#[test]
fn every_serial_order_is_there() {
    // Each node doubles as a witness of what ran before it.
    let ops: Vec<_> = (0..4)
        .map(|node| kernel([(&[0], 0), (&[0], node + 1)]))
        .collect();
    let rig = rig(&ops, &[]);
    let found = rig.reduced();
    let known: BTreeSet<_> = contents(&found).into_iter().collect();
    let mut orders = 0;
    for code in 0..256_usize {
        let order = [0, 2, 4, 6].map(|shift| code >> shift & 3);
        if BTreeSet::from(order).len() < 4 {
            continue;
        }
        orders += 1;
        // What a run of the nodes one after the other leaves.
        let mut cells = [0_u64; CELLS];
        cells
            .iter_mut()
            .zip(rig.bytes().chunks_exact(8))
            .for_each(|(cell, bytes)| *cell = u64::from_le_bytes(bytes.try_into().unwrap()));
        for node in order {
            for (index, to) in [0, node + 1].into_iter().enumerate() {
                let seed = (node * 100 + index + 1) as u64;
                cells[to] = mixture([cells[0]].into_iter(), seed);
            }
        }
        let bytes: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        assert!(known.contains(&bytes[..]), "{order:?}");
    }
    assert_eq!(orders, 24);
}

#[test]
fn a_kernel_that_follows_an_index_is_explored_where_it_leads() {
    // Which cell is written depends on what is read: footprints are those of
    // each run, not of a first one.
    let sim = SimDriver::new(0);
    let cells = upload(&*sim, &[1, 0, 0, 0]);
    let pick = move |block: &mut SimBlock<'_>| {
        let at = block.read::<u32>(cells, 1)?[0];
        block.write(cells + 4 * u64::from(at), &[7_u32])
    };
    let point = move |block: &mut SimBlock<'_>| block.write(cells, &[2_u32]);
    let last = move |block: &mut SimBlock<'_>| {
        let seen = block.read::<u32>(cells + 8, 1)?[0];
        block.write(cells + 12, &[seen + 1])
    };
    let exec = three(&sim, [Arc::new(pick), Arc::new(point), Arc::new(last)]);
    let all = ByteRange::from_len(cells, 16).unwrap();
    let found = sim.explore(exec, &[all], &Bounds::default()).unwrap();
    let brute = Bounds {
        reduction: Reduction::None,
        ..Bounds::default()
    };
    let every = sim.explore(exec, &[all], &brute).unwrap();
    assert_eq!(contents(&found), contents(&every));
    // Third before or after the second's detour, and the second's absence.
    assert_eq!(found.outcomes.len(), 3);
}

type Body = Arc<dyn Fn(&mut SimBlock<'_>) -> Result<(), SimFault> + Send + Sync>;

/// Three unordered kernels of one block.
fn three(sim: &SimDriver, bodies: [Body; 3]) -> ExecHandle {
    let kernels = bodies
        .into_iter()
        .zip(NAMES)
        .map(|(run, symbol)| SimKernel {
            symbol,
            params: Vec::new(),
            run,
        })
        .collect();
    let module = sim.module_load(&ModuleImage::Sim(kernels)).unwrap();
    let main = sim.stream_create(0).unwrap();
    let streams = [(); 3].map(|()| sim.stream_create(0).unwrap());
    begin(sim, main).unwrap();
    for (stream, name) in streams.into_iter().zip(NAMES) {
        order(sim, main, stream).unwrap();
        let function = unsafe { sim.module_function(module, name) }.unwrap();
        let shape = LaunchShape::from(([1, 1, 1], [1, 1, 1]));
        unsafe { sim.launch(stream, function, shape, Start::InOrder, &mut []) }.unwrap();
    }
    for stream in streams {
        order(sim, stream, main).unwrap();
    }
    let graph = end(sim, main).unwrap();
    unsafe { sim.graph_instantiate(graph) }.unwrap()
}

#[test]
fn host_memory_is_explored_and_put_back() {
    let sim = SimDriver::new(0);
    let data = upload(&*sim, &[5; 4]);
    let host = sim.host_alloc(16).unwrap();
    let (main, side) = (sim.stream_create(0).unwrap(), sim.stream_create(0).unwrap());
    begin(&*sim, main).unwrap();
    order(&*sim, main, side).unwrap();
    unsafe { sim.copy_async(main, host as u64, data, 16) }.unwrap();
    unsafe { sim.fill_async(side, data, 9, 16) }.unwrap();
    order(&*sim, side, main).unwrap();
    let graph = end(&*sim, main).unwrap();
    let exec = unsafe { sim.graph_instantiate(graph) }.unwrap();
    let range = ByteRange::from_len(host as u64, 16).unwrap();
    let found = sim.explore(exec, &[range], &Bounds::default()).unwrap();
    assert_eq!(found.outcomes.len(), 2);
    let now = unsafe { std::slice::from_raw_parts(host.cast::<u8>(), 16) };
    assert_eq!(now, [0; 16]);
}

#[test]
fn what_is_too_big_is_refused_and_memory_is_as_before() {
    let ops = vec![kernel([(&[0], 0), (&[0], 0)]); 6];
    let rig = rig(&ops, &[]);
    let before = rig.bytes();
    let bounds = Bounds {
        nodes: 5,
        ..Bounds::default()
    };
    assert_eq!(
        rig.explore(&bounds).unwrap_err(),
        ExploreError::TooManyNodes { nodes: 6, bound: 5 }
    );
    let bounds = Bounds {
        slices: 100,
        ..Bounds::default()
    };
    let error = rig.explore(&bounds).unwrap_err();
    assert!(
        matches!(error, ExploreError::TooManySlices { bound: 100, interleavings } if interleavings > 0),
        "{error}"
    );
    assert_eq!(rig.bytes(), before);
    let beyond = ByteRange::from_len(rig.cells + 8, (CELLS * 8) as u64).unwrap();
    let error = rig
        .sim
        .explore(rig.exec, &[beyond], &Bounds::default())
        .unwrap_err();
    assert!(error.to_string().contains("not live memory"), "{error}");
}

#[test]
fn enqueued_work_is_not_run_in_between() {
    let rig = rig(&[kernel([(&[], 0)])], &[]);
    unsafe { rig.sim.fill_async(rig.main, rig.cells, 3, 8) }.unwrap();
    assert_eq!(
        rig.explore(&Bounds::default()).unwrap_err(),
        ExploreError::NotIdle { pending: 1 }
    );
    unsafe { rig.sim.stream_synchronize(rig.main) }.unwrap();
    assert_eq!(rig.reduced().interleavings, 1);
}

#[test]
fn a_fault_of_one_interleaving_is_an_error_that_names_it() {
    let sim = SimDriver::new(0);
    let cells = upload(&*sim, &[0; 4]);
    let one = move |block: &mut SimBlock<'_>| block.write(cells, &[1_u32]);
    let two = move |block: &mut SimBlock<'_>| block.write(cells + 4, &[1_u32]);
    let strict = move |block: &mut SimBlock<'_>| {
        block.write(cells + 8, &[1_u32])?;
        match block.read::<u32>(cells, 2)? {
            [0, 1] => Err(SimFault::Trap("two came before one".into())),
            _ => Ok(()),
        }
    };
    let exec = three(&sim, [Arc::new(one), Arc::new(two), Arc::new(strict)]);
    let error = sim.explore(exec, &[], &Bounds::default()).unwrap_err();
    let ExploreError::Fault { node, schedule, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*node, schedule.nodes()), (2, &[1, 2][..]));
    assert!(error.to_string().contains("two came before one"), "{error}");
    // Neither memory nor the device is any the worse.
    assert_eq!(super::common::download(&*sim, cells, 4), [0; 4]);
    load(&*sim).unwrap();
}
