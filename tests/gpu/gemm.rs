//! Matrix products by cuBLASLt: eager, captured and planned runs have the same
//! bits, which are near the reference.

use streamweir::kernels::conformance;
use streamweir::kernels::gemm::{GemmLibrary, GemmOptions, GemmShape};

use super::{Outcome, Test, ensure};

pub(crate) const TESTS: &[Test] = &[
    ("projections_of_a_layer", |device, _| {
        let seed = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
        for shape in [
            GemmShape::new(1, 4096, 1536),
            GemmShape::new(8, 1024, 32_768),
            GemmShape::new(32, 4096, 2048),
            GemmShape::new(33, 72, 40),
            GemmShape::grouped(5, 8, 4096, 1024),
        ] {
            conformance::gemm(device, shape, seed)
                .map_err(|failure| format!("{shape:?}, seed {seed}: {failure}"))?;
        }
        Ok(())
    }),
    (
        "a_workspace_that_is_too_small_is_not_exceeded",
        |device, _| {
            let library = GemmLibrary::new(device)?;
            // Few results of a long sum: what the library likes to split.
            let shape = GemmShape::new(8, 16_384, 64);
            for workspace in [0, 1 << 20] {
                let options = GemmOptions {
                    workspace,
                    ..GemmOptions::default()
                };
                let gemm = library.gemm::<f32>(shape, options)?;
                ensure(gemm.workspace() <= workspace, || {
                    format!("{} bytes of {workspace}", gemm.workspace())
                })?;
            }
            Outcome::Ok(())
        },
    ),
];
