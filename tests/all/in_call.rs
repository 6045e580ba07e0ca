//! A library's call that does what it likes with the handles of its own capture,
//! in each way in which a capture can meet the driver.
//!
//! Nothing is borrowed while it runs, so it never panics inside the library; what
//! cannot be done is a typed error; afterwards the device works and nothing is left.

mod around;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use streamweir::driver::sim::SimDriver;
use streamweir::driver::{CaptureCalls, CaptureMode, GraphCalls, MemoryCalls, StreamCalls};
use streamweir::{
    Attached, Capture, CaptureOptions, Device, DeviceStream, Error, ForeignCall, Persistent,
    Scratch, Stream, reads, writes,
};

use crate::common::{Kernels, LEN, N, NOTHING, bump, foreign, sim};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    Live,
    Planned,
    Attached,
    Eager,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    DropScratch,
    TakeScratch,
    RecordHere,
    RecordThere,
    Fork,
    /// Makes another call.
    Nest,
    /// Ends the capture from within.
    End,
    /// Drops the handle of the capture.
    Abandon,
    Panic,
}

const ACTS: [Act; 9] = [
    Act::DropScratch,
    Act::TakeScratch,
    Act::RecordHere,
    Act::RecordThere,
    Act::Fork,
    Act::Nest,
    Act::End,
    Act::Abandon,
    Act::Panic,
];

/// The capture, as far as somebody holds it.
enum Owner<'a> {
    Own(Capture),
    Part(Attached),
    Run(&'a Capture),
}

impl Owner<'_> {
    fn capture(&self) -> &Capture {
        match self {
            Self::Own(capture) => capture,
            Self::Part(attached) => attached,
            Self::Run(capture) => capture,
        }
    }

    fn end(self) -> Result<(), Error> {
        match self {
            Self::Own(capture) => capture.end().map(drop),
            Self::Part(attached) => attached.detach().map(drop),
            Self::Run(_) => Ok(()),
        }
    }
}

type Held<'a> = Rc<RefCell<Option<Owner<'a>>>>;

/// What the call has at hand.
struct Hands<'a> {
    held: Held<'a>,
    main: Stream,
    side: Stream,
    scratch: Scratch<u32>,
    w: Persistent<u32>,
    driver: Arc<SimDriver>,
}

impl Hands<'_> {
    fn act(self, act: Act) -> Result<(), Error> {
        let Self {
            held,
            main,
            side,
            scratch,
            w,
            driver,
        } = self;
        match act {
            Act::DropScratch => drop(scratch),
            Act::TakeScratch => main.scratch::<u32>("taken", LEN).map(drop)?,
            Act::RecordHere => main.fill(&w, 5)?,
            Act::RecordThere => side.fill(&w, 5)?,
            Act::Fork => {
                let held = held.borrow();
                let Some(owner) = &*held else {
                    // Whoever ends a capture has given its handle away.
                    return main.fill(&w, 5);
                };
                let inner = owner.capture().fork(&main, "inner")?;
                inner.fill(&w, 5)?;
                owner.capture().join(&main, inner)?;
            }
            Act::Nest => {
                let touches = [writes(&w)];
                // SAFETY: the call fills the buffer that it declares.
                unsafe {
                    main.foreign("inner", &touches, None, |raw, at| {
                        driver.fill_async(raw, at[0], 5, 16).map_err(foreign)
                    })?;
                }
            }
            Act::End => {
                let owner = held.take();
                return match owner {
                    Some(owner) => owner.end(),
                    None => main.fill(&w, 5),
                };
            }
            Act::Abandon => drop(held.take()),
            Act::Panic => panic!("the library panics"),
        }
        Ok(())
    }
}

struct Bench {
    driver: Arc<SimDriver>,
    device: Device,
    y: Persistent<u32>,
    w: Persistent<u32>,
    kept: Arc<()>,
    options: CaptureOptions,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// What the call was told; none when it panicked or was not made.
    inside: Option<Result<(), Error>>,
    /// What the capture came to; none when the panic came through.
    outside: Option<Result<(), Error>>,
}

impl Bench {
    fn new() -> Self {
        let driver = SimDriver::new(1);
        let device = Device::with_driver(driver.clone());
        Self {
            y: device.persistent("y", LEN).unwrap(),
            w: device.persistent("w", LEN).unwrap(),
            kept: Arc::new(()),
            options: CaptureOptions::new("decode"),
            driver,
            device,
        }
    }

    /// Two streams, and the call on the first.
    fn record(
        &self,
        held: &Held<'_>,
        call: impl FnOnce(&Stream, Stream, Scratch<u32>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let with = |f: &mut dyn FnMut(&Capture) -> Result<(), Error>| {
            held.borrow().as_ref().map_or(Ok(()), |o| f(o.capture()))
        };
        let mut streams = None;
        with(&mut |cap| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            streams = Some((main, side));
            Ok(())
        })?;
        let (main, side) = streams.expect("nobody has ended it yet");
        let scratch = main.scratch::<u32>("dropped inside", LEN)?;
        main.fill(&scratch, 1)?;
        call(&main, side.scope("inside"), scratch)?;
        let mut side = Some(side);
        with(&mut |cap| cap.join(&main, side.take().expect("once")).map(drop))?;
        main.fill(&self.w, 9)
    }

    fn hands<'a>(
        &self,
        held: &Held<'a>,
        main: &Stream,
        side: Stream,
        scratch: Scratch<u32>,
    ) -> Hands<'a> {
        Hands {
            held: held.clone(),
            main: main.scope("inside"),
            side,
            scratch,
            w: self.w.clone(),
            driver: self.driver.clone(),
        }
    }

    /// The call, made at once.
    fn now(
        &self,
        held: &Held<'_>,
        act: Act,
        inside: &RefCell<Option<Result<(), Error>>>,
    ) -> Result<(), Error> {
        self.record(held, |main, side, scratch| {
            let hands = self.hands(held, main, side, scratch);
            let touches = [writes(&self.y)];
            let keep = Some(self.kept.clone() as Arc<_>);
            // SAFETY: the call fills the buffer that it declares, in a capture that
            // goes on.
            unsafe {
                main.foreign("library", &touches, keep, |raw, at| {
                    let fill = |value| {
                        let filled = self.driver.fill_async(raw, at[0], value, 16);
                        filled.map_err(foreign)
                    };
                    fill(1)?;
                    let acted = hands.act(act);
                    let goes_on = !matches!(act, Act::End | Act::Abandon);
                    *inside.borrow_mut() = Some(acted);
                    if goes_on {
                        fill(2)?;
                    }
                    Ok(())
                })
            }
        })
    }

    fn run(&self, sink: Sink, act: Act) -> Outcome {
        let inside = Rc::new(RefCell::new(None));
        let seen = inside.clone();
        let outside = catch_unwind(AssertUnwindSafe(|| match sink {
            Sink::Live => {
                let held: Held = Rc::default();
                *held.borrow_mut() = Some(Owner::Own(self.device.begin(self.options.clone())?));
                self.now(&held, act, &inside)?;
                let owner = held.take();
                owner.map_or(Ok(()), Owner::end)
            }
            Sink::Planned => {
                let held: Held<'static> = Rc::default();
                let capture = self.device.begin(self.options.clone().planned())?;
                *held.borrow_mut() = Some(Owner::Own(capture));
                self.record(&held, |main, side, scratch| {
                    let hands = self.hands(&held, main, side, scratch);
                    let touches = [writes(&self.y)];
                    let call = ForeignCall::new("library", &touches).keep(self.kept.clone());
                    let driver = self.driver.clone();
                    // SAFETY: the call fills the buffer that it declares.
                    unsafe {
                        main.foreign_call(call, move |raw, at| {
                            *inside.borrow_mut() = Some(hands.act(act));
                            Ok(driver.fill_async(raw, at.touched[0], 2, 16)?)
                        })
                    }
                })?;
                let owner = held.take();
                owner.map_or(Ok(()), Owner::end)
            }
            Sink::Attached => {
                let raw = self.driver.stream_create(0).unwrap();
                // SAFETY: the stream is destroyed below, when nobody uses it.
                let stream = unsafe {
                    DeviceStream::from_raw(&self.device, "engine", raw, Arc::new(())).unwrap()
                };
                // SAFETY: the stream is live.
                unsafe { self.driver.capture_begin(raw, CaptureMode::ThreadLocal) }.unwrap();
                let part = catch_unwind(AssertUnwindSafe(|| {
                    let held: Held = Rc::default();
                    let attached = self.device.attach(&stream, self.options.clone())?;
                    *held.borrow_mut() = Some(Owner::Part(attached));
                    self.now(&held, act, &inside)?;
                    let owner = held.take();
                    owner.map_or(Ok(()), Owner::end)
                }));
                // SAFETY: the stream is live, and so is the graph that it makes.
                unsafe {
                    // A stream that was not joined breaks the engine's capture too.
                    let graph = self.driver.capture_end(raw);
                    if let Ok(graph) = graph {
                        assert!(
                            Arc::strong_count(&self.kept) > 1,
                            "{act:?}: the engine may replay what the call has enqueued"
                        );
                        self.driver.graph_destroy(graph).unwrap();
                    }
                    drop(stream);
                    self.device.synchronize().unwrap();
                    self.driver.stream_destroy(raw).unwrap();
                }
                part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Sink::Eager => {
                let run = self.device.eager::<_, Error>(self.options.clone(), |cap| {
                    let held: Held = Rc::new(RefCell::new(Some(Owner::Run(cap))));
                    self.now(&held, act, &inside)
                });
                run.map(drop)
            }
        }));
        Outcome {
            inside: seen.take(),
            outside: outside.ok(),
        }
    }

    /// The device works, and nothing is left when it goes.
    fn check(self, what: &str) {
        let Self {
            driver,
            device,
            y,
            w,
            kept,
            options,
        } = self;
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let side = cap.fork(&main, "side")?;
                side.fill(&w, 7)?;
                cap.join(&main, side)?;
                main.copy(&y, &w)
            })
            .unwrap_or_else(|error| panic!("{what}: the next capture fails: {error}"));
        let stream = device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(y.download().unwrap(), [0x0707_0707; LEN], "{what}");
        drop((graph, stream, y, w));
        device.synchronize().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1, "{what}: the library is kept");
        assert_eq!(device.release_failures(), [], "{what}");
        drop(device);
        assert_eq!(driver.live(), NOTHING, "{what}");
    }
}

fn outcome(sink: Sink, act: Act) -> Outcome {
    let bench = Bench::new();
    let outcome = bench.run(sink, act);
    bench.check(&format!("{sink:?}, {act:?}"));
    outcome
}

#[test]
fn a_call_may_do_anything_with_its_capture() {
    for sink in [Sink::Live, Sink::Attached, Sink::Eager] {
        for act in ACTS {
            let what = format!("{sink:?}, {act:?}");
            let Outcome { inside, outside } = outcome(sink, act);
            match act {
                Act::DropScratch
                | Act::TakeScratch
                | Act::RecordHere
                | Act::RecordThere
                | Act::Fork
                | Act::Nest => {
                    assert!(matches!(inside, Some(Ok(()))), "{what}: {inside:?}");
                    assert!(matches!(outside, Some(Ok(()))), "{what}: {outside:?}");
                }
                // A run ends with its closure, and nobody has a handle to end it by.
                Act::End | Act::Abandon if sink == Sink::Eager => {
                    assert!(matches!(inside, Some(Ok(()))), "{what}: {inside:?}");
                }
                Act::End => {
                    let Some(Err(Error::EndInCall { capture, call })) = inside else {
                        panic!("{what}: {inside:?}");
                    };
                    assert_eq!((&*capture, &*call), ("decode", "library"));
                    let ended = matches!(outside, Some(Err(Error::CaptureEnded { .. })));
                    assert!(ended, "{what}: {outside:?}");
                }
                Act::Abandon => {
                    let ended = matches!(outside, Some(Err(Error::CaptureEnded { .. })));
                    assert!(ended, "{what}: {outside:?}");
                }
                Act::Panic => assert!(outside.is_none(), "{what}: {outside:?}"),
            }
        }
    }
}

/// By the time a planned capture makes its calls, it has ended for everybody else.
#[test]
fn a_call_of_a_planned_capture_finds_it_ended() {
    for act in ACTS {
        let Outcome { inside, outside } = outcome(Sink::Planned, act);
        match act {
            Act::Panic => assert!(outside.is_none(), "{act:?}: {outside:?}"),
            Act::DropScratch | Act::Abandon => {
                assert!(matches!(inside, Some(Ok(()))), "{act:?}: {inside:?}");
                assert!(matches!(outside, Some(Ok(()))), "{act:?}: {outside:?}");
            }
            _ => {
                let ended = matches!(inside, Some(Err(Error::CaptureEnded { .. })));
                assert!(ended, "{act:?}: {inside:?}");
                assert!(matches!(outside, Some(Ok(()))), "{act:?}: {outside:?}");
            }
        }
    }
}

/// A caught panic is a call that failed: nobody knows what it has enqueued.
#[test]
fn a_panic_that_is_caught_breaks_the_capture() {
    let bench = Bench::new();
    let error = bench
        .device
        .capture::<(), Error>("decode", |cap| {
            let main = cap.origin();
            // SAFETY: the call enqueues nothing.
            let call = || unsafe {
                main.foreign::<(), Error>("library", &[reads(&bench.y)], None, |_, _| panic!("it"))
            };
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
            main.fill(&bench.y, 0)
        })
        .map(drop)
        .unwrap_err();
    let Error::Broken { first, .. } = &error else {
        panic!("{error}");
    };
    assert!(
        first.contains("library") && first.contains("panicked"),
        "{first}"
    );
    bench.check("a caught panic");
}

thread_local! {
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
}
