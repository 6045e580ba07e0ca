//! The steps of `cargo xtask test`, cheapest first.

use crate::command::{Failure, Outcome};
use crate::engine::{self, Engine};
use crate::runner::{Need, Step};
use crate::workspace::Workspace;
use crate::{browser, consumers, msrv, nvrtc, perfetto, semver, toolchain};

/// The packages with a test target `loom`, which is empty in ordinary builds.
const LOOM: &[&str] = &["streamweir-base", "streamweir-alloc", "streamweir-sched"];

/// Crates whose code differs when the feature `cuda` is off.
const WITHOUT_CUDA: &[&str] = &[
    "streamweir",
    "streamweir-hal",
    "streamweir-sched",
    "streamweir-kernels",
];

/// In the order in which they run.
pub(crate) static STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "rustfmt leaves every file as it is",
        need: Need::Nothing,
        run: |workspace| workspace.cargo("fmt").args(["--all", "--check"]).run(),
    },
    Step {
        name: "package",
        about: "every crate that is published packs, with versions for what it needs",
        need: Need::Nothing,
        run: |workspace| {
            workspace
                .cargo("package")
                .args(["--workspace", "--exclude", "xtask", "--locked"])
                .args(["--allow-dirty", "--no-verify"])
                .run()
        },
    },
    Step {
        name: "clippy",
        about: "no warning in any target, with all features",
        need: Need::Nothing,
        run: |workspace| {
            workspace
                .cargo("clippy")
                .args(["--workspace", "--all-targets", "--all-features"])
                .args(["--", "-D", "warnings"])
                .run()?;
            // A target that ordinary tests leave out is one that the above does.
            workspace
                .cargo("clippy")
                .args(["-p", "streamweir-verify", "--test", "browser"])
                .args(["--", "-D", "warnings"])
                .run()
        },
    },
    Step {
        name: "clippy-no-cuda",
        about: "no warning in the libraries without default features",
        need: Need::Nothing,
        run: |workspace| {
            workspace
                .cargo("clippy")
                .args(WITHOUT_CUDA.iter().flat_map(|package| ["-p", package]))
                .args(["--lib", "--no-default-features"])
                .args(["--", "-D", "warnings"])
                .run()
        },
    },
    Step {
        name: "test",
        about: "unit, integration, doc and compile-fail tests",
        need: Need::Nothing,
        run: |workspace| workspace.cargo("test").arg("--workspace").run(),
    },
    Step {
        name: "doc",
        about: "the documentation builds without a warning",
        need: Need::Nothing,
        run: |workspace| {
            workspace
                .cargo("doc")
                .args(["--workspace", "--exclude", "xtask", "--no-deps"])
                .env("RUSTDOCFLAGS", "-D warnings")
                .run()
        },
    },
    Step {
        name: "loom",
        about: "every interleaving of the small concurrent models",
        need: Need::Nothing,
        run: loom,
    },
    Step {
        name: "consumer",
        about: "a crate outside the workspace builds with no CUDA and no nvcc",
        need: Need::Nothing,
        run: |workspace| consumers::build(workspace, "default"),
    },
    Step {
        name: "consumer-no-cuda",
        about: "the same crate without default features",
        need: Need::Nothing,
        run: |workspace| consumers::build(workspace, ""),
    },
    Step {
        name: "consumer-12080",
        about: "the same crate, with cudarc's bindings of CUDA 12.8 chosen by it",
        need: Need::Nothing,
        run: |workspace| consumers::build(workspace, "cuda-12080"),
    },
    Step {
        name: "consumer-13000",
        about: "the same crate, with cudarc's bindings of CUDA 13.0 chosen by it",
        need: Need::Nothing,
        run: |workspace| consumers::build(workspace, "cuda-13000"),
    },
    Step {
        name: "msrv-build",
        about: "the libraries and the command build with the oldest promised Rust",
        need: Need::Tool("the toolchain of rust-version", msrv::toolchain_missing),
        run: msrv::build,
    },
    Step {
        name: "semver",
        about: "no public item went or changed against the baseline",
        need: Need::Tool("cargo-semver-checks", semver::missing),
        run: semver::check,
    },
    Step {
        name: "nvrtc",
        about: "every CUDA kernel compiles",
        need: Need::Tool("NVRTC; `cargo xtask setup nvrtc`", nvrtc::missing),
        run: nvrtc::compile_kernels,
    },
    Step {
        name: "browser",
        about: "a report's page does what it says in a real browser",
        need: Need::Tool("Chromium", browser::missing),
        run: browser::drive,
    },
    Step {
        name: "perfetto",
        about: "Perfetto's own reader finds every bar and every arrow of a trace",
        need: Need::Tool(
            "trace_processor; `cargo xtask setup perfetto`",
            perfetto::missing,
        ),
        run: perfetto::read,
    },
    Step {
        name: "nightly",
        about: "AddressSanitizer over the allocator and the simulated device",
        need: Need::Tool("a nightly toolchain", toolchain::nightly_missing),
        run: toolchain::address_sanitizer,
    },
    Step {
        name: "candle",
        about: "the integration with candle compiles without a warning",
        need: Need::Tool("nvcc; `cargo xtask engine candle`", engine::candle_missing),
        run: |workspace| engine::check(workspace, Engine::Candle),
    },
    Step {
        name: "cubecl",
        about: "the integration with cubecl compiles without a warning",
        need: Need::Tool(
            "its crates; `cargo xtask engine cubecl`",
            engine::cubecl_missing,
        ),
        run: |workspace| engine::check(workspace, Engine::Cubecl),
    },
];

/// Runs the loom binaries in a target directory of their own, because the
/// flags would otherwise rebuild everything twice in turn.
fn loom(workspace: &Workspace) -> Outcome {
    let absent = LOOM
        .iter()
        .find(|package| !workspace.targets(package, "test").contains(&"loom"));
    if let Some(package) = absent {
        return Err(Failure::new(format!("{package} has no test target `loom`")));
    }
    for package in LOOM {
        workspace
            .cargo("test")
            .args(["--release", "-p", package, "--test", "loom"])
            .env("RUSTFLAGS", "--cfg streamweir_loom")
            .env("CARGO_TARGET_DIR", workspace.target.join("loom"))
            .run()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_list() {
        for (i, step) in STEPS.iter().enumerate() {
            assert!(step.name.len() <= 18, "{} overflows its column", step.name);
            assert!(
                STEPS[..i].iter().all(|earlier| earlier.name != step.name),
                "two steps are called {}",
                step.name
            );
        }
    }
}
