//! Why a program was not compiled.

use std::path::PathBuf;

use thiserror::Error;

use super::Version;
use super::places::{Attempt, ENV_NVRTC, list};

/// A program was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The crate was built without the feature `cuda`.
    #[error("this build cannot compile CUDA kernels; build with the feature `cuda`")]
    NotBuilt,
    /// There is no NVRTC.
    #[error(
        "no NVRTC found; install the CUDA toolkit 12.8 or newer (or the Python package \
         nvidia-cuda-nvrtc) and point {ENV_NVRTC} at the folder of libnvrtc. Tried:{}",
        list(.0)
    )]
    NoCompiler(Vec<Attempt>),
    /// A library that is there is no usable NVRTC.
    #[error(
        "{} is not usable as NVRTC: {why}; point {ENV_NVRTC} at one of CUDA 12.8 or newer",
        path.display()
    )]
    BadCompiler {
        /// The library.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The program includes CUDA's headers and there are none.
    #[error(
        "{program} includes headers of the CUDA toolkit and none were found; install the \
         toolkit or set CUDA_PATH. Looked for cuda_bf16.h in:{}",
        list(tried)
    )]
    NoHeaders {
        /// The program.
        program: String,
        /// Where they were looked for.
        tried: Vec<Attempt>,
    },
    /// This NVRTC does not know the architecture.
    #[error(
        "NVRTC {version} has no target {architecture}; it has {}. Install a newer CUDA toolkit, \
         or point {ENV_NVRTC} at one",
        supported.iter().map(|a| format!("sm_{a}")).collect::<Vec<_>>().join(", ")
    )]
    Architecture {
        /// The architecture.
        architecture: String,
        /// The compiler.
        version: Version,
        /// What it supports.
        supported: Vec<u32>,
    },
    /// A text or name has a zero byte inside.
    #[error("{program}: {part} contains a zero byte, which C cannot represent")]
    ZeroByte {
        /// The program.
        program: String,
        /// The text or name.
        part: String,
    },
    /// The program has errors.
    #[error("{program} does not compile for {architecture}:\n{log}")]
    Source {
        /// The program.
        program: String,
        /// The architecture.
        architecture: String,
        /// The compiler's log.
        log: String,
    },
    /// NVRTC failed in another way.
    #[error("{program}: {call} failed: {message} (code {code})")]
    Compiler {
        /// The program.
        program: String,
        /// The function of NVRTC.
        call: &'static str,
        /// Its result.
        code: i32,
        /// Its meaning, as NVRTC says it.
        message: String,
    },
}

#[cfg(feature = "cuda")]
impl CompileError {
    /// The same failure of the compiler with its log, if it wrote one.
    pub(super) fn with_log(mut self, log: Option<String>) -> Self {
        if let (Self::Compiler { message, .. }, Some(log)) = (&mut self, log)
            && !log.is_empty()
        {
            *message = format!("{message}: {log}");
        }
        self
    }
}
