//! Kernels whose blocks wait for each other (R14), declared in their signature.

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

/// Nothing launches it cooperatively here, so the declaration alone is no
/// guarantee.
#[test]
fn a_plain_launch_of_a_kernel_for_cooperative_ones_counts_as_spinning() {
    assert_eq!(cooperative::bump::signature().sync, BlockSync::Cooperative);
    let rig = Rig::new();
    let error = rig
        .capture(|data, len| cooperative::bump { data, len }, true)
        .unwrap_err();
    let report = error.report().expect("the capture is refused");
    assert_eq!(report.hazards[0].rule, Rule::CoResidency, "{report}");
    let graph = rig
        .capture(|data, len| cooperative::bump { data, len }, false)
        .unwrap();
    assert_eq!(sync(&graph), BlockSync::Spin);
}

#[test]
fn blocks_are_independent_unless_declared() {
    let graph = Rig::new()
        .capture(|data, len| crate::common::bump { data, len }, true)
        .unwrap();
    assert_eq!(graph.report().verdict, Verdict::Safe);
    assert_eq!(sync(&graph), BlockSync::Independent);
}
