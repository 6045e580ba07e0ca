//! Calls of functions of the host.

use std::panic::Location;

use super::Stream;
use crate::capture::lane::Lane;
use crate::capture::recording::What;
use crate::device::{HostFn, HostTouch, Pinned, Recorded, values};
use crate::error::{Error, FeedError, Result};
use crate::kernel::Element;

impl<L: Lane> Stream<L> {
    /// Records a call of a function of the host: at each replay, when the stream comes to
    /// it, `body` gets what is in `input`, and `output` to write to. What comes after on
    /// the stream waits for its return. Accesses of both are in the trace and are proved.
    ///
    /// The function runs on a thread of the driver, calls neither CUDA nor this library
    /// (a device that is asked refuses, or hangs), and should be short. When it panics,
    /// `output` and `input` are poisoned: they are not held, and the graph is not
    /// replayed, before that is over ([`FeedError::Poisoned`](crate::FeedError::Poisoned)).
    ///
    /// ```
    /// # use streamweir_sched as streamweir;
    /// use streamweir::{Device, Error};
    ///
    /// # fn main() -> Result<(), Error> {
    /// # let device = Device::sim(1);
    /// let logits = device.persistent_from("logits", &[0.5_f32, 2.0, 1.0, 0.0])?;
    /// let mut on_host = device.pinned::<f32>("logits on the host", 4)?;
    /// let mut best = device.pinned::<u32>("best", 1)?;
    /// let (graph, ()) = device.capture::<_, Error>("step", |cap| {
    ///     let main = cap.origin();
    ///     main.download(&mut on_host, &logits)?;
    ///     main.host_call("argmax", &on_host, &mut best, |logits, best| {
    ///         let at = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    ///         best[0] = at.unwrap_or_default() as u32;
    ///     })
    /// })?;
    /// graph.replay(&device.stream("replay")?)?;
    /// assert_eq!(best.hold()?[..], [1]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// That nobody else touches the memory meanwhile rests on the proof: a capture with
    /// hazards is refused, [`Verify::Report`](crate::Verify::Report) or not. An eager run
    /// is over before it is judged, so there all forked streams have to be joined.
    ///
    /// # Errors
    /// As [`launch`](Self::launch), for all but the check;
    /// [`FeedError::HostBeside`](crate::FeedError::HostBeside) in an eager run while a
    /// forked stream is out.
    #[track_caller]
    pub fn host_call<I: Element, O: Element>(
        &self,
        name: &str,
        input: &Pinned<I>,
        output: &mut Pinned<O>,
        body: impl Fn(&[I], &mut [O]) + Send + Sync + 'static,
    ) -> Result<()> {
        let line = Location::caller();
        let touches = [HostTouch::reads(input), HostTouch::updates(output)];
        let [from, to] = [&touches[0], &touches[1]].map(|touch| touch.memory.clone());
        let (input, output) = (input.len(), output.len());
        let body = move || {
            // SAFETY: nobody writes the input or touches the output beside the call: in a
            // graph that is proved (R1), and with hazards there is no graph; in an eager
            // run no other stream is out. The host holds neither while a launch is in
            // flight, and a run keeps its owner away.
            let (input, output) =
                unsafe { (&*values::<I>(&from, input), values::<O>(&to, output)) };
            body(input, output);
        };
        self.call_host(name, &touches, Box::new(body), false, line)
    }

    /// Records a call of a function of the host that touches any page-locked memory, or
    /// none. What it touches beside that, such as what it shares with other threads, is
    /// its own business.
    ///
    /// # Errors
    /// As [`host_call`](Self::host_call).
    ///
    /// # Safety
    /// Of memory that graphs and eager runs touch, the function touches what `touches`
    /// say and nothing else.
    #[track_caller]
    pub unsafe fn host_call_unchecked(
        &self,
        name: &str,
        touches: &[HostTouch],
        body: impl Fn() + Send + Sync + 'static,
    ) -> Result<()> {
        self.call_host(name, touches, Box::new(body), true, Location::caller())
    }

    fn call_host(
        &self,
        name: &str,
        touches: &[HostTouch],
        body: Box<dyn Fn() + Send + Sync>,
        vouched: bool,
        line: &'static Location<'static>,
    ) -> Result<()> {
        let open = self.enter()?;
        if !vouched
            && !open.sink.captures()
            && let Some((_, strand)) = open.recorded.strands.unjoined()
        {
            return Err(Error::Feed(FeedError::HostBeside {
                call: name.to_owned(),
                run: self.recorder.name().to_string(),
                stream: strand.name.to_string(),
            }));
        }
        drop(open);
        let mut draft = self.recorder.draft();
        for HostTouch { memory, mode } in touches {
            self.recorder.touch(&mut draft, &memory.place(), *mode)?;
            draft.pinned.push(Recorded::of(memory));
        }
        let touched = touches.iter().map(|touch| touch.memory.clone()).collect();
        let what = What::Host(HostFn::new(name, body, touched, vouched));
        self.recorder
            .perform(self.spot(line), self.generation, |_| what, draft)
    }
}
