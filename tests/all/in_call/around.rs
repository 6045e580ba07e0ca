//! Code of the user that runs beside the calls: while arguments are bound, and when what was
//! kept is dropped.

use super::*;

/// A buffer of somebody else's type, which records when it is looked at.
struct Nosy<'a> {
    stream: &'a Stream,
    below: &'a Persistent<u32>,
}

impl streamweir::Buffer for Nosy<'_> {
    type Item = u32;

    // Not a name of the facade: whoever writes this goes around it.
    fn place(&self) -> streamweir_sched::Place<'_> {
        self.stream.fill(self.below, 1).unwrap();
        self.below.place()
    }
}

impl<L> streamweir::VisibleOn<L> for Nosy<'_> {}

/// Arguments are bound by code that is not ours, before the command is recorded.
#[test]
fn an_argument_may_record_while_it_is_bound() {
    for planned in [false, true] {
        let (device, _) = sim(1);
        let kernels = Kernels::load(&device).unwrap();
        let y = device.persistent::<u32>("y", LEN).unwrap();
        let options = CaptureOptions::new("decode");
        let options = if planned { options.planned() } else { options };
        let (graph, ()) = device
            .capture::<_, Error>(options, |cap| {
                let main = cap.origin();
                let nosy = Nosy {
                    stream: &main,
                    below: &y,
                };
                main.launch(
                    &kernels.bump,
                    bump {
                        data: &nosy,
                        len: N,
                    },
                )
            })
            .unwrap();
        let names: Vec<_> = graph.trace().nodes.iter().map(|node| &*node.name).collect();
        assert_eq!(names, ["fill", "bump"]);
        let stream = device.stream("replay").unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(y.download().unwrap(), [0x0101_0102; LEN]);
    }
}

/// Records when it is dropped.
struct Farewell {
    w: Persistent<u32>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        STREAM.with_borrow(|stream| {
            if let Some(stream) = stream {
                let told = match stream.fill(&self.w, 1) {
                    Ok(()) => "recorded".to_owned(),
                    Err(Error::CaptureEnded { .. }) => "ended".to_owned(),
                    Err(error) => error.to_string(),
                };
                self.told.lock().unwrap().push(told);
            }
        });
    }
}

/// What a call asked to be kept is dropped when nothing is borrowed: a capture that
/// fails is over by then, whatever its sink.
#[test]
fn what_is_kept_may_record_when_it_is_dropped() {
    for sink in [Sink::Live, Sink::Planned, Sink::Eager] {
        let (device, driver) = sim(1);
        let w = device.persistent::<u32>("w", LEN).unwrap();
        let told = Arc::default();
        let farewell = Farewell {
            w: w.clone(),
            told: Arc::clone(&told),
        };
        let record = |cap: &Capture| -> Result<(), Error> {
            let main = cap.origin();
            STREAM.set(Some(main.scope("kept")));
            main.keep(Arc::new(farewell))?;
            main.fill(&w, 2)?;
            // Never joined.
            cap.fork(&main, "side").map(drop)
        };
        let options = CaptureOptions::new("decode");
        let failed = match sink {
            Sink::Live => device.capture(options, record).map(drop),
            Sink::Planned => device.capture(options.planned(), record).map(drop),
            Sink::Attached | Sink::Eager => device.eager(options, record).map(drop),
        };
        assert!(matches!(failed, Err(Error::Unjoined { .. })), "{sink:?}");
        device.synchronize().unwrap();
        assert_eq!(*told.lock().unwrap(), ["ended"], "{sink:?}");
        STREAM.set(None);
        drop((w, device));
        assert_eq!(driver.live(), NOTHING, "{sink:?}");
    }
}
