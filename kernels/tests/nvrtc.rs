//! The kernels compile for the architectures they are meant for.
//!
//! Needs NVRTC, no GPU. Without NVRTC the tests say "not run: no NVRTC";
//! `STREAMWEIR_REQUIRE_NVRTC=1` makes that a failure.
#![cfg(feature = "cuda")]

use std::env;

use streamweir_kernels::compile::places::Places;
use streamweir_kernels::compile::{self, Cache, CompileError, Compiled, Compiler, Header, Program};
use streamweir_kernels::dsv4;

/// The result of a compilation, or `None` where there is no NVRTC and none is
/// required.
fn compiled(
    program: &Program,
    capability: (u32, u32),
    cache: Option<&Cache>,
) -> Option<Result<Compiled, CompileError>> {
    match compile::compile_in(program, capability, &Places::from_env(), cache) {
        Err(error @ CompileError::NoCompiler(_)) => {
            let required = env::var_os("STREAMWEIR_REQUIRE_NVRTC").is_some_and(|v| v == "1");
            assert!(!required, "{error}");
            println!("not run: no NVRTC");
            None
        }
        result => Some(result),
    }
}

fn program(source: &str) -> Program {
    Program {
        name: "test.cu".into(),
        source: source.into(),
        headers: vec![],
        toolkit_headers: false,
    }
}

#[test]
fn every_kernel_compiles_for_hopper_and_both_blackwells() {
    for capability in [(9, 0), (10, 0), (12, 0)] {
        let Some(result) = compiled(&dsv4::program(), capability, None) else {
            return;
        };
        let cubin = result.unwrap().cubin;
        assert_eq!(&cubin[..4], b"\x7fELF", "a cubin is an ELF file");
        for twin in dsv4::twins() {
            let symbol = format!("\0{}\0", twin.symbol);
            assert!(
                cubin.windows(symbol.len()).any(|w| w == symbol.as_bytes()),
                "{} is missing for {capability:?}",
                twin.symbol
            );
        }
    }
}

#[test]
fn errors_in_a_program_come_with_the_log() {
    let broken = program("extern \"C\" __global__ void broken() { undeclared = 1; }");
    let Some(result) = compiled(&broken, (9, 0), None) else {
        return;
    };
    let error = result.unwrap_err();
    let CompileError::Source { log, .. } = &error else {
        panic!("{error}");
    };
    assert!(log.contains("undeclared"), "{log}");
    let text = error.to_string();
    assert!(
        text.starts_with("test.cu does not compile for sm_90a:\n"),
        "{text}"
    );
}

#[test]
fn an_architecture_that_nvrtc_does_not_know_is_named() {
    let Some(result) = compiled(&program(""), (99, 9), None) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, CompileError::Architecture { architecture, .. }
        if architecture == "sm_999a"),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("it has sm_") && text.contains("STREAMWEIR_NVRTC"),
        "{text}"
    );
}

#[test]
fn zero_bytes_are_refused() {
    let Some(result) = compiled(&program("int a;\0int b;"), (9, 0), None) else {
        return;
    };
    assert!(matches!(result, Err(CompileError::ZeroByte { part, .. }) if part == "int a;"));
}

#[test]
fn what_is_in_the_cache_is_not_compiled_again_and_a_torn_entry_is() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("cubins"));
    let mut source = program("#include \"k.cuh\"\n");
    source.headers.push(Header {
        name: "k.cuh".into(),
        source: "extern \"C\" __global__ void k(int* p) { *p = 1; }".into(),
    });
    let Some(first) = compiled(&source, (9, 0), Some(&cache)) else {
        return;
    };
    let first = first.unwrap();
    assert!(!first.cached && first.cache_error.is_none());
    let again = compiled(&source, (9, 0), Some(&cache)).unwrap().unwrap();
    assert!(again.cached);
    assert_eq!(again.cubin, first.cubin);

    let other = compiled(&source, (12, 0), Some(&cache)).unwrap().unwrap();
    assert!(!other.cached, "another architecture is another entry");
    source.headers[0].source.push_str("\n// changed\n");
    let other = compiled(&source, (9, 0), Some(&cache)).unwrap().unwrap();
    assert!(!other.cached, "another header is another entry");

    for entry in std::fs::read_dir(cache.folder()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let torn = compiled(&source, (9, 0), Some(&cache)).unwrap().unwrap();
    assert!(!torn.cached, "an altered entry is compiled again");
    assert!(
        compiled(&source, (9, 0), Some(&cache))
            .unwrap()
            .unwrap()
            .cached
    );
}

#[test]
fn a_cache_that_cannot_be_written_costs_time_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let source = program("extern \"C\" __global__ void k() {}");
    let Some(result) = compiled(&source, (9, 0), Some(&Cache::at(&file))) else {
        return;
    };
    let result = result.unwrap();
    assert!(!result.cubin.is_empty());
    let error = result.cache_error.unwrap().to_string();
    assert!(error.contains("STREAMWEIR_CACHE"), "{error}");
}

#[test]
fn toolkit_headers_are_found_or_their_absence_is_told() {
    let mut source = program("#include <cuda_bf16.h>\n__device__ __nv_bfloat16 value;\n");
    source.toolkit_headers = true;
    match compiled(&source, (9, 0), None) {
        None => {}
        Some(Ok(compiled)) => assert!(!compiled.cubin.is_empty()),
        Some(Err(error)) => {
            assert!(matches!(error, CompileError::NoHeaders { .. }), "{error}");
            assert!(error.to_string().contains("CUDA_PATH"), "{error}");
        }
    }
}

#[test]
fn a_named_place_without_nvrtc_does_not_fall_back() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places {
        nvrtc: Some(folder.path().to_owned()),
        ..Places::from_env()
    };
    let error = compile::compile_in(&program(""), (9, 0), &places, None).unwrap_err();
    let CompileError::NoCompiler(tried) = &error else {
        panic!("{error}");
    };
    assert!(tried.iter().all(|a| a.path.starts_with(folder.path())));
    assert!(error.to_string().contains("no such file"), "{error}");

    let fake = folder.path().join("libnvrtc.so");
    std::fs::write(&fake, "not a library").unwrap();
    let error = compile::compile_in(&program(""), (9, 0), &places, None).unwrap_err();
    assert!(error.to_string().contains("libnvrtc.so"), "{error}");
}

/// A user's kernels run on whatever the user's device is.
#[test]
fn any_architecture_that_nvrtc_knows_is_compiled_for() {
    let plain = program("extern \"C\" __global__ void k(int* p) { *p = __CUDA_ARCH__; }");
    for capability in [(7, 5), (8, 0), (8, 6), (9, 0), (12, 0)] {
        let Some(result) = compiled(&plain, capability, None) else {
            return;
        };
        assert_eq!(&result.unwrap().cubin[..4], b"\x7fELF", "{capability:?}");
    }
    for name in ["sm_90", "sm_100f"] {
        let compiler = Compiler::new((9, 0)).cache(None).architecture(name);
        assert_eq!(
            &compiler.compile(&plain).unwrap().cubin[..4],
            b"\x7fELF",
            "{name}"
        );
    }
    let refused = Compiler::new((9, 0)).cache(None).architecture("compute_90");
    let error = refused.compile(&plain).unwrap_err();
    assert!(
        matches!(error, CompileError::Architecture { .. }),
        "{error}"
    );
}

#[test]
fn defines_options_include_paths_and_names_are_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let header = folder.path().join("rows.cuh");
    std::fs::write(&header, "constexpr int rows = ROWS;").unwrap();
    let source = program(
        "#include <rows.cuh>\n\
         static_assert(rows == 64 && __cplusplus >= 202002L, \"as asked for\");\n\
         template <int N> __global__ void scale(float* x) { *x *= N * rows; }\n",
    );
    if compiled(&program(""), (9, 0), None).is_none() {
        return;
    }
    let cache = Cache::at(folder.path().join("cubins"));
    let compiler = || {
        Compiler::new((9, 0))
            .cache(Some(cache.clone()))
            .define("ROWS", "64")
            .include_path(folder.path())
            .option("--std=c++20")
            .name("scale<4>")
            .name("scale<8>")
    };
    let first = compiler().compile(&source).unwrap();
    assert!(!first.cached && first.cache_error.is_none());
    assert_eq!(first.names.len(), 2);
    for symbol in first.names.values() {
        let symbol = format!("\0{symbol}\0");
        assert!(
            first
                .cubin
                .windows(symbol.len())
                .any(|w| w == symbol.as_bytes())
        );
    }
    let again = compiler().compile(&source).unwrap();
    assert!(again.cached);
    assert_eq!((&again.cubin, &again.names), (&first.cubin, &first.names));
    // Whatever the cubin depends on is another entry, a file on disk included.
    assert!(!compiler().name("scale<2>").compile(&source).unwrap().cached);
    assert!(
        !compiler()
            .option("--use_fast_math")
            .compile(&source)
            .unwrap()
            .cached
    );
    std::fs::write(&header, "constexpr int rows = ROWS; // changed").unwrap();
    assert!(!compiler().compile(&source).unwrap().cached);
    let error = compiler()
        .define("ROWS", "8")
        .name("absent<1>")
        .compile(&source)
        .unwrap_err();
    assert!(matches!(error, CompileError::Source { .. }), "{error}");
}
