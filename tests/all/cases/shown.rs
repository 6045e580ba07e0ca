//! What a call shows of memory that it does not declare: operands are accesses, words of
//! parameters are possible ones. And what it declares and shows is no more than that.

use streamweir::Verify;

use super::*;

fn each_kind() -> [CaptureOptions; 2] {
    [
        CaptureOptions::new("at once"),
        CaptureOptions::new("put aside").planned(),
    ]
}

/// The copy reads "z" while it is written: no declaration says so, its node does.
#[test]
fn a_copy_of_a_call_reads_what_it_reads() {
    for options in each_kind() {
        let rig = rig();
        let [y, z] = rig.buffers(["y", "z"]);
        let (driver, from) = (rig.driver.clone(), z.range().start);
        let captured = rig.beside(&z, options, |side| {
            let touches = [writes(&y)];
            let call = ForeignCall::new("library", &touches);
            // SAFETY: nothing is replayed.
            unsafe {
                side.foreign_call(call, move |raw, at| {
                    Ok(driver.copy_async(raw, at.touched[0], from, 16)?)
                })
            }
        });
        is_refused(captured, Rule::UnorderedConflict, "z");
    }
}

/// Declared as read and written all the same: a declaration covers what it says.
#[test]
fn a_mode_that_is_too_weak_covers_nothing() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let driver = rig.driver.clone();
    let captured = rig.device.capture::<_, Error>("weak", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        main.copy(&y, &z)?;
        // SAFETY: nothing is replayed.
        unsafe {
            side.foreign::<_, Error>("library", &[reads(&z)], None, |raw, at| {
                driver.fill_async(raw, at[0], 1, 16).map_err(foreign)
            })
        }?;
        cap.join(&main, side).map(drop)
    });
    is_refused(captured, Rule::UnorderedConflict, "z");
}

/// A kernel of the call has the address of "z", which another stream writes: it may use
/// it. Only possible, so the graph is made, without a certificate.
#[test]
fn a_word_into_another_buffer_is_a_possible_access() {
    for options in each_kind() {
        let rig = rig();
        let [y, z] = rig.buffers(["y", "z"]);
        let (library, from) = (rig.library("plus"), z.range().start);
        let captured = rig.beside(&z, options, |side| {
            let touches = [writes(&y)];
            let call = ForeignCall::new("library", &touches);
            // SAFETY: as above.
            unsafe {
                side.foreign_call(call, move |raw, at| {
                    library.launch(raw, &[from, at.touched[0]], &[1, N]);
                    Ok(())
                })
            }
        });
        let (graph, ()) = captured.unwrap();
        let report = graph.report();
        assert_eq!(report.verdict, Verdict::Possible, "{report}");
        assert_eq!(report.hazards[0].rule, Rule::UnorderedConflict, "{report}");
        assert!(graph.certificate().is_none());
    }
}

/// One past the end of "y" is no address of "y"; where "z" begins there, it is one of "z".
#[test]
fn one_past_the_end_explains_nothing() {
    let rig = rig();
    let both = rig.device.persistent::<u32>("both", 2 * LEN).unwrap();
    let half = |range| streamweir::part(&both, range).unwrap();
    let library = rig.library("plus");
    let captured = rig.device.capture::<_, Error>("past", |cap| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        main.fill(half(LEN..2 * LEN), 1)?;
        let low = half(0..LEN);
        // SAFETY: as above.
        unsafe {
            side.foreign::<_, Error>("library", &[updates(&low)], None, |raw, at| {
                library.launch(raw, &[at[0], at[0] + 16], &[1, N]);
                Ok(())
            })
        }?;
        cap.join(&main, side).map(drop)
    });
    let (graph, ()) = captured.unwrap();
    let verdict = graph.report().verdict;
    assert_eq!(verdict, Verdict::Possible, "{}", graph.report());
}

/// A product as cuBLASLt makes one: operands and a workspace, all declared, all shown.
/// Safe, proved, and nothing is assumed but that it touches no more.
#[test]
fn a_declared_call_is_safe_with_no_assumption_but_its_own_word() {
    for options in each_kind() {
        let rig = rig();
        let [x, y, z] = rig.buffers(["x", "y", "z"]);
        let (library, driver) = (rig.library("sum"), rig.driver.clone());
        let options = options.verify(Verify::Prove);
        let (graph, ()) = rig
            .beside(&z, options, |side| {
                let touches = [reads(&x), writes(&y)];
                let call = ForeignCall::new("product", &touches).workspace(16, 16);
                // SAFETY: the call touches what it declares.
                unsafe {
                    side.foreign_call(call, move |raw, at| {
                        let workspace = at.workspace.unwrap();
                        driver.fill_async(raw, workspace, 0, 16)?;
                        let [x, y] = [at.touched[0], at.touched[1]];
                        library.launch(raw, &[x, workspace, y], &[N]);
                        Ok(())
                    })
                }
            })
            .unwrap();
        let report = graph.report();
        assert_eq!(report.verdict, Verdict::Safe, "{report}");
        assert!(report.undeclared.is_empty(), "{report}");
        let certificate = graph.certificate().unwrap();
        assert_eq!(report.assumptions.len(), 1, "{report}");
        let line = &report.assumptions[0];
        assert!(
            line.contains("`product` at") && line.contains("2 nodes"),
            "{line}"
        );
        assert!(line.contains("shown.rs:"), "{line}");
        assert_eq!(certificate.about.assumptions, report.assumptions);
    }
}

/// Nothing conflicts with it, so the verdict is safe: the report says what is missing,
/// and the graph keeps the memory that its own node refers to.
#[test]
fn what_is_shown_and_not_declared_is_said_and_kept() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let (driver, to) = (rig.driver.clone(), z.range().start);
    let (graph, ()) = rig
        .device
        .capture::<_, Error>("said", |cap| {
            // SAFETY: the graph keeps what its nodes show.
            unsafe {
                let touches = [writes(&y)];
                cap.origin()
                    .foreign::<_, Error>("library", &touches, None, |raw, at| {
                        driver.fill_async(raw, to, 1, 16).map_err(foreign)?;
                        driver.fill_async(raw, at[0], 2, 16).map_err(foreign)
                    })
            }
        })
        .unwrap();
    let report = graph.report();
    assert_eq!(report.verdict, Verdict::Safe, "{report}");
    let said = report.undeclared.join("\n");
    assert!(
        said.contains("`library`") && said.contains("\"z\""),
        "{said}"
    );
    assert!(
        graph.footprint().writes.contains_byte(to),
        "others take turns with it"
    );
    drop(z);
    rig.device.synchronize().unwrap();
    let stream = rig.device.stream("replay").unwrap();
    graph.replay(&stream).unwrap();
    stream.synchronize().unwrap();
}

/// The call declares "y", and nothing of it shows an address of "y".
#[test]
fn what_is_declared_and_not_shown_is_said() {
    let rig = rig();
    let [y, z] = rig.buffers(["y", "z"]);
    let driver = rig.driver.clone();
    let (graph, ()) = rig
        .device
        .capture::<_, Error>("hidden", |cap| {
            let touches = [writes(&y), writes(&z)];
            // SAFETY: the call touches less than it declares.
            unsafe {
                cap.origin()
                    .foreign::<_, Error>("library", &touches, None, |raw, at| {
                        driver.fill_async(raw, at[1], 2, 16).map_err(foreign)
                    })
            }
        })
        .unwrap();
    let said = graph.report().undeclared.join("\n");
    assert!(said.contains("\"y\"") && !said.contains("\"z\""), "{said}");
}

/// Addresses in a struct, in a planned capture; the one who drops "b" does not pull it
/// from under the graph.
#[test]
fn addresses_in_a_struct_are_kept_and_judged() {
    let rig = rig();
    let twins = vec![twin::<packed>(|block, (p,)| {
        let at = 4 * u64::from(block.index()[0]);
        let value = block.read::<u32>(p.input + at, 1)?[0];
        block.write(p.output + at, &[value])
    })];
    let module = rig.device.load(&ModuleImage::Sim(twins)).unwrap();
    // SAFETY: the twin is of this declaration.
    let packed_kernel = unsafe { module.kernel::<packed>() }.unwrap();
    for options in each_kind() {
        let b = rig.device.persistent_from("b", &[7_u32; LEN]).unwrap();
        let [o] = rig.buffers(["o"]);
        let p = Packed {
            input: b.range().start,
            output: o.range().start,
            len: N,
            pad: 0,
        };
        let (graph, ()) = rig
            .device
            // SAFETY: the graph keeps what the words point to.
            .capture::<_, Error>(options, |cap| unsafe {
                let args = packed { p };
                cap.origin()
                    .launch_unchecked(&packed_kernel, GRID, args, &[])
            })
            .unwrap();
        assert_eq!(assumed(&graph, "2 words").len(), 1, "{}", graph.report());
        drop(b);
        rig.device.synchronize().unwrap();
        let stream = rig.device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(o.download().unwrap(), [7; LEN]);
    }
}

/// A word of an eager run is judged as one of a capture is.
#[test]
fn words_of_an_eager_run_are_judged() {
    let rig = rig();
    let module = ModuleImage::Sim(vec![twin::<raw>(|_, _| Ok(()))]);
    let module = rig.device.load(&module).unwrap();
    // SAFETY: the twin touches nothing.
    let raw_kernel = unsafe { module.kernel::<raw>() }.unwrap();
    let [x, z] = rig.buffers(["x", "z"]);
    let (run, ()) = rig
        .device
        .eager::<_, Error>("words", |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            launch_plus(&main, &rig.kernels, &x, &z)?;
            let args = raw {
                p: z.range().start,
                q: 0,
            };
            // SAFETY: as above.
            unsafe { side.launch_unchecked(&raw_kernel, (1, 1), args, &[]) }?;
            cap.join(&main, side).map(drop)
        })
        .unwrap();
    assert_eq!(run.report().verdict, Verdict::Possible, "{}", run.report());
}

/// What an eager run shows of memory that its record does not name is judged, too.
#[test]
fn unnamed_memory_of_an_eager_run_is_judged() {
    let rig = rig();
    let module = ModuleImage::Sim(vec![twin::<raw>(|_, _| Ok(()))]);
    let module = rig.device.load(&module).unwrap();
    // SAFETY: the twin touches nothing.
    let raw_kernel = unsafe { module.kernel::<raw>() }.unwrap();
    let own = rig.driver.mem_alloc(64).unwrap();
    let run = |p| {
        let ran = rig.device.eager::<_, Error>("words", |cap| {
            // SAFETY: as above.
            unsafe {
                let args = raw { p, q: 0 };
                cap.origin()
                    .launch_unchecked(&raw_kernel, (1, 1), args, &[])
            }
        });
        ran.unwrap().0
    };
    assert_eq!(run(0).report().verdict, Verdict::Safe);
    let run = run(own);
    let report = run.report();
    assert_eq!(report.verdict, Verdict::Possible, "{report}");
    assert_eq!(report.hazards[0].rule, Rule::UnknownMemory, "{report}");
}

/// What no check has seen is the word of whoever launched it, and said with its place.
#[test]
fn unchecked_launches_are_promises() {
    let rig = rig();
    let [x, z] = rig.buffers(["x", "z"]);
    let (graph, ()) = rig
        .device
        .capture::<_, Error>("unchecked", |cap| {
            let main = cap.origin();
            for _ in 0..2 {
                let args = plus {
                    input: &x,
                    output: &z,
                    more: 1,
                    len: 2,
                };
                // SAFETY: two blocks touch the first two elements.
                unsafe { main.launch_unchecked(&rig.kernels.plus, (2, 1), args, &[]) }?;
            }
            Ok(())
        })
        .unwrap();
    let lines = assumed(&graph, "without its check");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("`plus` at") && lines[0].contains("2 nodes"),
        "{lines:?}"
    );
}

/// What was left on a stream that nobody joined has a name, a fill like a kernel.
#[test]
fn an_unjoined_fill_has_a_name() {
    let rig = rig();
    let [z] = rig.buffers(["z"]);
    let captured = rig.device.capture::<_, Error>("unjoined", |cap| {
        let side = cap.fork(&cap.origin(), "side")?;
        side.fill(&z, 1)
    });
    let error = captured.map(drop).unwrap_err().to_string();
    assert!(
        error.contains("`fill` at") && error.contains("shown.rs"),
        "{error}"
    );
}

/// A narrowed range is its author's word, and said with its place.
#[test]
fn narrowed_ranges_are_promises() {
    let rig = rig();
    let [x, z] = rig.buffers(["x", "z"]);
    let (graph, ()) = rig
        .device
        .capture::<_, Error>("narrowed", |cap| {
            for _ in 0..3 {
                // SAFETY: the launch touches the first two elements.
                let output = unsafe { streamweir::narrow(&z, 0..2) }?;
                let (input, more, len) = (&x, 1, 2);
                cap.origin().launch(
                    &rig.kernels.plus,
                    plus {
                        input,
                        output,
                        more,
                        len,
                    },
                )?;
            }
            Ok(())
        })
        .unwrap();
    let lines = assumed(&graph, "ranges");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("`plus` at") && lines[0].contains("3 nodes"),
        "{lines:?}"
    );
}
