//! NVRTC, the run-time compiler of CUDA: finding it, and fetching it for a
//! machine that has no CUDA. It compiles without a GPU.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Failure, Outcome, pip_install};
use crate::workspace::Workspace;

/// The wheels of CUDA 13.0: the compiler, and the headers that kernels include.
const WHEELS: &[&str] = &["nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-runtime==13.0.96"];

/// Names the directory of libnvrtc; the kernels crate reads it too.
const VARIABLE: &str = "STREAMWEIR_NVRTC";

/// Turns an absent NVRTC in the kernels' tests into a failure.
const REQUIRE_VARIABLE: &str = "STREAMWEIR_REQUIRE_NVRTC";

/// Written last, so that an install that was cut off does not count.
const STAMP: &str = "wheels.txt";

/// Why the kernels cannot be compiled here.
pub(crate) fn missing(workspace: &Workspace) -> Result<(), String> {
    find(workspace).map(|_| ())
}

/// Compiles every kernel, with NVRTC required.
///
/// `--workspace`, though one crate has the test: with the features of the whole
/// workspace, what the step `test` built is used again.
pub(crate) fn compile_kernels(workspace: &Workspace) -> Outcome {
    let dir = find(workspace).map_err(Failure::new)?;
    workspace
        .cargo("test")
        .args(["--workspace", "--test", "nvrtc"])
        .env(VARIABLE, dir)
        .env(REQUIRE_VARIABLE, "1")
        .run()
}

/// Installs the wheels below the target directory, unless they are there.
pub(crate) fn set_up(workspace: &Workspace) -> Outcome {
    let home = wheels_home(workspace);
    let stamp = home.join(STAMP);
    let pins = format!("{}\n", WHEELS.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|found| found == pins) {
        println!("{} is up to date", home.display());
        return Ok(());
    }
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|error| Failure::io("remove", &home, &error))?;
    }
    pip_install(&home, WHEELS)?;
    let library = wheels_library(&home);
    if !holds_nvrtc(&library) {
        return Err(Failure::new(format!(
            "pip succeeded, but {} holds no libnvrtc",
            library.display()
        )));
    }
    fs::write(&stamp, pins).map_err(|error| Failure::io("write", &stamp, &error))?;
    println!("NVRTC is in {}", library.display());
    Ok(())
}

/// The directory of libnvrtc: where the variable says, else our own wheels,
/// else an installed CUDA.
fn find(workspace: &Workspace) -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os(VARIABLE).map(PathBuf::from) {
        // Named on purpose: looking elsewhere would test something else.
        return if holds_nvrtc(&dir) {
            Ok(dir)
        } else {
            Err(format!(
                "{VARIABLE} is {}, which holds no libnvrtc",
                dir.display()
            ))
        };
    }
    let mut places = vec![wheels_library(&wheels_home(workspace))];
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        places.extend(std::env::var_os(variable).map(|root| PathBuf::from(root).join("lib64")));
    }
    places.push(PathBuf::from("/usr/local/cuda/lib64"));
    match places.iter().find(|dir| holds_nvrtc(dir)) {
        Some(dir) => Ok(dir.clone()),
        None => {
            let looked: Vec<_> = places.iter().map(|dir| dir.display().to_string()).collect();
            Err(format!(
                "no libnvrtc in {} (`cargo xtask setup nvrtc`)",
                looked.join(", ")
            ))
        }
    }
}

fn wheels_home(workspace: &Workspace) -> PathBuf {
    workspace.target.join("nvrtc")
}

fn wheels_library(home: &Path) -> PathBuf {
    home.join("nvidia/cu13/lib")
}

fn holds_nvrtc(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|entries| {
        entries.filter_map(Result::ok).any(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("libnvrtc.so")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_told_from_its_builtins() {
        let dir = std::env::temp_dir().join(format!("streamweir-nvrtc-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory");
        fs::write(dir.join("libnvrtc-builtins.so.13.0"), "").expect("a file");
        assert!(!holds_nvrtc(&dir));
        fs::write(dir.join("libnvrtc.so.13"), "").expect("a file");
        assert!(holds_nvrtc(&dir));
        fs::remove_dir_all(&dir).expect("our own directory");
        assert!(!holds_nvrtc(&dir));
    }
}
