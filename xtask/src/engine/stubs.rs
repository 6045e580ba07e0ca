//! Stand-ins for the libraries that candle links, for a machine that has none.
//!
//! candle links the driver and four libraries of CUDA's by name. A linker wants
//! to see that their functions exist. A stand-in has the name that the real
//! library is loaded by, and every function that cudarc declares, without code:
//! it is never loaded where the real one is. Of the runtime the wheels have the
//! real library, and lack only the name that a linker looks for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{Failure, Outcome, Run};

/// The name to link with, the name to load, and the module of cudarc that
/// declares its functions.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("cuda", "libcuda.so.1", "driver"),
    ("nvrtc", "libnvrtc.so.13", "nvrtc"),
    ("curand", "libcurand.so.10", "curand"),
    ("cublas", "libcublas.so.13", "cublas"),
    ("cublasLt", "libcublasLt.so.13", "cublaslt"),
];

/// Makes them in `home/lib/stubs`, where cudarc's build looks. `metadata` is
/// cargo's of the integration, which knows where cudarc's source lies.
pub(super) fn make(metadata: &str, home: &Path) -> Outcome {
    let source = cudarc(metadata)?;
    let dir = home.join("lib/stubs");
    fs::create_dir_all(&dir).map_err(|error| Failure::io("create", &dir, &error))?;
    for (link, load, module) in LIBRARIES {
        let bindings = source.join(module).join("sys/mod.rs");
        let text = fs::read_to_string(&bindings)
            .map_err(|error| Failure::io("read", &bindings, &error))?;
        let functions = functions(&text);
        if functions.is_empty() {
            return Err(Failure::new(format!(
                "{} declares no functions",
                bindings.display()
            )));
        }
        let code = dir.join(format!("{link}.c"));
        fs::write(&code, stand_in(&functions))
            .map_err(|error| Failure::io("write", &code, &error))?;
        Run::new("cc")
            .args(["-shared", "-fPIC", "-nostdlib"])
            .arg(format!("-Wl,-soname,{load}"))
            .arg("-o")
            .arg(dir.join(format!("lib{link}.so")))
            .arg(&code)
            .run()?;
    }
    link_name(&home.join("lib"), "libcudart.so.13", "libcudart.so")
}

/// The directory with cudarc's modules.
fn cudarc(metadata: &str) -> Outcome<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata)
        .map_err(|error| Failure::new(format!("`cargo metadata` printed no JSON: {error}")))?;
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "cudarc")
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|manifest| Path::new(manifest).parent())
        .map(|root| root.join("src"))
        .ok_or_else(|| Failure::new("the integration does not depend on cudarc"))
}

/// The functions of CUDA's in a module of bindings: cudarc wraps each in one of
/// the same name, `pub unsafe fn name(`.
fn functions(bindings: &str) -> BTreeSet<&str> {
    bindings
        .lines()
        .filter_map(|line| line.strip_prefix("pub unsafe fn "))
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
        .filter(|name| {
            ["cu", "nvrtc"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        })
        .collect()
}

fn stand_in(functions: &BTreeSet<&str>) -> String {
    let mut code = String::new();
    for name in functions {
        // Writing to a `String` cannot fail.
        let _ = writeln!(code, "void {name}(void) {{}}");
    }
    code
}

/// Gives a library the name that a linker looks for.
#[cfg(unix)]
fn link_name(dir: &Path, real: &str, name: &str) -> Outcome {
    let (from, to) = (dir.join(real), dir.join(name));
    if !from.is_file() {
        return Err(Failure::new(format!("there is no {}", from.display())));
    }
    match std::os::unix::fs::symlink(real, &to) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Failure::io("link", &to, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn link_name(_: &Path, _: &str, _: &str) -> Outcome {
    Err(Failure::new("the example is built on Linux, for Linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_bindings_are_found_once_each() {
        let bindings = "pub unsafe fn cuInit(flags: c_uint) -> CUresult {\n    extern \"C\" {\n        \
                        fn cuInit(flags: c_uint) -> CUresult;\n    }\n}\n\
                        pub unsafe fn nvrtcVersion(\n    major: *mut c_int,\n\
                        pub unsafe fn culib() -> &'static Lib {\n\
                        pub unsafe fn is_culib_present() -> bool {\n";
        let found: Vec<_> = functions(bindings).into_iter().collect();
        assert_eq!(found, ["cuInit", "culib", "nvrtcVersion"]);
    }

    #[test]
    fn a_stand_in_defines_each_function() {
        let code = stand_in(&BTreeSet::from(["cuA", "cuB"]));
        assert_eq!(code, "void cuA(void) {}\nvoid cuB(void) {}\n");
    }
}
