//! The kernels of the mini engine compile for a GPU. Needs NVRTC and no GPU;
//! `cargo xtask test --only nvrtc` finds or fetches one.

use streamweir::kernels::compile::places::Places;
use streamweir::kernels::compile::{CompileError, compile_in};

#[path = "../examples/engine/main.rs"]
#[allow(dead_code)]
mod mini;

/// For each architecture that is spoken of, where there is a compiler;
/// `STREAMWEIR_REQUIRE_NVRTC=1` makes its absence a failure.
#[test]
fn the_kernels_for_a_gpu_compile() {
    let required = std::env::var_os("STREAMWEIR_REQUIRE_NVRTC").is_some_and(|one| one == "1");
    for capability in [(8, 9), (9, 0), (10, 0), (12, 0)] {
        let program = mini::kernels::program();
        match compile_in(&program, capability, &Places::from_env(), None) {
            Ok(compiled) => assert!(!compiled.cubin.is_empty()),
            Err(CompileError::NoCompiler { .. } | CompileError::NotBuilt) if !required => return,
            Err(error) => panic!("{capability:?}: {error}"),
        }
    }
}
