//! Addresses among arguments: fields of structs, elements of arrays, buffers that may
//! be null. And what a launch refuses.

use streamweir::driver::ModuleImage;
use streamweir::kernel::{In, Out, Refusal, twin};
use streamweir::trace::{NodeKind, Param};
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    Capture, CaptureOptions, Device, Error, Graph, KernelError, LoadedKernel, Persistent, Table,
    kernel, part,
};

kernel! {
    /// Where rows come from and go to, passed by value.
    pub(crate) struct Rows {
        len: u32,
        from: [In<u32>; 2],
        to: Out<u32>,
    }

    /// `to = from[0] + from[1]`, with `bias` added where it is there.
    ///
    /// # Safety
    /// A block touches its own element of each buffer, and none from `len` on.
    pub(crate) unsafe fn add_rows(rows: Rows, bias: Option<In<u32>>) {
        for from in rows.from {
            from.holds([rows.len])?;
        }
        rows.to.holds([rows.len])?;
        if let Some(bias) = bias {
            bias.holds([rows.len])?.aligned(16)?;
        }
        Ok((rows.len, 1).into())
    }

    /// `output[i] = 2 input[i]`.
    ///
    /// # Safety
    /// A block reads its own element before it writes it, and none from `len` on.
    #[in_place(input, output)]
    pub(crate) unsafe fn double(input: In<u32>, output: Out<u32>, len: u32) {
        input.holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
}

kernel! {
    /// `output[i] = sum over the table of its buffers' element i`.
    ///
    /// # Safety
    /// A block reads its own element of each buffer and writes its own, and none from
    /// `len` on.
    pub(crate) unsafe fn sum_table(from: Table<In<u32>>, output: Out<u32>, count: u32, len: u32) {
        if from.len() < count.into() {
            return Err(Refusal::Size {
                dimension: "count",
                value: count.into(),
                requirement: "no more than the table has",
            });
        }
        from.each_holds([len])?;
        output.holds([len])?;
        Ok((len, 1).into())
    }
}

const N: u32 = 4;

struct Rig {
    device: Device,
    add: LoadedKernel<add_rows>,
    double: LoadedKernel<double>,
    x: Persistent<u32>,
    y: Persistent<u32>,
    bias: Persistent<u32>,
}

impl Rig {
    fn new() -> Self {
        let device = Device::sim(1);
        let twins = vec![
            twin::<add_rows>(|block, (rows, bias)| {
                let i = block.index()[0] as usize;
                let of = |row: streamweir::kernel::Ptr<u32>| -> Result<u32, _> {
                    Ok(block.read::<u32>(row.at(i), 1)?[0])
                };
                let [a, b] = rows.from;
                let sum = of(a)? + of(b)? + bias.map_or(Ok(0), of)?;
                block.write(rows.to.at(i), &[sum])
            }),
            twin::<double>(|block, (input, output, _)| {
                let i = block.index()[0] as usize;
                let value = block.read::<u32>(input.at(i), 1)?[0];
                block.write(output.at(i), &[2 * value])
            }),
        ];
        let module = device.load(&ModuleImage::Sim(twins)).unwrap();
        let buffer = |name, values: [u32; 4]| device.persistent_from(name, &values).unwrap();
        // SAFETY: the module has the twins of these declarations.
        let (add, double) = unsafe { (module.kernel().unwrap(), module.kernel().unwrap()) };
        Self {
            add,
            double,
            x: buffer("x", [1_u32, 2, 3, 4]),
            y: buffer("y", [0; 4]),
            bias: buffer("bias", [100; 4]),
            device,
        }
    }

    /// `y = (x + 2 x) [+ bias]`, the middle in scratch of another stream.
    fn record(&self, cap: &Capture, bias: bool, join: bool) -> Result<(), Error> {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let twice = side.scratch::<u32>("twice", N as usize)?;
        let once = main.scratch::<u32>("once", N as usize)?;
        let (input, output) = (&self.x, &twice);
        side.launch(
            &self.double,
            double {
                input,
                output,
                len: N,
            },
        )?;
        main.copy(&once, &self.x)?;
        let sum = || {
            let rows = Rows {
                len: N,
                from: [&once, &twice],
                to: &self.y,
            };
            let bias = bias.then_some(&self.bias);
            main.launch(&self.add, add_rows { rows, bias })
        };
        match join {
            true => {
                cap.join(&main, side)?;
                sum()
            }
            false => {
                sum()?;
                cap.join(&main, side).map(drop)
            }
        }
    }

    fn capture(&self, options: CaptureOptions, bias: bool, join: bool) -> Result<Graph, Error> {
        Ok(self
            .device
            .capture::<_, Error>(options, |cap| self.record(cap, bias, join))?
            .0)
    }
}

fn params(graph: &Graph) -> &[Param] {
    let kernel = graph
        .trace()
        .nodes
        .iter()
        .find_map(|node| match &node.kind {
            NodeKind::Kernel(kernel) if kernel.function == "add_rows" => Some(kernel),
            _ => None,
        });
    &kernel.expect("it was launched").params
}

#[test]
fn addresses_in_structs_and_arrays_are_those_of_the_buffers_wherever_they_are_placed() {
    for planned in [false, true] {
        let rig = Rig::new();
        let options = CaptureOptions::new("rows");
        let options = if planned { options.planned() } else { options };
        for (bias, sums) in [(false, [3, 6, 9, 12]), (true, [103, 106, 109, 112])] {
            let graph = rig.capture(options.clone(), bias, true).unwrap();
            assert!(graph.certificate().is_some(), "{}", graph.report());
            let stream = rig.device.stream("replay").unwrap();
            graph.replay(&stream).unwrap();
            assert_eq!(rig.y.download().unwrap(), sums, "planned {planned}");

            let [rows, null] = params(&graph) else {
                panic!("two parameters");
            };
            assert_eq!((rows.bytes.len(), null.bytes.len()), (32, 8));
            let fields: Vec<u32> = rows.fields.iter().map(|field| field.at).collect();
            assert_eq!(fields, [8, 16, 24]);
            for (at, to) in rows.pointers() {
                let buffer = graph.trace().buffer(to.buffer.expect("a known one"));
                assert_eq!(rows.word(at), Some(buffer.range.start), "{}", buffer.name);
            }
            assert_eq!(null.pointer.is_some(), bias);
        }
    }
}

#[test]
fn a_race_through_a_struct_of_parameters_is_found() {
    let rig = Rig::new();
    let error = rig
        .capture(CaptureOptions::new("race"), false, false)
        .unwrap_err();
    let report = error.report().expect("a report");
    assert_eq!(report.verdict, Verdict::Hazard);
    let first = &report.hazards[0];
    assert_eq!(first.rule, Rule::UnorderedConflict, "{report}");
    assert_eq!(first.buffers[0].name, "twice");
}

#[test]
fn a_graph_keeps_what_a_struct_of_parameters_refers_to() {
    let rig = Rig::new();
    let x = rig.device.persistent_from("kept", &[7_u32; 4]).unwrap();
    let (graph, ()) = rig
        .device
        .capture::<_, Error>("kept", |cap| {
            let rows = Rows {
                len: N,
                from: [&x, &x],
                to: &rig.y,
            };
            let bias = None::<&Persistent<u32>>;
            cap.origin().launch(&rig.add, add_rows { rows, bias })
        })
        .unwrap();
    drop(x);
    rig.device.synchronize().unwrap();
    let stream = rig.device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    assert_eq!(rig.y.download().unwrap(), [14; 4]);
}

/// What a launch of `add_rows` or `double` refuses.
fn refused(rig: &Rig, launch: impl Fn(&Capture) -> Result<(), Error>) -> Error {
    let run = rig.device.eager::<_, Error>("refused", |run| launch(run));
    run.map(drop).unwrap_err()
}

#[test]
fn a_launch_says_which_buffer_it_refuses() {
    let rig = Rig::new();
    let short = rig.device.persistent::<u32>("short", 3).unwrap();
    let rows = |second, to| Rows {
        len: N,
        from: [&rig.x, second],
        to,
    };
    let none = None::<&Persistent<u32>>;
    let launch = |rows, bias| {
        refused(&rig, |run| {
            run.origin().launch(&rig.add, add_rows { rows, bias })
        })
    };
    for (error, name) in [
        (launch(rows(&short, &rig.y), none), "an element"),
        (launch(rows(&rig.x, &short), none), "to"),
        (launch(rows(&rig.x, &rig.y), Some(&short)), "bias"),
    ] {
        let Error::Kernel(KernelError::Arguments { why, .. }) = &error else {
            panic!("{error}");
        };
        let Refusal::Short {
            param,
            has: 3,
            needs: 4,
        } = why
        else {
            panic!("{why}");
        };
        assert_eq!(*param, name);
        assert!(error.to_string().contains("add_rows"), "{error}");
    }
    let long = rig.device.persistent::<u32>("long", 8).unwrap();
    let beside = refused(&rig, |run| {
        let bias = Some(part(&long, 1..5)?);
        let rows = rows(&rig.x, &rig.y);
        run.origin().launch(&rig.add, add_rows { rows, bias })
    });
    let Error::Kernel(KernelError::Arguments { why, .. }) = &beside else {
        panic!("{beside}");
    };
    assert!(
        matches!(
            why,
            Refusal::Misaligned {
                param: "bias",
                align: 16,
                ..
            }
        ),
        "{why}"
    );
}

#[test]
fn what_is_written_shares_no_bytes_with_other_arguments() {
    let rig = Rig::new();
    let shared = refused(&rig, |run| {
        let rows = Rows {
            len: N,
            from: [&rig.x, &rig.y],
            to: &rig.y,
        };
        let bias = None::<&Persistent<u32>>;
        run.origin().launch(&rig.add, add_rows { rows, bias })
    });
    assert!(
        matches!(shared, Error::Kernel(KernelError::SharedBytes { .. })),
        "{shared}"
    );

    // A kernel that works in place is given the same bytes, and no others that overlap.
    let launch = |run: &Capture, input, output| {
        run.origin().launch(
            &rig.double,
            double {
                input,
                output,
                len: 2,
            },
        )
    };
    rig.device
        .eager::<_, Error>("in place", |run| {
            launch(run, part(&rig.x, 0..2)?, part(&rig.x, 0..2)?)
        })
        .unwrap();
    assert_eq!(rig.x.download().unwrap(), [2, 4, 3, 4]);
    let shifted = refused(&rig, |run| {
        launch(run, part(&rig.x, 0..2)?, part(&rig.x, 1..3)?)
    });
    let Error::Kernel(KernelError::SharedBytes { first, second, .. }) = &shifted else {
        panic!("{shifted}");
    };
    assert_eq!((first.as_str(), second.as_str()), ("input", "output"));
}

/// A table is written by the library alone: there is no way to it but a launch.
#[test]
fn a_table_is_touched_kept_and_judged_as_its_buffers() {
    let rig = Rig::new();
    let twins = vec![twin::<sum_table>(|block, (from, output, count, _)| {
        let i = block.index()[0] as usize;
        let addresses = block.read::<u64>(from.at(0), count as usize)?.to_vec();
        let mut sum = 0;
        for address in addresses {
            sum += block.read::<u32>(address + 4 * i as u64, 1)?[0];
        }
        block.write(output.at(i), &[sum])
    })];
    let module = rig.device.load(&ModuleImage::Sim(twins)).unwrap();
    // SAFETY: the module has the twin of this declaration.
    let sum = unsafe { module.kernel::<sum_table>() }.unwrap();
    let made = |len: usize| {
        rig.device
            .persistent_from("row", &vec![5_u32; len])
            .unwrap()
    };
    let rows = [made(4), made(4), made(4)];
    let table = |rows: [&Persistent<u32>; 3]| rig.device.table::<In<u32>>("rows", &rows).unwrap();
    let from = &table([&rows[0], &rows[1], &rows[2]]);
    let short = made(3);
    let shorter = table([&rows[0], &rows[1], &short]);
    let args = |from, count| sum_table {
        from,
        output: &rig.y,
        count,
        len: N,
    };

    for (from, count) in [(&shorter, 3), (from, 4)] {
        let error = refused(&rig, |run| run.origin().launch(&sum, args(from, count)));
        assert!(
            matches!(error, Error::Kernel(KernelError::Arguments { .. })),
            "{error}"
        );
    }
    let written = sum_table {
        from,
        output: &rows[1],
        count: 3,
        len: N,
    };
    let error = refused(&rig, |run| run.origin().launch(&sum, written));
    assert!(
        matches!(error, Error::Kernel(KernelError::SharedBytes { .. })),
        "{error}"
    );

    let race = rig.device.capture::<_, Error>("race", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        side.fill(&rows[2], 0)?;
        main.launch(&sum, args(from, 3))?;
        cap.join(&main, side).map(drop)
    });
    let error = race.map(drop).unwrap_err();
    let report = error.report().expect("a report");
    assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");

    let (graph, ()) = rig
        .device
        .capture::<_, Error>("kept", |cap| cap.origin().launch(&sum, args(from, 3)))
        .unwrap();
    drop(rows);
    rig.device.synchronize().unwrap();
    graph.replay(&rig.device.stream("replay").unwrap()).unwrap();
    assert_eq!(rig.y.download().unwrap(), [15; 4]);
}
