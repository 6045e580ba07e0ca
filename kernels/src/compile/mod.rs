//! Run-time compilation of CUDA C++ to cubins, with a cache on disk.
//!
//! A cubin is made for exactly one architecture, so the driver never compiles
//! anything itself and a kernel that does not compile is found here, with the
//! compiler's log. What was compiled once is read from the cache: an entry is
//! found by all that its bytes depend on (source, headers, options,
//! architecture, compiler version), so it never goes stale, and it ends in a
//! digest, so a torn or altered file is compiled again and not loaded.
//!
//! NVRTC is looked up when the first program is compiled; a machine without it
//! gets a [`CompileError::NoCompiler`] that says where it was looked for.

pub mod cache;
mod compiler;
mod doctor;
mod error;
#[cfg(feature = "cuda")]
mod includes;
#[cfg(feature = "cuda")]
mod nvrtc;
pub mod places;

pub use cache::{Cache, CacheError};
pub use compiler::{Compiled, Compiler};
pub use doctor::{Doctor, doctor};
pub use error::CompileError;

use places::Places;

/// CUDA C++ that is compiled as one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name that the compiler's messages give it.
    pub name: String,
    /// The text.
    pub source: String,
    /// Texts that it, or one of them, includes.
    pub headers: Vec<Header>,
    /// Whether it includes headers of the CUDA toolkit, such as `cuda_bf16.h`.
    /// When it does, a machine without them gets [`CompileError::NoHeaders`].
    pub toolkit_headers: bool,
}

/// A text that a program includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name between the quotes of the include.
    pub name: String,
    /// The text.
    pub source: String,
}

/// A compiler, by its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The architecture of a compute capability, as NVRTC names it: `sm_90a` for
/// `(9, 0)`. From 9.0 on it is the one with the architecture's own features,
/// whose code runs on that capability alone.
///
/// ```
/// assert_eq!(streamweir_kernels::compile::architecture((12, 0)), "sm_120a");
/// ```
pub fn architecture((major, minor): (u32, u32)) -> String {
    let features = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{features}")
}

/// The cubin of a program for a compute capability, from the cache or compiled. What can
/// be said beyond that says a [`Compiler`].
///
/// A cache that cannot be read or written costs compile time and nothing else;
/// [`doctor`] says whether it works.
///
/// # Errors
/// When the build has no `cuda` feature, NVRTC or headers are missing, the
/// architecture is not supported, or the program does not compile.
pub fn compile(program: &Program, capability: (u32, u32)) -> Result<Vec<u8>, CompileError> {
    let compiled = Compiler::new(capability).compile(program);
    compiled.map(|compiled| compiled.cubin)
}

/// As [`compile`], with the places and the cache given.
///
/// # Errors
/// As for [`compile`].
pub fn compile_in(
    program: &Program,
    capability: (u32, u32),
    places: &Places,
    cache: Option<&Cache>,
) -> Result<Compiled, CompileError> {
    let compiler = Compiler::new(capability).places(places.clone());
    compiler.cache(cache.cloned()).compile(program)
}
