//! nvcc for candle's kernels, from pinned wheels below the target directory.

use std::fs;
use std::path::PathBuf;

use crate::command::{Failure, Outcome, pip_install};
use crate::workspace::Workspace;

/// The compiler, its parts, and the headers of the runtime and of CCCL, which
/// the kernels include.
const WHEELS: &[&str] = &[
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
];

/// Written last, so that an install that was cut off does not count.
const STAMP: &str = "wheels.txt";

/// What candle and cudarc call `CUDA_HOME`.
pub(super) fn home(workspace: &Workspace) -> PathBuf {
    wheels(workspace).join("nvidia/cu13")
}

/// Whether the pinned wheels are there.
pub(super) fn is_set_up(workspace: &Workspace) -> bool {
    fs::read_to_string(wheels(workspace).join(STAMP)).is_ok_and(|found| found == pins())
}

/// Installs the wheels, unless they are there.
pub(super) fn set_up(workspace: &Workspace) -> Outcome {
    if is_set_up(workspace) {
        return Ok(());
    }
    let wheels = wheels(workspace);
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| Failure::io("remove", &wheels, &error))?;
    }
    pip_install(&wheels, WHEELS)?;
    let nvcc = home(workspace).join("bin/nvcc");
    if !nvcc.is_file() {
        return Err(Failure::new(format!(
            "pip succeeded, but there is no {}",
            nvcc.display()
        )));
    }
    let stamp = wheels.join(STAMP);
    fs::write(&stamp, pins()).map_err(|error| Failure::io("write", &stamp, &error))
}

fn wheels(workspace: &Workspace) -> PathBuf {
    workspace.target.join("engine/nvcc")
}

fn pins() -> String {
    format!("{}\n", WHEELS.join("\n"))
}
