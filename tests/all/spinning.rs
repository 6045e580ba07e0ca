//! Kernels whose blocks wait for each other (R14), declared in their signature.

use streamweir::driver::ErrorClass;
use streamweir::kernel::{BlockSync, InOut, Kernel};
use streamweir::trace::NodeKind;
use streamweir::verify::{Rule, Verdict};
use streamweir::{
    Capture, CheckedArgs, Device, Dyn, Error, Graph, LoadedKernel, Persistent, Stream, kernel,
};

use crate::common::{Kernels, N, plus};

/// Kernels of the symbol and the parameters of `bump`, with other blocks.
mod spin {
    use super::{InOut, kernel};

    kernel! {
        /// Waits at a barrier over the grid.
        #[blocks(Spin)]
        ///
        /// # Safety
        /// A block touches its own element, and none from `len` on.
        pub(super) unsafe fn bump(data: InOut<u32>, len: u32) {
            data.holds([len])?;
            Ok((len, 1).into())
        }
    }
}

mod cooperative {
    use super::{InOut, kernel};

    kernel! {
        #[allow(dead_code)]
        #[blocks(Cooperative)]
        /// Waits at a barrier over the grid.
        ///
        /// # Safety
        /// A block touches its own element, and none from `len` on.
        pub(super) unsafe fn bump(data: InOut<u32>, len: u32) {
            data.holds([len])?;
            Ok((len, 1).into())
        }
    }
}

struct Rig {
    device: Device,
    kernels: Kernels,
    x: Persistent<u32>,
    y: Persistent<u32>,
    state: Persistent<u32>,
}

impl Rig {
    fn new() -> Self {
        let device = Device::sim(1);
        let buffer = |name| device.persistent_from(name, &[1_u32, 2, 3, 4]).unwrap();
        Self {
            kernels: Kernels::load(&device).unwrap(),
            x: buffer("x"),
            y: buffer("y"),
            state: buffer("state"),
            device,
        }
    }

    /// `K` on one stream; `plus`, of other memory, on another one or behind it.
    fn capture<'a, K, A>(
        &'a self,
        args: impl Fn(&'a Persistent<u32>, u32) -> A,
        beside: bool,
    ) -> Result<Graph, Error>
    where
        K: Kernel,
        A: CheckedArgs<K, Dyn>,
    {
        // SAFETY: either declaration is that of the twin of its symbol.
        let spinning: LoadedKernel<K> = unsafe { self.kernels.module.kernel() }?;
        let plus = |stream: &Stream| {
            let (input, output) = (&self.x, &self.y);
            stream.launch(
                &self.kernels.plus,
                plus {
                    input,
                    output,
                    more: 1,
                    len: N,
                },
            )
        };
        let record = |cap: &Capture| {
            let main = cap.origin();
            let side = cap.fork(&main, "side")?;
            side.launch(&spinning, args(&self.state, N))?;
            if beside {
                plus(&main)?;
            }
            cap.join(&main, side)?;
            plus(&main)
        };
        Ok(self.device.capture::<_, Error>("barrier", record)?.0)
    }
}

fn sync(graph: &Graph) -> BlockSync {
    match &graph.trace().nodes[0].kind {
        NodeKind::Kernel(kernel) => kernel.sync,
        other => panic!("{other:?}"),
    }
}

#[test]
fn beside_another_kernel_it_is_refused() {
    let error = Rig::new()
        .capture(|data, len| spin::bump { data, len }, true)
        .unwrap_err();
    let report = error.report().expect("the capture is refused");
    let rules: Vec<Rule> = report.hazards.iter().map(|h| h.rule).collect();
    assert_eq!(rules, [Rule::CoResidency], "{report}");
    assert_eq!(report.hazards[0].first.name, "bump", "{report}");
}

#[test]
fn alone_it_passes_and_the_trace_says_what_it_is() {
    let graph = Rig::new()
        .capture(|data, len| spin::bump { data, len }, false)
        .unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe);
    assert_eq!(sync(&graph), BlockSync::Spin);
}

/// The driver starts all of its blocks or none, so it may run beside another kernel.
#[test]
fn a_kernel_for_cooperative_launches_is_launched_so() {
    assert_eq!(cooperative::bump::signature().sync, BlockSync::Cooperative);
    let rig = Rig::new();
    for beside in [true, false] {
        let graph = rig
            .capture(|data, len| cooperative::bump { data, len }, beside)
            .unwrap();
        assert_eq!(graph.report().verdict, Verdict::Safe, "{}", graph.report());
        assert_eq!(sync(&graph), BlockSync::Cooperative);
        graph.replay(&rig.device.stream("replay").unwrap()).unwrap();
    }
    assert_eq!(rig.state.download().unwrap(), [3, 4, 5, 6]);
}

/// More blocks than the device holds at once would wait for each other for ever.
#[test]
fn a_cooperative_launch_that_never_fits_is_refused_by_name() {
    let rig = Rig::new();
    let many = rig.device.persistent::<u32>("many", 4096).unwrap();
    // SAFETY: the declaration is that of the twin of its symbol.
    let kernel: LoadedKernel<cooperative::bump> = unsafe { rig.kernels.module.kernel() }.unwrap();
    let record = |cap: &Capture| {
        let args = cooperative::bump {
            data: &many,
            len: 4096,
        };
        cap.origin().launch(&kernel, args)
    };
    let error = rig
        .device
        .capture::<_, Error>("too many", record)
        .unwrap_err();
    assert_eq!(error.driver_class(), Some(ErrorClass::CooperativeTooLarge));
    assert!(error.to_string().contains("`bump`"), "{error}");
}

#[test]
fn blocks_are_independent_unless_declared() {
    let graph = Rig::new()
        .capture(|data, len| crate::common::bump { data, len }, true)
        .unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe);
    assert_eq!(sync(&graph), BlockSync::Independent);
}
