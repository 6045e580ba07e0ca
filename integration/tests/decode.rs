//! Decode on the simulated device: every arm against the reference, and what is
//! refused.

use streamweir::Device;
use streamweir::trace::{EdgeKind, NodeId, NodeKind};
use streamweir::verify::Rule;
use streamweir_integration::dsv4::{
    Arm, Capacity, Config, Engine, Error, Exec, IndexKeys, Load, Matrix, Overlap, Packing,
    PageError, Pools, Row, Setup, Tally,
};

const LOAD: Load = Load {
    sessions: 4,
    rounds: 2,
    steps: 3,
    // Lengths that complete groups of four and of 128 tokens.
    prompt: (40, 250),
    seed: 3,
};

fn setup(index_keys: IndexKeys) -> Setup {
    Setup {
        config: Config::TINY,
        index_keys,
        buckets: vec![1, 2, 3],
        capacity: Capacity {
            sequences: LOAD.sessions,
            pages: 1 + LOAD.sessions * Config::TINY.table_stride(),
            rows: 3,
        },
        packing: Packing::Ordered,
        programmatic: true,
        seed: 11,
    }
}

fn arm(overlap: Overlap, pools: Pools, exec: Exec) -> Arm {
    Arm {
        overlap,
        pools,
        exec,
    }
}

#[test]
fn tagged_pools_give_the_reference_in_every_arm() {
    for keys in [IndexKeys::Bf16, IndexKeys::Fp8] {
        let arms: Vec<Arm> = Overlap::ALL
            .into_iter()
            .map(|overlap| arm(overlap, Pools::Tagged, Exec::Graph))
            .chain([arm(Overlap::Full, Pools::Tagged, Exec::Eager)])
            .collect();
        let matrix = Matrix::run(&Device::sim(1), setup(keys), LOAD, &arms, |_| {}).unwrap();
        for report in &matrix.arms {
            assert!(report.is_clean(), "{keys}: {report:?}");
            assert_eq!(report.sessions, 4);
        }
        assert!(matrix.tagged_is_clean());
    }
}

#[test]
fn the_shared_pool_goes_wrong_and_the_verifier_said_so() {
    let arms = [
        arm(Overlap::Full, Pools::Shared, Exec::Graph),
        arm(Overlap::Off, Pools::Shared, Exec::Graph),
    ];
    let matrix = Matrix::run(&Device::sim(1), setup(IndexKeys::Bf16), LOAD, &arms, |_| {}).unwrap();
    let [full, off] = &matrix.arms[..] else {
        panic!("two arms");
    };
    assert!(full.wrong_sessions > 0 && full.hazards > 0, "{full:?}");
    let report = full.report.as_ref().unwrap();
    assert!(
        report.hazards.iter().any(|h| h.rule == Rule::SharedBytes),
        "{report}"
    );
    assert!(off.is_clean(), "one stream cannot alias: {off:?}");
    assert!(matrix.tagged_is_clean(), "there is no tagged arm");
}

#[test]
fn a_batch_beyond_the_buckets_is_refused_and_the_others_go_on() {
    let device = Device::sim(1);
    let mut engine = Engine::new(&device, setup(IndexKeys::Bf16)).unwrap();
    let mut pages = engine.reset().unwrap();
    let mut sequences: Vec<_> = (0..4).map(|_| pages.begin().unwrap()).collect();
    assert!(matches!(pages.begin(), Err(PageError::NoSlot { slots: 4 })));
    for sequence in &mut sequences[..3] {
        pages.grow(sequence, 17).unwrap();
    }
    let mut decoder = engine
        .prepare(arm(Overlap::Full, Pools::Tagged, Exec::Graph))
        .unwrap();
    let row = |at: usize| Row {
        sequence: &sequences[at],
        token: at as i32,
    };
    decoder.step(&[row(0), row(1)]).unwrap();
    let before = decoder.chosen(2).unwrap();

    let error = decoder.step(&[row(0), row(1), row(2), row(3)]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Batch {
                batch: 4,
                largest: 3
            }
        ),
        "{error}"
    );
    let error = decoder.step(&[row(0), row(3)]).unwrap_err();
    assert!(matches!(error, Error::Row { row: 1, .. }), "{error}");
    let error = decoder.step(&[row(2), row(0), row(2)]).unwrap_err();
    assert!(matches!(error, Error::Row { row: 2, .. }), "{error}");
    assert!(error.to_string().contains("another row"), "{error}");

    // The same step again: the caches hold what it stored, so it is the same.
    decoder.step(&[row(0), row(1)]).unwrap();
    assert_eq!(decoder.chosen(2).unwrap(), before);
}

#[test]
fn caches_that_are_too_small_are_named() {
    let device = Device::sim(1);
    let mut small = setup(IndexKeys::Bf16);
    small.capacity.pages = 3;
    let arms = [arm(Overlap::Off, Pools::Tagged, Exec::Graph)];
    let error = Matrix::run(&device, small, LOAD, &arms, |_| {}).unwrap_err();
    assert!(
        matches!(error, Error::Page(PageError::NoPages { .. })),
        "{error}"
    );
    let long = Load {
        prompt: (400, 500),
        ..LOAD
    };
    let error = Matrix::run(&device, setup(IndexKeys::Bf16), long, &arms, |_| {}).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Page(PageError::TooLong {
                max_context: 512,
                ..
            })
        ),
        "{error}"
    );
}

/// All buckets share one arena, whose size is that of the largest.
#[test]
fn buckets_share_their_memory() {
    let device = Device::sim(1);
    let mut engine = Engine::new(&device, setup(IndexKeys::Bf16)).unwrap();
    let decoder = engine
        .prepare(arm(Overlap::Full, Pools::Tagged, Exec::Graph))
        .unwrap();
    let each: Vec<u64> = decoder
        .graphs()
        .values()
        .map(|graph| graph.pools().reserved)
        .collect();
    assert_eq!(each.len(), 3);
    assert_eq!(decoder.reserved(), *each.iter().max().unwrap());
    let engine = decoder.engine();
    assert_eq!(
        [1, 2, 3].map(|batch| engine.bucket(batch).unwrap()),
        [1, 2, 3]
    );
    let ranges: Vec<_> = decoder
        .graphs()
        .values()
        .map(|graph| {
            let scratch = graph.trace().buffers.iter().filter(|buffer| {
                matches!(buffer.kind, streamweir::trace::BufferKind::Scratch { .. })
            });
            let range = scratch.map(|buffer| buffer.range);
            (
                range.clone().map(|r| r.start).min().unwrap(),
                range.map(|r| r.end).max().unwrap(),
            )
        })
        .collect();
    let overlap = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.1 && b.0 < a.1;
    assert!(overlap(&ranges[0], &ranges[1]) && overlap(&ranges[1], &ranges[2]));
}

/// With the indexer on one stream, nothing of it is on main and nothing of main
/// on it.
#[test]
fn the_indexer_is_on_the_streams_that_the_overlap_says() {
    let device = Device::sim(1);
    let mut engine = Engine::new(&device, setup(IndexKeys::Bf16)).unwrap();
    for (overlap, expected) in [
        (Overlap::Off, &["main"][..]),
        (Overlap::IndexerOnly, &["indexer", "main"]),
        (
            Overlap::Full,
            &[
                "compressor",
                "idx_q",
                "idx_weights",
                "indexer",
                "kv",
                "main",
            ],
        ),
    ] {
        let decoder = engine
            .prepare(arm(overlap, Pools::Tagged, Exec::Graph))
            .unwrap();
        let trace = decoder.graphs()[&3].trace();
        let mut streams: Vec<_> = trace.streams.iter().map(|s| s.name.as_str()).collect();
        streams.sort_unstable();
        assert_eq!(streams, expected, "{overlap}");
        let of = |scope: &str| {
            let mut names: Vec<_> = (trace.buffers.iter())
                .filter(|buffer| buffer.name == scope)
                .filter_map(|buffer| buffer.stream())
                .map(|stream| trace.streams[stream.index()].name.as_str())
                .collect();
            names.dedup();
            names
        };
        let side = |full| match overlap {
            Overlap::Off => ["main"],
            Overlap::IndexerOnly => ["indexer"],
            Overlap::Full => [full],
        };
        assert_eq!(of("head weights"), side("idx_weights"), "{overlap}");
        assert_eq!(of("index queries"), side("idx_q"), "{overlap}");
        assert_eq!(of("logits"), side("indexer"), "{overlap}");
    }
}

/// What is long begins with the first projection, and the index keys behind it.
#[test]
fn side_work_begins_where_it_does_not_hold_main_up() {
    let device = Device::sim(1);
    let mut engine = Engine::new(&device, setup(IndexKeys::Bf16)).unwrap();
    let decoder = engine
        .prepare(arm(Overlap::Full, Pools::Tagged, Exec::Graph))
        .unwrap();
    let trace = decoder.graphs()[&3].trace();
    let product = |scope: &str| {
        let found = (0..trace.nodes.len()).map(NodeId::at).find(|&id| {
            trace.scope_of(id).is_some_and(|of| of.ends_with(scope))
                && trace.node(id).name.starts_with("gemm")
        });
        found.unwrap_or_else(|| panic!("no product in {scope}"))
    };
    let before = |from: NodeId, to: NodeId| {
        let mut reached = vec![to];
        let mut at = 0;
        while let Some(&node) = reached.get(at) {
            for edge in trace.edges.iter().filter(|edge| edge.to == node) {
                if !reached.contains(&edge.from) {
                    reached.push(edge.from);
                }
            }
            at += 1;
        }
        reached.contains(&from)
    };
    // Layer 2 is the first with an indexer; its first product on main is that of h.
    let first = product("layer 2");
    for (scope, waits) in [
        ("layer 2/compressor", false),
        ("layer 2/idx_weights", false),
        ("layer 2/indexer", true),
        ("layer 2/idx_q", true),
    ] {
        assert_eq!(before(first, product(scope)), waits, "{scope}");
    }
}

/// Every kernel of ours that follows a kernel starts early, unless the setup says
/// otherwise; products of a library never do.
#[test]
fn kernels_start_early_where_the_setup_says_so() {
    for programmatic in [true, false] {
        let device = Device::sim(1);
        let setup = Setup {
            programmatic,
            ..setup(IndexKeys::Bf16)
        };
        let mut engine = Engine::new(&device, setup).unwrap();
        let decoder = engine
            .prepare(arm(Overlap::Full, Pools::Tagged, Exec::Graph))
            .unwrap();
        let trace = decoder.graphs()[&3].trace();
        let name = |node: NodeId| trace.node(node).name.as_str();
        for edge in &trace.edges {
            let kernels = [edge.from, edge.to]
                .into_iter()
                .all(|node| matches!(trace.node(node).kind, NodeKind::Kernel(_)));
            let early = programmatic && kernels && !name(edge.to).starts_with("gemm");
            let kind = match early {
                true => EdgeKind::Programmatic,
                false => EdgeKind::Full,
            };
            let (from, to) = (name(edge.from), name(edge.to));
            assert_eq!(edge.kind, kind, "{from} to {to}");
        }
        assert!(!trace.edges.is_empty());
    }
}

#[test]
fn a_soak_goes_on_from_its_tally() {
    let mut setup = setup(IndexKeys::Fp8);
    setup.config.layers = 3;
    setup.buckets = vec![2];
    setup.capacity.rows = 2;
    let device = Device::sim(1);
    let mut heard = Vec::new();
    let tally = Tally::default()
        .advance::<Error>(&device, setup.clone(), (1, 8), |tally| {
            heard.push(tally.replays());
            Ok(())
        })
        .unwrap();
    assert!(tally.is_clean(), "{tally:?}");
    assert_eq!((tally.batches, heard), (1, vec![tally.replays()]));
    let before = tally.replays();
    // There are enough already; then there are not.
    let tally = tally
        .advance::<Error>(&device, setup.clone(), (before, 8), |_| {
            panic!("nothing to do")
        })
        .unwrap();
    let tally = tally
        .advance::<Error>(&device, setup, (before + 1, 8), |_| Ok(()))
        .unwrap();
    assert_eq!((tally.batches, tally.replays()), (2, 2 * before));
    assert!(tally.is_clean(), "{tally:?}");
}
