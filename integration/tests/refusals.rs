//! Bad input: each refusal has a type and a name, and the other sequences go on as
//! if nothing had been asked.

use streamweir::Device;
use streamweir_integration::dsv4::{
    AboveLargest, Arm, Capacity, Chosen, Config, Decoder, Engine, EngineOptions, Error, Exec,
    IndexKeys, Load, Matrix, Overlap, Packing, PageError, Pages, Pools, Row, RowFault, Sequence,
    Setup,
};

const FULL: Arm = Arm {
    overlap: Overlap::Full,
    pools: Pools::Tagged,
    exec: Exec::Graph,
};

/// Buckets for three rows at most, inputs for four.
fn setup() -> Setup {
    Setup {
        config: Config::TINY,
        index_keys: IndexKeys::Fp8,
        buckets: vec![1, 3],
        capacity: Capacity {
            sequences: 5,
            pages: 8,
            rows: 4,
        },
        packing: Packing::default(),
        programmatic: true,
        seed: 5,
    }
}

const EAGER_ABOVE: EngineOptions = EngineOptions {
    above_largest: AboveLargest::Eager,
    instruments: streamweir_integration::dsv4::Instruments {
        poison: streamweir::Poison::Off,
        canary: false,
        differential: false,
    },
    keep_selected: false,
};

/// A decoder and sequences in its caches, as a server has them.
struct Server<'a> {
    decoder: Decoder<'a>,
    pages: Pages,
}

impl Server<'_> {
    /// A sequence of so many tokens.
    fn begin(&mut self, tokens: u32) -> Sequence {
        let mut sequence = self.pages.begin().unwrap();
        self.pages.grow(&mut sequence, tokens).unwrap();
        sequence
    }

    /// One more token for each, and a step.
    fn step(&mut self, batch: &mut [&mut Sequence]) -> Result<Chosen, Error> {
        for sequence in batch.iter_mut() {
            let tokens = sequence.tokens() + 1;
            self.pages.grow(sequence, tokens)?;
        }
        let batch: Vec<Row<'_>> = batch
            .iter()
            .map(|sequence| Row {
                sequence,
                token: sequence.slot() as i32,
            })
            .collect();
        self.decoder.step(&batch)?;
        self.decoder.chosen(batch.len())
    }
}

fn with_server<R>(arm: Arm, options: EngineOptions, serve: impl FnOnce(&mut Server<'_>) -> R) -> R {
    let device = Device::sim(3);
    let mut engine = Engine::with_options(&device, setup(), options).unwrap();
    let pages = engine.reset().unwrap();
    let decoder = engine.prepare(arm).unwrap();
    serve(&mut Server { decoder, pages })
}

/// Rows of a step but one.
fn others(chosen: &Chosen, left_out: usize) -> Vec<(i32, Vec<u16>)> {
    let rows = chosen.tokens.iter().copied().zip(chosen.hidden.clone());
    let mut rows: Vec<_> = rows.collect();
    rows.remove(left_out);
    rows
}

#[test]
fn a_batch_above_the_largest_bucket_runs_eagerly_where_that_is_allowed() {
    let steps = |server: &mut Server<'_>| {
        let mut all: Vec<_> = [40, 127, 300, 8].map(|tokens| server.begin(tokens)).into();
        let mut batch: Vec<_> = all.iter_mut().collect();
        let wide = server.step(&mut batch)?;
        let narrow = server.step(&mut batch[..2])?;
        Ok::<_, Error>([wide, narrow, server.step(&mut batch)?])
    };
    let expected = with_server(Arm::REFERENCE, EAGER_ABOVE, steps).unwrap();
    let found = with_server(FULL, EAGER_ABOVE, steps).unwrap();
    assert_eq!(found, expected);
    let error = with_server(FULL, EngineOptions::default(), steps).unwrap_err();
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

    // There are inputs for four rows, and for no more.
    with_server(FULL, EAGER_ABOVE, |server| {
        assert_eq!(server.decoder.engine().largest_batch(), 4);
        let mut all: Vec<_> = (0..5).map(|_| server.begin(9)).collect();
        let mut batch: Vec<_> = all.iter_mut().collect();
        let error = server.step(&mut batch).unwrap_err();
        assert!(
            matches!(error, Error::Rows { batch: 5, rows: 4 }),
            "{error}"
        );
        server.step(&mut batch[..4]).unwrap();
    });
}

#[test]
fn a_load_of_wide_batches_is_clean() {
    let load = Load {
        sessions: 5,
        rounds: 1,
        steps: 2,
        prompt: (20, 200),
        seed: 2,
    };
    let device = Device::sim(1);
    let mut setup = setup();
    setup.buckets = vec![1, 2];
    let matrix = Matrix::run_with(&device, setup, EAGER_ABOVE, load, &[FULL], |_| {}).unwrap();
    assert!(matrix.arms[0].is_clean(), "{:?}", matrix.arms);
}

#[test]
fn buckets_without_inputs_are_refused() {
    for buckets in [vec![], vec![2, 1], vec![2, 2], vec![0, 1], vec![1, 5]] {
        let mut setup = setup();
        setup.buckets = buckets.clone();
        let error = Engine::new(&Device::sim(1), setup).err().unwrap();
        assert!(
            matches!(&error, Error::Buckets { buckets: named, rows: 4 } if *named == buckets),
            "{error}"
        );
    }
}

/// A session that ends while its step is under way: its pages go to another one at
/// once, and the rest of the batch has what it has when nobody ends.
#[test]
fn a_session_that_ends_in_the_middle_of_a_step_harms_nobody() {
    let run = |arm: Arm, ends: bool| {
        with_server(arm, EngineOptions::default(), |server| {
            let [mut a, mut b, mut c] = [127, 130, 255].map(|tokens| server.begin(tokens));
            let first = {
                for sequence in [&mut a, &mut b, &mut c] {
                    let tokens = sequence.tokens() + 1;
                    server.pages.grow(sequence, tokens).unwrap();
                }
                let row = |sequence| Row { sequence, token: 1 };
                let batch = [&a, &b, &c].map(row);
                server.decoder.step(&batch).unwrap();
                if ends {
                    let table = b.table().to_vec();
                    server.pages.end(b).unwrap();
                    b = server.begin(33);
                    assert_eq!(b.table(), &table[..1], "the very pages");
                }
                server.decoder.chosen(3).unwrap()
            };
            let second = server.step(&mut [&mut a, &mut b, &mut c]).unwrap();
            let third = server.step(&mut [&mut a, &mut b, &mut c]).unwrap();
            [first, second, third].map(|chosen| others(&chosen, 1))
        })
    };
    let expected = run(Arm::REFERENCE, false);
    assert_eq!(run(FULL, true), expected);
    assert_eq!(run(FULL, false), expected);
}

/// No page is left, or the graphs do not reach so far: whoever asked is told, and
/// has what it had.
#[test]
fn a_sequence_that_cannot_grow_leaves_the_others_alone() {
    let run = |arm: Arm, asks: bool| {
        with_server(arm, EngineOptions::default(), |server| {
            let [mut a, mut b, mut c] = [500, 510, 300].map(|tokens| server.begin(tokens));
            let mut steps = vec![server.step(&mut [&mut a, &mut b, &mut c]).unwrap()];
            if asks {
                let mut greedy = server.begin(1);
                // All seven pages are taken.
                let error = server.pages.grow(&mut greedy, 513).unwrap_err();
                assert!(
                    matches!(error, PageError::TooLong { tokens: 513, .. }),
                    "{error}"
                );
                let error = server.pages.grow(&mut greedy, 512).unwrap_err();
                let no_page = PageError::NoPages {
                    sequence: greedy.slot(),
                    needed: 1,
                    free: 0,
                    pages: 8,
                };
                assert_eq!(error, no_page);
                assert_eq!(greedy.tokens(), 1);
                server.pages.end(greedy).unwrap();
                let error = server.pages.grow(&mut b, 513).unwrap_err();
                assert!(matches!(error, PageError::TooLong { .. }), "{error}");
                assert_eq!(b.tokens(), 511);
            }
            steps.push(server.step(&mut [&mut a, &mut b, &mut c]).unwrap());
            steps
        })
    };
    let expected = run(Arm::REFERENCE, false);
    assert_eq!(run(FULL, true), expected);
}

#[test]
fn a_sequence_from_before_a_reset_is_refused() {
    let device = Device::sim(3);
    let mut engine = Engine::new(&device, setup()).unwrap();
    let mut before = engine.reset().unwrap();
    let mut stale = before.begin().unwrap();
    before.grow(&mut stale, 9).unwrap();
    let mut pages = engine.reset().unwrap();
    let mut fresh = pages.begin().unwrap();
    pages.grow(&mut fresh, 9).unwrap();
    let mut decoder = engine.prepare(FULL).unwrap();
    let row = |sequence| Row { sequence, token: 1 };
    decoder.step(&[row(&fresh)]).unwrap();
    let expected = decoder.chosen(1).unwrap();
    let error = decoder.step(&[row(&fresh), row(&stale)]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Row {
                row: 1,
                fault: RowFault::Stale
            }
        ),
        "{error}"
    );
    decoder.step(&[row(&fresh)]).unwrap();
    assert_eq!(decoder.chosen(1).unwrap(), expected);
    let error = pages.end(stale).unwrap_err();
    assert_eq!(error, PageError::Foreign { sequence: 1 });
}
