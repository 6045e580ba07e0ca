//! Crates that depend on streamweir the way a stranger's crate does.
//!
//! `consumers/outside` is copied out of the repository before it is built, so
//! that cargo sees neither our `.cargo/config.toml` nor our workspace: what
//! holds there holds for a dependent. Cargo.lock goes along, which keeps the
//! versions that we test.
//!
//! cudarc refuses to compile with the bindings of two CUDA versions at once.
//! Our crates therefore enable none: the version comes from the final binary,
//! or from `nvcc`, or is the newest. Two of the consumers choose one, as any
//! other user of cudarc in a build may.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use crate::command::{Failure, Outcome};
use crate::workspace::Workspace;

/// One way to depend on streamweir.
#[derive(Clone, Copy)]
pub(crate) enum Consumer {
    /// `streamweir = "0.1"` and nothing else.
    Default,
    /// `default-features = false`.
    NoCuda,
    /// Together with `cudarc/cuda-12080`.
    Cuda12080,
    /// Together with `cudarc/cuda-13000`.
    Cuda13000,
}

impl Consumer {
    /// The features of `consumers/outside` that make it this consumer.
    fn features(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::NoCuda => "",
            Self::Cuda12080 => "cuda-12080",
            Self::Cuda13000 => "cuda-13000",
        }
    }
}

/// Builds the consumer, down to a linked program, and runs it.
pub(crate) fn build(workspace: &Workspace, consumer: Consumer) -> Outcome {
    let copy = Copy::of(workspace)?;
    workspace
        .cargo_elsewhere(&copy.dir, "run")
        .args(["--no-default-features", "--features", consumer.features()])
        .env("CARGO_TARGET_DIR", workspace.target.join("consumers"))
        .run()?;
    // After a failure the copy stays, so that the printed line can be repeated.
    copy.clear()
}

/// The consumer in a temporary directory.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    fn of(workspace: &Workspace) -> Outcome<Self> {
        let from = workspace.root.join("xtask/consumers/outside");
        // One place for each clone: a later run finds its artifacts fresh,
        // and two clones keep out of each other's way.
        let mut clone = DefaultHasher::new();
        workspace.root.hash(&mut clone);
        let name = format!("streamweir-consumer-{:016x}", clone.finish());
        let copy = Self {
            dir: std::env::temp_dir().join(name),
        };
        copy.clear()?;
        make_dir(&copy.dir.join("src"))?;
        let manifest = read(&from.join("Cargo.toml"))?;
        let root = workspace.root.to_string_lossy();
        write(
            &copy.dir.join("Cargo.toml"),
            &with_workspace_at(&manifest, &root)?,
        )?;
        write(
            &copy.dir.join("src/main.rs"),
            &read(&from.join("src/main.rs"))?,
        )?;
        write(
            &copy.dir.join("Cargo.lock"),
            &read(&workspace.root.join("Cargo.lock"))?,
        )?;
        Ok(copy)
    }

    fn clear(&self) -> Outcome {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::io("remove", &self.dir, &error))
            }
            _ => Ok(()),
        }
    }
}

/// The manifest with its relative path to the workspace made absolute.
fn with_workspace_at(manifest: &str, root: &str) -> Outcome<String> {
    const RELATIVE: &str = r#"path = "../../..""#;
    if !manifest.contains(RELATIVE) {
        return Err(Failure::new(format!(
            "the consumer's manifest does not say {RELATIVE}, so its copy would not find the workspace"
        )));
    }
    // A TOML literal string takes every path as it is written.
    Ok(manifest.replace(RELATIVE, &format!("path = '{root}'")))
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| Failure::io("write", path, &error))
}

fn make_dir(path: &Path) -> Outcome {
    fs::create_dir_all(path).map_err(|error| Failure::io("create", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_points_back_to_the_workspace() {
        let manifest = "[dependencies]\nstreamweir = { path = \"../../..\" }\n";
        assert_eq!(
            with_workspace_at(manifest, "/some where/streamweir").expect("has the path"),
            "[dependencies]\nstreamweir = { path = '/some where/streamweir' }\n"
        );
    }

    #[test]
    fn a_manifest_that_would_leave_the_workspace_behind_is_refused() {
        let failure = with_workspace_at("[dependencies]\n", "/w").expect_err("no path");
        assert!(
            failure.to_string().contains("would not find the workspace"),
            "{failure}"
        );
    }
}
