//! Where NVRTC and the toolkit's headers are looked for.
//!
//! `STREAMWEIR_NVRTC`, when set, is the only place for the library: a machine
//! with several toolkits must be able to say which one, and a wrong path must
//! not fall back in silence.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable that names the folder of NVRTC, the library itself, or a
/// Python `site-packages` folder that holds it.
pub const ENV_NVRTC: &str = "STREAMWEIR_NVRTC";

/// The library's names, newest first. The bare name is the developer's link to
/// the toolkit's default version.
const LIBRARY_NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// Folders of a Python `site-packages` that hold the library.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// The header whose presence marks an include folder of the toolkit.
const MARK: &str = "cuda_bf16.h";

/// A place that was tried, and why it did not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The place.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// Attempts as lines below an error.
pub(super) fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(|a| format!("\n  {a}")).collect()
}

/// Where to look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Places {
    /// The one place for the library, if the user named it.
    pub nvrtc: Option<PathBuf>,
    /// Roots of toolkits, in order.
    pub toolkits: Vec<PathBuf>,
    /// Whether the loader's own search path is tried last.
    pub loader: bool,
}

impl Places {
    /// The places of this process: `STREAMWEIR_NVRTC`; else `CUDA_PATH`,
    /// `CUDA_HOME`, `/usr/local/cuda`, the loader's search path.
    pub fn from_env() -> Self {
        let set = |name| {
            env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        Self {
            nvrtc: set(ENV_NVRTC),
            toolkits: ["CUDA_PATH", "CUDA_HOME"]
                .into_iter()
                .filter_map(set)
                .chain([PathBuf::from("/usr/local/cuda")])
                .collect(),
            loader: true,
        }
    }

    /// Files that may be the library, in the order in which they are tried. A
    /// name without a folder is left to the loader.
    pub fn libraries(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if let Some(named) = &self.nvrtc {
            if named.is_file() {
                return vec![named.clone()];
            }
            let folders = WHEEL_FOLDERS.iter().map(|f| named.join(f));
            for folder in [named.clone()].into_iter().chain(folders) {
                found.extend(LIBRARY_NAMES.map(|name| folder.join(name)));
            }
            return found;
        }
        for toolkit in &self.toolkits {
            for folder in ["lib64", "lib"] {
                found.extend(LIBRARY_NAMES.map(|name| toolkit.join(folder).join(name)));
            }
        }
        if self.loader {
            found.extend(LIBRARY_NAMES.map(PathBuf::from));
        }
        found
    }

    /// The toolkit's include folder: next to the library, so that both are of
    /// one version, else in a toolkit.
    ///
    /// # Errors
    /// The places tried, when no folder holds `cuda_bf16.h`.
    pub fn headers(&self, library: &Path) -> Result<PathBuf, Vec<Attempt>> {
        let beside = library
            .parent()
            .and_then(Path::parent)
            // A bare library name was found by the loader, who knows where.
            .filter(|root| !root.as_os_str().is_empty())
            .map(|root| {
                // The packages of CUDA 12 keep each library in a folder of its own.
                [root.join("include"), root.join("../cuda_runtime/include")]
            });
        let candidates = beside
            .into_iter()
            .flatten()
            .chain(self.toolkits.iter().map(|root| root.join("include")));
        let mut tried = Vec::new();
        for folder in candidates {
            if folder.join(MARK).is_file() {
                return Ok(folder);
            }
            tried.push(Attempt {
                why: format!("no {MARK}"),
                path: folder,
            });
        }
        Err(tried)
    }
}
