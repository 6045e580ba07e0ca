//! Everything a GPU host needs to test this tree, as a directory of programs.
//!
//! The host has CUDA and no Rust. The bundle holds the GPU tests, the GPU
//! benches, the examples, the command, the peers that the benches are compared
//! with and `run.sh`, which runs them all and fails when one of them does. Kernels are part of the programs; the host's
//! own NVRTC compiles them.

mod artifacts;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::command::{Failure, Outcome, Run};
use crate::workspace::{BINDINGS_VARIABLE, Workspace};
use artifacts::Artifact;

/// Bundles travel to the GPU host by hand or by CI; this keeps that quick.
const LIMIT_BYTES: u64 = 64_000_000;

/// Benches of the facade that need a GPU begin with this.
const GPU_BENCH_PREFIX: &str = "gpu";

const RUN_SCRIPT: &str = include_str!("run.sh");

/// Which of cudarc's bindings the bundle is built with.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bindings {
    /// Those of our own builds, into dist/gpu
    Pinned,
    /// The newest that cudarc has, into dist/gpu-newest
    Newest,
}

/// Builds the bundle afresh.
pub(crate) fn build(workspace: &Workspace, bindings: Bindings) -> Outcome {
    let (dir, version) = match bindings {
        Bindings::Pinned => ("dist/gpu", std::env::var(BINDINGS_VARIABLE).map_err(|_| {
            Failure::new(format!(
                "{BINDINGS_VARIABLE} is not set; start this through `cargo xtask`, which sets it"
            ))
        })?),
        Bindings::Newest => ("dist/gpu-newest", newest_bindings(workspace)?),
    };
    let out = workspace.root.join(dir);
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| Failure::io("remove", &out, &error))?;
    }
    for artifact in wanted(workspace)? {
        let program = artifacts::compile(workspace, &artifact, &version)?;
        copy(&program, &out.join(artifact.path()))?;
    }
    for peer in peers(workspace)? {
        copy(
            &peer,
            &out.join("peer").join(peer.file_name().unwrap_or_default()),
        )?;
    }
    let script = out.join("run.sh");
    fs::write(&script, RUN_SCRIPT).map_err(|error| Failure::io("write", &script, &error))?;
    make_executable(&script)?;
    let about = out.join("BUILD.txt");
    fs::write(&about, describe(workspace, &version)?)
        .map_err(|error| Failure::io("write", &about, &error))?;
    let bytes = size_of(&out)?;
    println!(
        "{dir}: {:.1} MB, cudarc bindings {version}",
        bytes as f64 / 1e6
    );
    if bytes > LIMIT_BYTES {
        return Err(Failure::new(format!(
            "{dir} has {bytes} bytes, more than the {LIMIT_BYTES} that a bundle may have"
        )));
    }
    Ok(())
}

/// The GPU tests and the command always; benches and examples as they exist.
fn wanted(workspace: &Workspace) -> Outcome<Vec<Artifact>> {
    const FACADE: &str = "streamweir";
    if !workspace.targets(FACADE, "test").contains(&"gpu") {
        return Err(Failure::new(
            "the package streamweir has no test target `gpu`",
        ));
    }
    let mut artifacts = vec![
        Artifact::new("streamweir-cli", "bin", "streamweir"),
        Artifact::new(FACADE, "test", "gpu"),
    ];
    let benches = workspace.targets(FACADE, "bench");
    artifacts.extend(
        benches
            .into_iter()
            .filter(|name| name.starts_with(GPU_BENCH_PREFIX))
            .map(|name| Artifact::new(FACADE, "bench", name)),
    );
    let examples = workspace.targets(FACADE, "example");
    artifacts.extend(
        examples
            .into_iter()
            .map(|name| Artifact::new(FACADE, "example", name)),
    );
    Ok(artifacts)
}

/// The programs that the benches are compared with: Python, for a host that has
/// torch.
fn peers(workspace: &Workspace) -> Outcome<Vec<PathBuf>> {
    let dir = workspace.root.join("benches/peers");
    let mut peers = Vec::new();
    for entry in fs::read_dir(&dir).map_err(|error| Failure::io("list", &dir, &error))? {
        let path = entry
            .map_err(|error| Failure::io("list", &dir, &error))?
            .path();
        if path.extension().is_some_and(|extension| extension == "py") {
            peers.push(path);
        }
    }
    Ok(peers)
}

/// The highest `cuda-*` feature of the cudarc in Cargo.lock. Leaving the
/// variable unset would give the same where there is no nvcc, and the version
/// of nvcc where there is one.
fn newest_bindings(workspace: &Workspace) -> Outcome<String> {
    workspace
        .packages()
        .iter()
        .filter(|package| package["name"] == "cudarc")
        .flat_map(|package| package["features"].as_object().into_iter().flatten())
        .filter_map(|(feature, _)| feature.strip_prefix("cuda-")?.parse::<u32>().ok())
        .max()
        .map(|version| version.to_string())
        .ok_or_else(|| {
            Failure::new("cudarc is not in the dependency graph, or has no cuda-* feature")
        })
}

fn describe(workspace: &Workspace, bindings: &str) -> Outcome<String> {
    let commit = Run::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .current_dir(&workspace.root)
        .stdout()?;
    let rustc = Run::new("rustc").arg("--version").stdout()?;
    Ok(format!(
        "source: {commit}compiler: {rustc}cudarc bindings: {bindings}\n"
    ))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Outcome {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::io("create", parent, &error))?;
    }
    fs::copy(from, to).map_err(|error| Failure::io("copy to", to, &error))?;
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Outcome {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| Failure::io("make executable", path, &error))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Outcome {
    Err(Failure::new("a GPU bundle is built on Linux, for Linux"))
}

fn size_of(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(|error| Failure::io("list", dir, &error))? {
        let entry = entry.map_err(|error| Failure::io("list", dir, &error))?;
        let path = entry.path();
        let metadata = entry
            .metadata()
            .map_err(|error| Failure::io("look at", &path, &error))?;
        bytes += if metadata.is_dir() {
            size_of(&path)?
        } else {
            metadata.len()
        };
    }
    Ok(bytes)
}
