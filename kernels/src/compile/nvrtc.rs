//! NVRTC, loaded at run time.
//!
//! Only the functions below are looked up; their signatures have not changed
//! since CUDA 11.2. The library stays loaded until the process ends, because
//! unloading a compiler that keeps threads and globals is not worth its risk.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

use super::places::{Attempt, Places};
use super::{CompileError, Program, Version};

type Handle = *mut std::ffi::c_void;
type ResultCode = c_int;

/// The toolkit's version from which the kernels are tested.
const LEAST_VERSION: Version = Version {
    major: 12,
    minor: 8,
};

const SUCCESS: ResultCode = 0;
const ERROR_COMPILATION: ResultCode = 6;

macro_rules! functions {
    ($($symbol:ident($($arg:ty),*) -> $ret:ty;)*) => {
        #[allow(non_snake_case)]
        #[derive(Debug)]
        struct Functions {
            $($symbol: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Functions {
            fn resolve(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the type is that of nvrtc.h, and the library is
                        // never unloaded (it goes into a static), so the pointer
                        // stays valid.
                        unsafe { *library.get(concat!(stringify!($symbol), "\0"))? }
                    },)*
                })
            }
        }
    };
}

functions! {
    nvrtcVersion(*mut c_int, *mut c_int) -> ResultCode;
    nvrtcGetErrorString(ResultCode) -> *const c_char;
    nvrtcGetNumSupportedArchs(*mut c_int) -> ResultCode;
    nvrtcGetSupportedArchs(*mut c_int) -> ResultCode;
    nvrtcCreateProgram(
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> ResultCode;
    nvrtcDestroyProgram(*mut Handle) -> ResultCode;
    nvrtcAddNameExpression(Handle, *const c_char) -> ResultCode;
    nvrtcGetLoweredName(Handle, *const c_char, *mut *const c_char) -> ResultCode;
    nvrtcCompileProgram(Handle, c_int, *const *const c_char) -> ResultCode;
    nvrtcGetCUBINSize(Handle, *mut usize) -> ResultCode;
    nvrtcGetCUBIN(Handle, *mut c_char) -> ResultCode;
    nvrtcGetProgramLogSize(Handle, *mut usize) -> ResultCode;
    nvrtcGetProgramLog(Handle, *mut c_char) -> ResultCode;
}

/// A loaded NVRTC.
#[derive(Debug)]
pub(super) struct Nvrtc {
    functions: Functions,
    path: PathBuf,
    version: Version,
    supported: Vec<u32>,
    _library: Library,
    _builtins: Vec<Library>,
}

/// A program of NVRTC; destroyed when dropped.
struct Unit<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
    program: &'a Program,
}

impl Nvrtc {
    /// The NVRTC of these places, loaded once in the process for each.
    pub(super) fn load(places: &Places) -> Result<&'static Self, CompileError> {
        static LOADED: OnceLock<Mutex<HashMap<Places, &'static Nvrtc>>> = OnceLock::new();
        let loaded = LOADED.get_or_init(Mutex::default);
        let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nvrtc) = loaded.get(places) {
            return Ok(nvrtc);
        }
        let nvrtc: &'static Nvrtc = Box::leak(Box::new(Self::search(places)?));
        loaded.insert(places.clone(), nvrtc);
        Ok(nvrtc)
    }

    fn search(places: &Places) -> Result<Self, CompileError> {
        let mut tried = Vec::new();
        for path in places.libraries() {
            let named = path.parent().is_some_and(|p| !p.as_os_str().is_empty());
            if named && !path.is_file() {
                tried.push(Attempt {
                    path,
                    why: "no such file".to_owned(),
                });
                continue;
            }
            let builtins = builtins_of(&path);
            // SAFETY: loading runs the library's initialisers. Only NVRTC's own
            // file names, or a file that the user named, are loaded.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Self::open(library, builtins, path),
                Err(error) => tried.push(Attempt {
                    path,
                    why: error.to_string(),
                }),
            }
        }
        Err(CompileError::NoCompiler(tried))
    }

    fn open(library: Library, builtins: Vec<Library>, path: PathBuf) -> Result<Self, CompileError> {
        let bad = |why: String| CompileError::BadCompiler {
            path: path.clone(),
            why,
        };
        let functions = Functions::resolve(&library).map_err(|error| bad(error.to_string()))?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: the pointers are to live integers.
        let codes = unsafe {
            [
                (functions.nvrtcVersion)(&mut major, &mut minor),
                (functions.nvrtcGetNumSupportedArchs)(&mut count),
            ]
        };
        if codes != [SUCCESS; 2] {
            return Err(bad("it does not tell its version".to_owned()));
        }
        let mut supported = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the array has as many integers as the library asked for.
        if unsafe { (functions.nvrtcGetSupportedArchs)(supported.as_mut_ptr()) } != SUCCESS {
            return Err(bad("it does not tell its architectures".to_owned()));
        }
        let version = Version {
            major: u32::try_from(major).unwrap_or(0),
            minor: u32::try_from(minor).unwrap_or(0),
        };
        if version < LEAST_VERSION {
            return Err(bad(format!("it is version {version}")));
        }
        Ok(Self {
            functions,
            version,
            supported: supported
                .into_iter()
                .filter_map(|a| u32::try_from(a).ok())
                .collect(),
            path,
            _library: library,
            _builtins: builtins,
        })
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compiles a program to a cubin, and finds the symbols of these names.
    pub(super) fn compile(
        &self,
        program: &Program,
        architecture: &str,
        options: &[String],
        names: &[String],
    ) -> Result<(Vec<u8>, Vec<String>), CompileError> {
        if !number(architecture).is_some_and(|number| self.supported.contains(&number)) {
            return Err(CompileError::Architecture {
                architecture: architecture.to_owned(),
                version: self.version,
                supported: self.supported.clone(),
            });
        }
        let unit = Unit::new(self, program)?;
        let names = c_strings(program, names.iter())?;
        for name in &names {
            // SAFETY: the handle is live, and NVRTC copies the string.
            let code =
                unsafe { (self.functions.nvrtcAddNameExpression)(unit.handle, name.as_ptr()) };
            unit.check("nvrtcAddNameExpression", code)?;
        }
        let options = c_strings(program, options.iter())?;
        let pointers = pointers(&options);
        // SAFETY: the handle is live, and the strings outlive the call.
        let code = unsafe {
            (self.functions.nvrtcCompileProgram)(
                unit.handle,
                pointers.len() as c_int,
                pointers.as_ptr(),
            )
        };
        if code == ERROR_COMPILATION {
            return Err(CompileError::Source {
                program: program.name.clone(),
                architecture: architecture.to_owned(),
                log: unit.log()?,
            });
        }
        unit.check("nvrtcCompileProgram", code)
            .map_err(|error| error.with_log(unit.log().ok()))?;
        let symbols = names.iter().map(|name| unit.symbol(name));
        let symbols = symbols.collect::<Result<_, _>>()?;
        let cubin = unit.bytes(
            ("nvrtcGetCUBINSize", self.functions.nvrtcGetCUBINSize),
            ("nvrtcGetCUBIN", self.functions.nvrtcGetCUBIN),
        )?;
        Ok((cubin, symbols))
    }
}

/// The number of an architecture for real code: 90 of `sm_90a`.
fn number(architecture: &str) -> Option<u32> {
    let digits = architecture.strip_prefix("sm_")?;
    digits.trim_end_matches(['a', 'f']).parse().ok()
}

/// NVRTC's companion library, loaded from the same folder. NVRTC opens it by its
/// bare name, which the loader finds in a folder that it does not search only
/// when a library of that name is loaded already.
fn builtins_of(library: &Path) -> Vec<Library> {
    let Some(folder) = library.parent().filter(|p| !p.as_os_str().is_empty()) else {
        return Vec::new();
    };
    let Ok(entries) = folder.read_dir() else {
        // Then NVRTC itself does not load either, and that is reported.
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("libnvrtc-builtins.so."))
        // SAFETY: as for NVRTC; the library has data and no initialisers of its
        // own. One that does not load is named by NVRTC when it misses it.
        .filter_map(|name| unsafe { Library::new(folder.join(name)) }.ok())
        .collect()
}

type SizeFn = unsafe extern "C" fn(Handle, *mut usize) -> ResultCode;
type BytesFn = unsafe extern "C" fn(Handle, *mut c_char) -> ResultCode;

impl<'a> Unit<'a> {
    fn new(nvrtc: &'a Nvrtc, program: &'a Program) -> Result<Self, CompileError> {
        let texts = c_strings(program, [&program.source, &program.name].into_iter())?;
        let names = c_strings(program, program.headers.iter().map(|h| &h.name))?;
        let sources = c_strings(program, program.headers.iter().map(|h| &h.source))?;
        let mut unit = Self {
            nvrtc,
            handle: ptr::null_mut(),
            program,
        };
        // SAFETY: the handle's place is live; the strings are copied by NVRTC, and
        // both header arrays have the given length.
        let code = unsafe {
            (nvrtc.functions.nvrtcCreateProgram)(
                &mut unit.handle,
                texts[0].as_ptr(),
                texts[1].as_ptr(),
                names.len() as c_int,
                pointers(&sources).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        unit.check("nvrtcCreateProgram", code)?;
        Ok(unit)
    }

    fn check(&self, call: &'static str, code: ResultCode) -> Result<(), CompileError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC answers any number with a static string.
        let message = unsafe { CStr::from_ptr((self.nvrtc.functions.nvrtcGetErrorString)(code)) };
        Err(CompileError::Compiler {
            program: self.program.name.clone(),
            call,
            code,
            message: message.to_string_lossy().into_owned(),
        })
    }

    /// What a pair of functions for the size and the bytes gives.
    fn bytes(
        &self,
        (size_name, size_fn): (&'static str, SizeFn),
        (bytes_name, bytes_fn): (&'static str, BytesFn),
    ) -> Result<Vec<u8>, CompileError> {
        let mut size = 0;
        // SAFETY: the handle is live, and so is the integer.
        let code = unsafe { size_fn(self.handle, &mut size) };
        self.check(size_name, code)?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the handle is live, and the buffer has the size asked for.
        let code = unsafe { bytes_fn(self.handle, bytes.as_mut_ptr().cast()) };
        self.check(bytes_name, code)?;
        Ok(bytes)
    }

    /// The symbol of a name that was asked for.
    fn symbol(&self, name: &CStr) -> Result<String, CompileError> {
        let mut symbol = ptr::null();
        // SAFETY: the handle is live and compiled, and so is the pointer's place.
        let code = unsafe {
            (self.nvrtc.functions.nvrtcGetLoweredName)(self.handle, name.as_ptr(), &mut symbol)
        };
        self.check("nvrtcGetLoweredName", code)?;
        // SAFETY: NVRTC gives a string that lives as long as the program.
        let symbol = unsafe { CStr::from_ptr(symbol) };
        Ok(symbol.to_string_lossy().into_owned())
    }

    fn log(&self) -> Result<String, CompileError> {
        let functions = &self.nvrtc.functions;
        let bytes = self.bytes(
            ("nvrtcGetProgramLogSize", functions.nvrtcGetProgramLogSize),
            ("nvrtcGetProgramLog", functions.nvrtcGetProgramLog),
        )?;
        let log = String::from_utf8_lossy(&bytes);
        Ok(log.trim_end_matches(['\0', '\n']).to_owned())
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is live and destroyed once. Its only failure is
            // a handle that is not valid.
            let _ = unsafe { (self.nvrtc.functions.nvrtcDestroyProgram)(&mut self.handle) };
        }
    }
}

fn c_strings<'s>(
    program: &Program,
    texts: impl Iterator<Item = &'s String>,
) -> Result<Vec<CString>, CompileError> {
    texts
        .map(|text| {
            CString::new(text.as_str()).map_err(|_| CompileError::ZeroByte {
                program: program.name.clone(),
                part: text.chars().take_while(|&c| c != '\0').take(40).collect(),
            })
        })
        .collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).collect()
}
