//! A crate that depends on streamweir the way a stranger's crate does.
//!
//! `consumers/outside` is a workspace of its own, and cargo reads its configuration
//! from the folder that it is started in. So it is started outside the repository,
//! where it sees neither our `.cargo/config.toml` nor our workspace: what holds there
//! holds for a dependent. Our Cargo.lock is copied beside its manifest, which keeps
//! the versions that we test.
//!
//! cudarc refuses to compile with the bindings of two CUDA versions at once.
//! Our crates therefore enable none: the version comes from the final binary,
//! or from `nvcc`, or is the newest. Two of the sets of features choose one, as any
//! other user of cudarc in a build may.

use std::fs;

use crate::command::{Failure, Outcome};
use crate::workspace::Workspace;

/// Builds the consumer with these of its features, down to a linked program, and
/// runs it.
pub(crate) fn build(workspace: &Workspace, features: &str) -> Outcome {
    let dir = workspace.root.join("xtask/consumers/outside");
    let (ours, copy) = (workspace.root.join("Cargo.lock"), dir.join("Cargo.lock"));
    fs::copy(&ours, &copy).map_err(|error| Failure::io("copy Cargo.lock to", &copy, &error))?;
    workspace
        .cargo_elsewhere(&std::env::temp_dir(), "run")
        .arg("--manifest-path")
        .arg(dir.join("Cargo.toml"))
        .args(["--no-default-features", "--features", features])
        .env("CARGO_TARGET_DIR", workspace.target.join("consumers"))
        .run()
}
