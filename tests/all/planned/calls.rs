//! Calls of libraries in a planned capture: their order, their addresses, their failures.

use super::*;

/// Calls of a library that notes the order in which it is called.
fn calls(engine: &Engine, stateless: bool, placement: Placement) -> Vec<&'static str> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let driver = engine.driver.clone();
    let record = |cap: &Capture| {
        let main = cap.origin();
        let side = cap.fork(&main, "side")?;
        let [a, b] = [side.scratch::<u32>("a", LEN)?, main.scratch("b", LEN)?];
        for (stream, name, buffer) in [(&side, "first", &a), (&main, "second", &b)] {
            let touches = [writes(buffer)];
            let mut call = ForeignCall::new(name, &touches);
            if stateless {
                call = call.stateless();
            }
            let (log, driver) = (log.clone(), driver.clone());
            // SAFETY: the call fills the buffer it declares.
            unsafe {
                stream.foreign_call(call, move |raw, addresses| {
                    log.lock().unwrap().push(name);
                    Ok(driver.fill_async(raw, addresses.touched[0], 1, 16)?)
                })?;
            }
        }
        cap.join(&main, side)?;
        main.launch(
            &engine.kernels.sum,
            sum {
                left: &a,
                right: &b,
                output: &engine.y,
                len: N,
            },
        )
    };
    let options = CaptureOptions::new("calls").placement(placement);
    let graph = engine.capture(options, record).unwrap();
    assert_eq!(engine.replayed(&graph), [0x0202_0202; LEN]);
    log.lock().unwrap().clone()
}

#[test]
fn calls_with_hidden_state_keep_the_record_order() {
    let engine = Engine::new(1);
    for placement in [Placement::Live, Placement::Planned] {
        let order = calls(&engine, false, placement);
        assert_eq!(order, ["first", "second"], "{placement:?}");
    }
    // The side's call waits for its join, where that is allowed.
    let order = calls(&engine, true, Placement::Planned);
    assert_eq!(order, ["second", "first"]);
}

#[test]
fn a_call_that_enqueues_nothing_orders_what_was_ordered() {
    let engine = Engine::new(1);
    let graph = engine
        .capture(planned("idle"), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.copy(&a, &engine.x)?;
            let touches = [reads(&a)];
            // SAFETY: the call does nothing.
            unsafe { main.foreign_call(ForeignCall::new("idle", &touches), |_, _| Ok(()))? };
            let side = cap.fork(&main, "side")?;
            side.launch(&engine.kernels.bump, bump { data: &a, len: N })?;
            cap.join(&main, side)?;
            main.copy(&engine.y, &a)
        })
        .unwrap();
    assert_eq!(graph.trace().nodes.len(), 3);
    // The copy comes before the bump, and what follows comes after both.
    assert_eq!(graph.trace().edges.len(), 3);
    assert_eq!(engine.replayed(&graph), [2, 3, 4, 5]);
}

#[test]
fn what_needs_an_address_before_the_plan_is_a_typed_error() {
    let engine = Engine::new(1);
    let refused = |record: &dyn Fn(&Capture) -> Result<(), Error>, words: &[&str]| {
        let error = engine
            .capture(planned("early"), |cap| record(cap))
            .unwrap_err();
        assert!(matches!(error, Error::Unplannable { .. }), "{error}");
        let text = error.to_string();
        for word in words.iter().chain(&["\"early\""]) {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
    };
    refused(
        &|cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            // What is registered has its address.
            assert_eq!(main.address_of(&engine.x)?, engine.x.range().start);
            main.address_of(&a).map(drop)
        },
        &["\"a\"", "foreign_call"],
    );
    refused(
        &|cap| cap.origin().scratch::<u32>("b", LEN)?.range().map(drop),
        &["\"b\"", "foreign_call"],
    );
    refused(
        &|cap| {
            // SAFETY: the call is not made.
            unsafe {
                cap.origin()
                    .foreign("gemm", &[writes(&engine.y)], None, |_, _| Ok(()))
            }
        },
        &["\"gemm\"", "\"main\"", "foreign_call"],
    );
    // SAFETY: nothing is captured under it.
    let host_order = unsafe { planned("host").host_order_pools() };
    let error = engine.capture(host_order, |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Unplannable { .. }), "{error}");
    let stream = engine.device.stream("engine").unwrap();
    let error = engine
        .device
        .attach(&stream, planned("attached"))
        .unwrap_err();
    assert!(error.to_string().contains("\"engine\""), "{error}");
}

#[test]
fn addresses_are_known_when_the_plan_is_made() {
    let engine = Engine::new(1);
    let ((graph, a), base) = {
        let group = engine.device.replay_group("group", SMALL);
        let options = planned("late").group(&group);
        let captured = engine
            .device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let a = main.scratch::<u32>("a", LEN)?;
                main.fill(&a, 1)?;
                main.copy(&engine.y, &a)?;
                Ok(a)
            })
            .unwrap();
        (captured, group.reserved())
    };
    let buffers = graph.trace().buffers.iter();
    let placed = buffers.filter(|b| b.name == "a").map(|b| b.range).next();
    assert_eq!(Some(a.range().unwrap()), placed);
    assert_eq!(base, 4096, "one segment");
}

#[test]
fn a_call_may_not_record_while_it_is_emitted() {
    let engine = Engine::new(1);
    let error = engine
        .capture(planned("late"), |cap| {
            let main = cap.origin();
            let (again, y) = (cap.origin(), engine.y.clone());
            let touches = [writes(&engine.y)];
            // SAFETY: the call enqueues nothing.
            unsafe {
                main.foreign_call(ForeignCall::new("library", &touches), move |_, _| {
                    Ok(again.fill(&y, 0)?)
                })
            }
        })
        .unwrap_err();
    let Error::Foreign { source, .. } = &error else {
        panic!("{error}")
    };
    let inner = source.downcast_ref::<Error>();
    assert!(matches!(inner, Some(Error::CaptureEnded { .. })), "{error}");
    assert!(error.to_string().contains("\"library\""), "{error}");
}

#[test]
fn a_call_that_fails_or_panics_leaves_all_as_before() {
    let (device, driver) = sim(1);
    let y = device.persistent::<u32>("y", LEN).unwrap();
    let before = live(&driver);
    let spoilt = |enqueue: fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>>| {
        device.capture::<_, Error>(planned("spoilt"), |cap| {
            let main = cap.origin();
            let a = main.scratch::<u32>("a", LEN)?;
            main.fill(&a, 0)?;
            let touches = [writes(&y)];
            // SAFETY: the call enqueues nothing.
            unsafe { main.foreign_call(ForeignCall::new("gemm", &touches), move |_, _| enqueue()) }
        })
    };
    let error = spoilt(|| Err("no algorithm".into())).unwrap_err();
    assert!(error.to_string().ends_with("no algorithm"), "{error}");
    assert!(error.to_string().contains("\"gemm\""), "{error}");
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        spoilt(|| panic!("the library's own")).map(drop)
    }));
    assert!(unwound.is_err());
    device.collect();
    assert_eq!(live(&driver), before);
    device
        .capture::<_, Error>(planned("next"), |cap| cap.origin().fill(&y, 0))
        .unwrap();
}
