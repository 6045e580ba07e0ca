//! Steps that need another Rust toolchain than the one that runs us.

use crate::command::{Failure, Outcome, Run};
use crate::workspace::Workspace;

const NIGHTLY: &str = "nightly";

/// The crates that handle raw memory and need no GPU for it.
const SANITIZED: &[&str] = &[
    "streamweir-base",
    "streamweir-alloc",
    "streamweir-hal",
    "streamweir-sched",
];
/// Tests of the facade that are about who frees what, and when: drops in any
/// order, on any thread.
const SANITIZED_FACADE: &[&str] = &["drops::", "lifetimes::"];

/// Why the toolchain cannot be used; it is never installed behind anyone's
/// back.
pub(crate) fn missing(toolchain: &str) -> Result<(), String> {
    if Run::new("rustup")
        .args(["run", toolchain, "cargo", "--version"])
        .env("RUSTUP_AUTO_INSTALL", "0")
        .succeeds()
    {
        return Ok(());
    }
    Err(format!(
        "no toolchain {toolchain} (`rustup toolchain install {toolchain} --profile minimal`)"
    ))
}

pub(crate) fn nightly_missing(_: &Workspace) -> Result<(), String> {
    missing(NIGHTLY)
}

/// Cargo of another toolchain in the root of the workspace.
pub(crate) fn cargo(workspace: &Workspace, toolchain: &str, subcommand: &str) -> Run {
    Run::new("rustup")
        .args(["run", toolchain, "cargo", subcommand])
        // Set by the cargo that runs us, and heeded by build scripts and by
        // cargo itself: the other toolchain must find its own.
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(&workspace.root)
}

/// Runs the unit and integration tests under AddressSanitizer.
///
/// `--target` keeps the flags away from build scripts and procedural macros,
/// which the compiler loads into itself.
pub(crate) fn address_sanitizer(workspace: &Workspace) -> Outcome {
    let version = Run::new("rustup")
        .args(["run", NIGHTLY, "rustc", "-vV"])
        .stdout()?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| Failure::new("`rustc -vV` names no host"))?;
    let sanitized = |packages: &[&str]| {
        cargo(workspace, NIGHTLY, "test")
            .args(packages.iter().flat_map(|package| ["-p", package]))
            .args(["--no-default-features", "--target", host])
            .env("RUSTFLAGS", "-Zsanitizer=address")
            .env("CARGO_TARGET_DIR", workspace.target.join("asan"))
    };
    sanitized(SANITIZED).args(["--lib", "--tests"]).run()?;
    sanitized(&["streamweir"])
        .args(["--test", "all", "--"])
        .args(SANITIZED_FACADE)
        .run()
}
