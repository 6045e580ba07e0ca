//! The integrations with engines, which are workspaces of their own: checking
//! them, and building their examples for a GPU host.

mod cuda;
mod stubs;

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::bundle;
use crate::command::{Failure, Outcome, Run};
use crate::workspace::{BINDINGS_VARIABLE, Workspace};

/// What candle's kernels are compiled for: the H200.
const COMPUTE_CAPABILITY: &str = "90";

/// Smaller machine code in the example, which travels: by three fifths.
const NVCC_FLAGS: &str = "--compress-mode=size";

/// An engine that there is an integration with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Engine {
    /// candle: needs nvcc, which comes from wheels
    Candle,
    /// cubecl: needs nothing of CUDA's
    Cubecl,
}

/// What to do with an integration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Its library and its example compile without a warning.
    Check,
    /// Its example is linked, and put into the GPU bundle.
    Build,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Cubecl => "cubecl",
        }
    }

    /// The example that goes to the GPU host, and its name there.
    fn example(self) -> (&'static str, &'static str) {
        match self {
            Self::Candle => ("decode", "candle-decode"),
            Self::Cubecl => ("interop", "cubecl-interop"),
        }
    }

    fn dir(self, workspace: &Workspace) -> PathBuf {
        workspace.root.join("integration").join(self.name())
    }

    /// Cargo in the integration, with what its dependencies look for.
    fn cargo(self, workspace: &Workspace, subcommand: &str) -> Outcome<Run> {
        let bindings = std::env::var(BINDINGS_VARIABLE).map_err(|_| {
            Failure::new(format!(
                "{BINDINGS_VARIABLE} is not set; start this through `cargo xtask`, which sets it"
            ))
        })?;
        let run = workspace
            .cargo_elsewhere(&self.dir(workspace), subcommand)
            .env(BINDINGS_VARIABLE, bindings)
            .env("CARGO_TARGET_DIR", target(workspace, self));
        match self {
            Self::Cubecl => Ok(run),
            Self::Candle => {
                let home = cuda::home(workspace);
                let path = std::env::var_os("PATH").unwrap_or_default();
                let dirs = [home.join("bin")]
                    .into_iter()
                    .chain(std::env::split_paths(&path));
                let path = std::env::join_paths(dirs)
                    .map_err(|error| Failure::new(format!("PATH cannot be extended: {error}")))?;
                Ok(run
                    .env("PATH", path)
                    .env("CUDA_HOME", &home)
                    .env("CUDA_PATH", &home)
                    .env("CUDA_COMPUTE_CAP", COMPUTE_CAPABILITY)
                    .env("NVCC_APPEND_FLAGS", NVCC_FLAGS))
            }
        }
    }
}

/// Why candle cannot be built here; nothing is fetched behind anyone's back.
pub(crate) fn candle_missing(workspace: &Workspace) -> Result<(), String> {
    if cuda::is_set_up(workspace) {
        return Ok(());
    }
    Err("no nvcc below the target directory (`cargo xtask engine candle`)".to_owned())
}

/// Why cubecl is not checked here: two hundred crates are not built unasked.
pub(crate) fn cubecl_missing(workspace: &Workspace) -> Result<(), String> {
    if target(workspace, Engine::Cubecl).is_dir() {
        return Ok(());
    }
    Err("it has not been built below the target directory (`cargo xtask engine cubecl`)".to_owned())
}

/// Sets up what the integration needs, and reaches the goal.
pub(crate) fn run(workspace: &Workspace, engine: Engine, goal: Goal) -> Outcome {
    if engine == Engine::Candle {
        cuda::set_up(workspace)?;
    }
    match goal {
        Goal::Check => check(workspace, engine),
        Goal::Build => build(workspace, engine),
    }
}

/// The library, its documentation and the example compile, formatted and without a
/// warning. In the profile of the build, so that the two compile an engine's
/// kernels once.
pub(crate) fn check(workspace: &Workspace, engine: Engine) -> Outcome {
    engine.cargo(workspace, "fmt")?.arg("--check").run()?;
    engine
        .cargo(workspace, "clippy")?
        .args(["--locked", "--release", "--all-targets"])
        .args(["--", "-D", "warnings"])
        .run()?;
    engine
        .cargo(workspace, "doc")?
        .args(["--locked", "--release", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn build(workspace: &Workspace, engine: Engine) -> Outcome {
    if engine == Engine::Candle {
        stubs::make(
            &engine
                .cargo(workspace, "metadata")?
                .args(["--format-version", "1", "--locked"])
                .stdout()?,
            &cuda::home(workspace),
        )?;
    }
    let (example, name) = engine.example();
    engine
        .cargo(workspace, "build")?
        .args(["--locked", "--release", "--example", example])
        .run()?;
    let program = target(workspace, engine)
        .join("release/examples")
        .join(example);
    let place = workspace.root.join("dist/gpu/engine").join(name);
    bundle::copy(&program, &place)?;
    let bytes = fs::metadata(&place)
        .map_err(|error| Failure::io("look at", &place, &error))?
        .len();
    println!("{}: {:.1} MB", place.display(), bytes as f64 / 1e6);
    Ok(())
}

fn target(workspace: &Workspace, engine: Engine) -> PathBuf {
    workspace.target.join("engine").join(engine.name())
}
