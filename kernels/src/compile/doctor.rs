//! What the compiler finds on this machine.

use std::fmt;
use std::path::PathBuf;

use super::cache::Cache;
use super::places::{Attempt, Places};
use super::{CompileError, Version};

/// What was found, and where it was looked for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Doctor {
    /// NVRTC's library and version.
    pub nvrtc: Result<(PathBuf, Version), CompileError>,
    /// The toolkit's include folder, or where it was looked for. The kernels of
    /// this crate need none.
    pub headers: Result<PathBuf, Vec<Attempt>>,
    /// The folder of the cache, if there is one.
    pub cache: Option<PathBuf>,
}

/// Looks for NVRTC, headers and cache as [`compile`](super::compile()) does.
pub fn doctor() -> Doctor {
    let places = Places::from_env();
    #[cfg(feature = "cuda")]
    let nvrtc =
        super::nvrtc::Nvrtc::load(&places).map(|nvrtc| (nvrtc.path().to_owned(), nvrtc.version()));
    #[cfg(not(feature = "cuda"))]
    let nvrtc: Result<(PathBuf, Version), _> = Err(CompileError::NotBuilt);
    let library = nvrtc
        .as_ref()
        .map(|(path, _)| path.clone())
        .unwrap_or_default();
    Doctor {
        headers: places.headers(&library),
        nvrtc,
        cache: Cache::from_env().map(|cache| cache.folder().to_owned()),
    }
}

impl fmt::Display for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.nvrtc {
            Ok((path, version)) => writeln!(f, "NVRTC {version}: {}", path.display())?,
            Err(error) => writeln!(f, "NVRTC: {error}")?,
        }
        match &self.headers {
            Ok(path) => writeln!(f, "headers: {}", path.display())?,
            Err(tried) => {
                write!(f, "headers: none (the kernels need none); looked in:")?;
                writeln!(f, "{}", super::places::list(tried))?;
            }
        }
        match &self.cache {
            Some(folder) => write!(f, "cubin cache: {}", folder.display()),
            None => write!(
                f,
                "cubin cache: none; set {} to a folder",
                super::cache::ENV_CACHE
            ),
        }
    }
}
