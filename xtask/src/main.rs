//! The tasks of this workspace, as one program with no tool to install.
//!
//! `cargo xtask test` is the one test command. It needs stable Rust and a C
//! linker; a step that needs more runs where its tool is found and is named at
//! the end where it is not, with the reason. `--require` turns such a reason
//! into a failure.
//!
//! Exit codes: 0, 1 for a failed task, 64 for a wrong command line.

mod browser;
mod bundle;
mod command;
mod consumers;
mod engine;
mod msrv;
mod nvrtc;
mod perfetto;
mod runner;
mod semver;
mod steps;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::workspace::Workspace;

const EXIT_USAGE: u8 = 64;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the streamweir workspace")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and test that this machine can run
    Test {
        /// Optional steps that must run, such as `nvrtc,nightly`
        #[arg(long, value_delimiter = ',', value_name = "STEP")]
        require: Vec<String>,
        /// Run these steps alone; each then counts as required
        #[arg(long, value_delimiter = ',', value_name = "STEP")]
        only: Vec<String>,
        /// Print the steps and what each needs, and run nothing
        #[arg(long)]
        list: bool,
    },
    /// Put a tool that an optional step needs below the target directory
    Setup {
        /// The tool
        tool: Tool,
    },
    /// Check the integration with an engine, or build its example for a GPU host
    Engine {
        /// The engine
        engine: engine::Engine,
        /// Link the example, into dist/gpu/engine
        #[arg(long)]
        build: bool,
    },
    /// Build tests, benches, examples and the command for a GPU host without Rust
    GpuBundle {
        /// Which cudarc bindings to build with
        #[arg(long, default_value = "pinned")]
        bindings: bundle::Bindings,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Tool {
    /// NVRTC and the CUDA headers, from pinned wheels
    Nvrtc,
    /// Perfetto's trace_processor, through its package
    Perfetto,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help to stdout and mistakes to stderr. A closed
            // pipe leaves nobody to tell.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(cli.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Usage(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::from(EXIT_USAGE)
        }
        Err(Stop::Failed(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
        Err(Stop::Reported) => ExitCode::FAILURE,
    }
}

/// Why the program ends without success.
enum Stop {
    Usage(String),
    Failed(String),
    /// Everything has been said already.
    Reported,
}

impl From<command::Failure> for Stop {
    fn from(failure: command::Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

fn run(task: Task) -> Result<(), Stop> {
    match task {
        Task::Test {
            require,
            only,
            list,
        } => {
            let selection =
                runner::Selection::new(steps::STEPS, &require, &only).map_err(Stop::Usage)?;
            if list {
                selection.print();
                return Ok(());
            }
            selection
                .run(&Workspace::find()?)
                .map_err(|_| Stop::Reported)
        }
        Task::Setup { tool: Tool::Nvrtc } => Ok(nvrtc::set_up(&Workspace::find()?)?),
        Task::Setup {
            tool: Tool::Perfetto,
        } => Ok(perfetto::set_up(&Workspace::find()?)?),
        Task::Engine { engine, build } => {
            let goal = if build {
                engine::Goal::Build
            } else {
                engine::Goal::Check
            };
            Ok(engine::run(&Workspace::find()?, engine, goal)?)
        }
        Task::GpuBundle { bindings } => Ok(bundle::build(&Workspace::find()?, bindings)?),
    }
}
