//! What users build, with the oldest Rust that we promise.
//!
//! `clippy::incompatible_msrv` watches our own code in every run; that the
//! dependencies do with that Rust is shown by a build with it.

use crate::command::{Failure, Outcome};
use crate::toolchain;
use crate::workspace::Workspace;

/// Builds the libraries and the command with the promised toolchain.
pub(crate) fn build(workspace: &Workspace) -> Outcome {
    toolchain::cargo(workspace, promised(workspace)?, "check")
        .args(["--workspace", "--exclude", "xtask", "--locked"])
        .env("CARGO_TARGET_DIR", workspace.target.join("msrv"))
        .run()
}

/// Why [`build`] cannot run.
pub(crate) fn toolchain_missing(workspace: &Workspace) -> Result<(), String> {
    let version = promised(workspace).map_err(|failure| failure.to_string())?;
    toolchain::missing(version)
}

/// The `rust-version` of the facade, which every member inherits.
fn promised(workspace: &Workspace) -> Outcome<&str> {
    workspace
        .members()
        .find(|member| member["name"] == "streamweir")
        .and_then(|facade| facade["rust_version"].as_str())
        .ok_or_else(|| Failure::new("the package streamweir declares no rust-version"))
}
