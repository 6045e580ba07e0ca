//! The module that holds all kernels, for either backend.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Deref;

use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::driver::{Backend, DeviceInfo, ModuleImage};
use streamweir_sched::kernel::Kernel;
use streamweir_sched::{Device, LoadedKernel, Module};
use thiserror::Error;

use super::cache::ROW;
use super::part::{self, Line, Listed, header};
use super::{attention, cache, compressor, glue, indexer, metadata, query};
use crate::compile::{self, CompileError, Header, Program};
use crate::constants::{self, Constants};
use crate::layout::{LATENT_FP8, PAGE_LAYOUT};
use crate::reference::{FP8, MODEL};
use crate::rope::ROPE;

/// The parts, each a list of kernels.
const PARTS: &[&[Line]] = &[
    glue::KERNELS,
    cache::KERNELS,
    compressor::KERNELS,
    query::KERNELS,
    metadata::KERNELS,
    indexer::KERNELS,
    attention::KERNELS,
    #[cfg(feature = "testing")]
    super::testing::KERNELS,
];

/// What the sources include besides the constants.
const HEADERS: &[part::Header] = &[
    header!("common.cuh"),
    header!("mma.cuh"),
    header!("fp8.cuh", FP8),
    header!("pages.cuh", PAGE_LAYOUT, LATENT_FP8, MODEL),
    header!("rope.cuh", ROPE),
    header!("hadamard.cuh", ROW),
    header!("glue/projection.cuh"),
    header!("cache/row.cuh"),
    header!("indexer/logits.cuh"),
    header!("indexer/selection.cuh"),
    header!("indexer/cluster.cuh"),
    header!("indexer/slice.cuh"),
    header!("attention/attention.cuh"),
    header!("attention/sparse.cuh"),
    header!("attention/entries.cuh"),
    header!("attention/packed.cuh"),
    header!("attention/hopper.cuh"),
    header!("attention/hopper_block.cuh"),
    header!("attention/hopper_prepare.cuh"),
    header!("attention/wgmma.cuh"),
];

fn kernels() -> impl Iterator<Item = &'static Line> {
    PARTS.iter().copied().flatten()
}

/// The name by which a file below `cuda/` is included.
fn name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// No kernels for a device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The kernels do not compile for the device.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device does not load them.
    #[error(transparent)]
    Load(#[from] streamweir_sched::Error),
    /// The device is older than the kernels.
    #[error(
        "the kernels need compute capability {}.{} or newer, for its fp8 conversions; \
         this device has {}.{}",
        LEAST_CAPABILITY.0, LEAST_CAPABILITY.1, .0.0, .0.1
    )]
    Capability((u32, u32)),
    /// The device's backend is neither CUDA nor the simulated device.
    #[error("no kernels for the backend \"{0}\"; there are for \"cuda\" and \"sim\"")]
    Backend(Backend),
}

/// The least compute capability that the kernels are written for: the first with
/// e4m3 conversions.
pub const LEAST_CAPABILITY: (u32, u32) = (8, 9);

/// The program that holds all kernels: one compilation, one module. It needs no
/// header of the CUDA toolkit.
pub fn program() -> Program {
    let files: BTreeMap<&str, &str> = kernels().map(|line| (line.file, line.source)).collect();
    let mut source = String::new();
    for file in files.keys() {
        // Writing to a string does not fail.
        let _ = writeln!(source, "#include \"{}\"", name(file));
    }
    let headers = HEADERS.iter().map(|header| (header.file, header.source));
    Program {
        name: "dsv4.cu".into(),
        source,
        headers: files
            .into_iter()
            .chain(headers)
            .map(|(file, source)| Header {
                name: name(file).into(),
                source: source.into(),
            })
            .chain([Header {
                name: constants::FILE.into(),
                source: constants::header(shared().copied()),
            }])
            .collect(),
        toolkit_headers: false,
    }
}

/// What all sources share with the host's side.
fn shared() -> impl Iterator<Item = &'static Constants> {
    let of_kernels = kernels().flat_map(|line| line.constants);
    of_kernels.chain(HEADERS.iter().flat_map(|header| header.constants))
}

/// The CPU twins of all kernels.
pub fn twins() -> Vec<SimKernel> {
    kernels().map(|line| (line.twin)()).collect()
}

/// The kernels for a device, compiled: their code is what their declarations say, so
/// that none has to be vouched for.
#[derive(Clone, Debug)]
pub struct Image(ModuleImage);

/// The kernels for a device: the twins for the simulated one, a cubin compiled or taken
/// from the cache for CUDA.
///
/// # Errors
/// For a CUDA device when the kernels cannot be compiled; see [`CompileError`].
/// For any other backend.
pub fn image(info: &DeviceInfo) -> Result<Image, ImageError> {
    match info.backend {
        Backend::Sim => Ok(Image(ModuleImage::Sim(twins()))),
        Backend::Cuda if info.capability < LEAST_CAPABILITY => {
            Err(ImageError::Capability(info.capability))
        }
        Backend::Cuda => Ok(Image(ModuleImage::Cuda(compile::compile(
            &program(),
            info.capability,
        )?))),
        other => Err(ImageError::Backend(other)),
    }
}

/// The kernels, compiled for a device and loaded.
///
/// # Errors
/// As for [`image`] and [`Image::load`].
pub fn load(device: &Device) -> Result<Code, ImageError> {
    Ok(image(device.info())?.load(device)?)
}

impl Image {
    /// Loads the kernels.
    ///
    /// # Errors
    /// When the device does not load them, or inside a capture.
    pub fn load(&self, device: &Device) -> streamweir_sched::Result<Code> {
        Ok(Code(device.load(&self.0)?))
    }
}

impl Deref for Image {
    type Target = ModuleImage;

    fn deref(&self) -> &ModuleImage {
        &self.0
    }
}

/// A kernel of [`image`].
pub trait Shipped: Kernel + Listed {}

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct Code(Module);

impl Code {
    /// The kernel declared as `K`.
    ///
    /// # Errors
    /// Inside a capture.
    pub fn kernel<K: Shipped>(&self) -> streamweir_sched::Result<LoadedKernel<K>> {
        // SAFETY: the image is compiled from the sources of these declarations, or has
        // the twins that stand beside them.
        unsafe { self.0.kernel() }
    }

    /// The module that they are in.
    pub const fn module(&self) -> &Module {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Value;

    /// Source text without its comments and strings.
    fn code(source: &str) -> String {
        source
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join("\"\""))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Where a source writes again what it has from the host: a name of a shared
    /// constant that is given a number, or a number where one is launched by.
    fn restated(source: &str, shared: &[Constants]) -> Vec<String> {
        let names: Vec<&str> = shared
            .iter()
            .flat_map(|constants| constants.values)
            .map(|&(name, _)| name)
            .collect();
        let is_number = |text: &str| text.trim_start().starts_with(|c: char| c.is_ascii_digit());
        let mut found = Vec::new();
        for line in code(source).lines() {
            let defined = line.split_once("constexpr").and_then(|(_, rest)| {
                let (left, value) = rest.split_once('=')?;
                Some((left.split_whitespace().next_back()?.to_owned(), value))
            });
            let macros = line.trim().strip_prefix("#define ").and_then(|rest| {
                let (name, value) = rest.split_once(' ')?;
                Some((name.to_owned(), value))
            });
            for (name, value) in defined.into_iter().chain(macros) {
                if names.contains(&name.as_str()) && is_number(value) {
                    found.push(line.trim().to_owned());
                }
            }
            for bound in ["__launch_bounds__(", "__cluster_dims__(", "ACROSS_CLUSTER("] {
                if line.split(bound).skip(1).any(is_number) {
                    found.push(line.trim().to_owned());
                }
            }
        }
        found
    }

    /// Numbers that a source writes out although the host has a name for them. Small
    /// ones mean too much else.
    fn large(source: &str, shared: &[Constants]) -> Vec<String> {
        let values: Vec<String> = shared
            .iter()
            .flat_map(|constants| constants.values)
            .filter_map(|&(_, value)| match value {
                Value::U32(value) if value > 128 => Some(value.to_string()),
                _ => None,
            })
            .collect();
        code(source)
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map(|word| word.trim_end_matches('u'))
            .filter(|word| values.iter().any(|value| value == word))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn no_source_writes_a_shared_constant_again() {
        let shared: Vec<Constants> = shared().copied().collect();
        let sources = kernels()
            .map(|line| (line.file, line.source))
            .chain(HEADERS.iter().map(|header| (header.file, header.source)));
        for (file, source) in sources {
            let found = restated(source, &shared);
            assert!(found.is_empty(), "{file} writes again: {found:#?}");
            let found = large(source, &shared);
            assert!(found.is_empty(), "{file} writes the numbers {found:?}");
        }
    }

    #[test]
    fn a_constant_that_is_written_again_is_seen() {
        let shared: Vec<Constants> = shared().copied().collect();
        let finds = |line: &str| !restated(line, &shared).is_empty();
        assert!(finds("constexpr u32 MAX_K = 1024;"));
        assert!(finds("    static constexpr u32 NOPE = 448;"));
        assert!(finds("#define TILE 32"));
        assert!(finds(
            "extern \"C\" __global__ void __launch_bounds__(256) f("
        ));
        assert!(finds("__cluster_dims__(4, 1, 1)"));
        assert!(!finds("constexpr u32 NOPE = latent_fp8::NOPE;"));
        assert!(!finds("// constexpr u32 MAX_K = 1024;"));
        assert!(!finds("__launch_bounds__(selection::THREADS, 2)"));
        assert_eq!(large("sum += 8192u; // 512", &shared), ["8192"]);
    }

    #[test]
    fn the_header_has_every_value_as_the_host_has_it() {
        let header = constants::header(shared().copied());
        for line in [
            "namespace selection {\nconstexpr unsigned int MAX_K = 1024u;",
            "constexpr float LEAST_ABSMAX = 0.0001f;",
            "constexpr float LARGEST = 448.0f;",
            "constexpr unsigned int SHARED_BYTES = 204896u;",
        ] {
            assert!(header.contains(line), "{header}");
        }
        let namespaces = header.matches("\nnamespace ").count();
        let named: std::collections::BTreeSet<_> =
            shared().map(|constants| constants.namespace).collect();
        assert_eq!(namespaces, named.len(), "each namespace once");
    }
}
