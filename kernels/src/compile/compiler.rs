//! How a program is compiled: for which architecture, with which options, and what is
//! asked of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::places::Places;
use super::{Cache, CacheError, CompileError, Program, architecture};

/// How programs are compiled.
///
/// ```no_run
/// use streamweir_kernels::compile::{CompileError, Compiler, Program};
///
/// # fn main() -> Result<(), CompileError> {
/// let program = Program {
///     name: "mine.cu".into(),
///     source: "#include <tile.cuh>\ntemplate <int N> __global__ void scale(float* x) { /* */ }".into(),
///     headers: Vec::new(),
///     toolkit_headers: false,
/// };
/// let compiled = Compiler::new((8, 0))
///     .define("ROWS", "64")
///     .include_path("kernels/include")
///     .option("--use_fast_math")
///     .name("scale<4>")
///     .name("scale<8>")
///     .compile(&program)?;
/// // The symbols that `Module::kernel_named` looks up.
/// let symbol = &compiled.names["scale<4>"];
/// # let _ = symbol;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Compiler {
    architecture: String,
    defines: Vec<String>,
    includes: Vec<PathBuf>,
    options: Vec<String>,
    names: Vec<String>,
    places: Option<Places>,
    /// The outer `None`: that of this process.
    cache: Option<Option<Cache>>,
}

/// What a [`Compiler`] made.
#[derive(Debug)]
pub struct Compiled {
    /// The cubin.
    pub cubin: Vec<u8>,
    /// The symbol of each name that was asked for.
    pub names: BTreeMap<String, String>,
    /// Whether it came from the cache.
    pub cached: bool,
    /// Why the cache did not take part, if it should have and did not.
    pub cache_error: Option<CacheError>,
}

impl Compiler {
    /// For a compute capability, any that NVRTC knows: from 9.0 on with the features of
    /// that very architecture (`sm_90a`).
    pub fn new(capability: (u32, u32)) -> Self {
        Self {
            architecture: architecture(capability),
            defines: Vec::new(),
            includes: Vec::new(),
            options: Vec::new(),
            names: Vec::new(),
            places: None,
            cache: None,
        }
    }

    /// For an architecture as NVRTC names it: `sm_90` for code that also runs on later
    /// minor versions, `sm_100f` for a family.
    #[must_use]
    pub fn architecture(mut self, name: impl Into<String>) -> Self {
        self.architecture = name.into();
        self
    }

    /// Defines a macro.
    #[must_use]
    pub fn define(mut self, name: &str, value: &str) -> Self {
        self.defines.push(format!("--define-macro={name}={value}"));
        self
    }

    /// Looks for included files in a folder, too, after the texts of the program. What is
    /// found there is part of the cache's key.
    #[must_use]
    pub fn include_path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.includes.push(folder.into());
        self
    }

    /// Passes an option of NVRTC's on. The language is C++17 unless one says otherwise.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Asks for the symbol of a kernel by an expression of C++, such as `scale<4>`, which
    /// also instantiates a template. Kernels that are `extern "C"` need none.
    #[must_use]
    pub fn name(mut self, expression: impl Into<String>) -> Self {
        self.names.push(expression.into());
        self
    }

    /// Looks for NVRTC and the toolkit's headers in these places.
    #[must_use]
    pub fn places(mut self, places: Places) -> Self {
        self.places = Some(places);
        self
    }

    /// Keeps cubins in this cache; in none where it is `None`.
    #[must_use]
    pub fn cache(mut self, cache: Option<Cache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The cubin of a program, from the cache or compiled.
    ///
    /// # Errors
    /// When the build has no `cuda` feature, NVRTC or headers are missing, the
    /// architecture is not supported, or the program does not compile.
    #[cfg(feature = "cuda")]
    pub fn compile(&self, program: &Program) -> Result<Compiled, CompileError> {
        use super::{cache, includes, nvrtc};

        let places = self.places.clone().unwrap_or_else(Places::from_env);
        let cache = self.cache.clone().unwrap_or_else(Cache::from_env);
        let compiler = nvrtc::Nvrtc::load(&places)?;
        let options = self.all_options(program, &places, compiler.path())?;
        let mut key_options = options.clone();
        key_options.extend(self.names.iter().map(|name| format!("name {name}")));
        // What is included by a name that only the preprocessor knows is not cached.
        let found = includes::read(program, &self.includes);
        let key = found.map(|files| {
            let files = files.into_iter();
            key_options.extend(files.map(|(path, text)| format!("{}\0{text}", path.display())));
            cache::Key::new(program, &key_options, compiler.version())
        });
        let cache = cache.zip(key);
        let mut cache_error = None;
        if let Some((cache, key)) = &cache {
            match cache
                .get(key)
                .map(|entry| entry.and_then(|entry| self.unpack(entry)))
            {
                Ok(Some((cubin, names))) => {
                    return Ok(Compiled {
                        cubin,
                        names,
                        cached: true,
                        cache_error: None,
                    });
                }
                Ok(None) => {}
                Err(error) => cache_error = Some(error),
            }
        }
        let (cubin, symbols) =
            compiler.compile(program, &self.architecture, &options, &self.names)?;
        let names: BTreeMap<_, _> = self.names.iter().cloned().zip(symbols).collect();
        if let Some((cache, key)) = &cache
            && let Err(error) = cache.put(key, &self.pack(&cubin, &names))
        {
            cache_error = Some(error);
        }
        Ok(Compiled {
            cubin,
            names,
            cached: false,
            cache_error,
        })
    }

    /// The cubin of a program, which this build cannot make.
    ///
    /// # Errors
    /// Always, for the build has no `cuda` feature.
    #[cfg(not(feature = "cuda"))]
    pub fn compile(&self, _: &Program) -> Result<Compiled, CompileError> {
        Err(CompileError::NotBuilt)
    }

    #[cfg(feature = "cuda")]
    fn all_options(
        &self,
        program: &Program,
        places: &Places,
        compiler: &std::path::Path,
    ) -> Result<Vec<String>, CompileError> {
        let mut options = vec![format!("-arch={}", self.architecture)];
        let standard = |option: &String| option.trim_start_matches('-').starts_with("std");
        if !self.options.iter().any(standard) {
            options.push("--std=c++17".to_owned());
        }
        options.push("-lineinfo".to_owned());
        options.extend(self.defines.iter().cloned());
        let folders = self.includes.iter();
        options.extend(folders.map(|folder| format!("--include-path={}", folder.display())));
        if program.toolkit_headers {
            let headers = places
                .headers(compiler)
                .map_err(|tried| CompileError::NoHeaders {
                    program: program.name.clone(),
                    tried,
                })?;
            options.push(format!("--include-path={}", headers.display()));
        }
        options.extend(self.options.iter().cloned());
        Ok(options)
    }

    /// An entry of the cache: the cubin, and behind it a line for each name, with how
    /// many bytes the lines have.
    #[cfg(feature = "cuda")]
    fn pack(&self, cubin: &[u8], names: &BTreeMap<String, String>) -> Vec<u8> {
        let mut entry = cubin.to_vec();
        if self.names.is_empty() {
            return entry;
        }
        let lines: String = names.values().map(|symbol| format!("{symbol}\n")).collect();
        entry.extend_from_slice(lines.as_bytes());
        entry.extend_from_slice(&(lines.len() as u64).to_le_bytes());
        entry
    }

    /// What such an entry holds; `None` where it does not have the names.
    #[cfg(feature = "cuda")]
    fn unpack(&self, mut entry: Vec<u8>) -> Option<(Vec<u8>, BTreeMap<String, String>)> {
        if self.names.is_empty() {
            return Some((entry, BTreeMap::new()));
        }
        let (rest, bytes) = entry.split_last_chunk::<8>()?;
        let bytes = usize::try_from(u64::from_le_bytes(*bytes)).ok()?;
        let cubin = rest.len().checked_sub(bytes)?;
        let lines = std::str::from_utf8(&rest[cubin..]).ok()?;
        let mut sorted: Vec<&String> = self.names.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let symbols: Vec<&str> = lines.lines().collect();
        if symbols.len() != sorted.len() {
            return None;
        }
        let pairs = sorted.into_iter().zip(symbols);
        let names = pairs
            .map(|(name, symbol)| (name.clone(), symbol.to_owned()))
            .collect();
        entry.truncate(cubin);
        Some((entry, names))
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_symbols_of_its_names() {
        let plain = Compiler::new((9, 0));
        let (cubin, names) = plain
            .unpack(plain.pack(b"cubin", &BTreeMap::new()))
            .unwrap();
        assert_eq!((&cubin[..], names.len()), (&b"cubin"[..], 0));
        let named = plain.clone().name("k<8>").name("k<4>").name("k<8>");
        let symbols = [("k<4>", "_Z1kILi4EEvv"), ("k<8>", "_Z1kILi8EEvv")];
        let symbols: BTreeMap<String, String> = symbols
            .map(|(name, symbol)| (name.into(), symbol.into()))
            .into();
        let packed = named.pack(b"cubin", &symbols);
        let (cubin, names) = named.unpack(packed.clone()).unwrap();
        assert_eq!((&cubin[..], names), (&b"cubin"[..], symbols));
        let other = named.clone().name("k<16>");
        assert!(other.unpack(packed).is_none());
        assert!(named.unpack(b"short".to_vec()).is_none());
        assert!(named.unpack(vec![0xff; 64]).is_none());
    }

    #[test]
    fn options_are_those_that_were_asked_for() {
        let program = Program {
            name: "a.cu".into(),
            source: String::new(),
            headers: Vec::new(),
            toolkit_headers: false,
        };
        let options = |compiler: Compiler| {
            let path = std::path::Path::new("libnvrtc.so");
            compiler
                .all_options(&program, &Places::default(), path)
                .unwrap()
        };
        assert_eq!(
            options(Compiler::new((7, 5))),
            ["-arch=sm_75", "--std=c++17", "-lineinfo"]
        );
        let all = Compiler::new((9, 0))
            .architecture("sm_90")
            .define("N", "4")
            .include_path("inc")
            .option("-std=c++20")
            .option("--use_fast_math");
        assert_eq!(
            options(all),
            [
                "-arch=sm_90",
                "-lineinfo",
                "--define-macro=N=4",
                "--include-path=inc",
                "-std=c++20",
                "--use_fast_math"
            ]
        );
    }
}
