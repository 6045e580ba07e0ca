//! Loaded code, checked against its declaration.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use streamweir_hal::driver::{ModuleImage, ParamSlot};
use streamweir_hal::owned::{FunctionRef, OwnedModule};
use streamweir_verify::audit::{ParamShape, const_params};

use super::handle::Device;
use super::inner::DeviceInner;
use crate::error::{During, Error, KernelError, Result};
use crate::kernel::{Kernel, PdlWait, Role, Signature};

/// The compute capability from which on code can wait for what it follows.
const WAITS_SINCE: (u32, u32) = (9, 0);

/// Loaded code.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::driver::ModuleImage;
/// use streamweir::kernel::{InOut, twin};
/// use streamweir::{Device, Error, kernel};
///
/// kernel! {
///     /// Adds one to each of `len` values, one a block.
///     ///
///     /// # Safety
///     /// A block touches its own value.
///     unsafe fn bump(data: InOut<u32>, len: u32) {
///         data.holds([len])?;
///         Ok((len, 1).into())
///     }
/// }
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// // A cubin, a fatbin or PTX on a CUDA device (`ModuleImage::Cuda`); on the simulated
/// // one a function for each kernel, which runs one thread block.
/// let image = ModuleImage::Sim(vec![twin::<bump>(|block, (data, _len)| {
///     let at = data.at(block.index()[0] as usize);
///     let value = block.read::<u32>(at, 1)?[0];
///     block.write(at, &[value + 1])
/// })]);
/// let module = device.load(&image)?;
/// // The parameters are checked against the compiled code; that it is the kernel that
/// // is declared is vouched for here.
/// // SAFETY: the twin above does what the declaration says.
/// let bump = unsafe { module.kernel::<bump>() }?;
/// assert_eq!(bump.signature().symbol, "bump");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Module {
    device: Arc<DeviceInner>,
    module: Arc<OwnedModule>,
}

impl Device {
    /// Loads code.
    ///
    /// # Errors
    /// When the driver refuses it, or inside a capture: loading is what a
    /// capture must find done.
    pub fn load(&self, image: &ModuleImage) -> Result<Module> {
        self.inner.outside("Device::load")?;
        Module::load(self, image)
    }
}

impl Module {
    pub(super) fn load(device: &Device, image: &ModuleImage) -> Result<Self> {
        let module = OwnedModule::load(&device.inner.reclaim, image)
            .during(|| format!("loading a module on {}", device.info().name))?;
        Ok(Self {
            device: device.inner.clone(),
            module: Arc::new(module),
        })
    }

    /// The kernel declared as `K`, its parameters checked against the code.
    ///
    /// # Errors
    /// When the module has no such symbol, when number, place or size of a
    /// parameter differ, or inside a capture.
    ///
    /// # Safety
    /// The code of this symbol is the kernel that `K` declares: what its author vouches
    /// for is true of it.
    pub unsafe fn kernel<K: Kernel>(&self) -> Result<LoadedKernel<K>> {
        // SAFETY: the caller's promise.
        unsafe { self.kernel_named(K::SYMBOL) }
    }

    /// The kernel declared as `K`, under a symbol of its own: that of an instance of a
    /// template, or of a function that is not `extern "C"`.
    ///
    /// # Errors
    /// As [`kernel`](Self::kernel).
    ///
    /// # Safety
    /// As for [`kernel`](Self::kernel).
    pub unsafe fn kernel_named<K: Kernel>(&self, symbol: &str) -> Result<LoadedKernel<K>> {
        self.device.outside("Module::kernel")?;
        let mut signature = K::signature();
        let function = self
            .module
            .function(symbol)
            .during(|| format!("looking for kernel `{symbol}`"))?;
        let actual = function
            .params()
            .during(|| format!("reading the parameters of `{}`", K::SYMBOL))?;
        let slots = signature.slots();
        check(&signature, &slots, &actual)?;
        let doubts = shown_by_name(&signature, symbol)?;
        if signature.pdl == PdlWait::OnAllPaths {
            let target = function
                .target()
                .during(|| format!("asking what `{}` was compiled for", K::SYMBOL))?;
            if target < WAITS_SINCE {
                // The instruction is not in the code, whatever the source says.
                signature.pdl = PdlWait::None;
            }
        }
        Ok(LoadedKernel {
            info: Arc::new(KernelInfo {
                has_words: has_words(&signature),
                symbol: symbol.into(),
                function,
                signature,
                slots,
                doubts,
                shared: AtomicU32::new(SHARED_ALWAYS),
            }),
            kernel: PhantomData,
        })
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").finish_non_exhaustive()
    }
}

/// A kernel that is loaded and fits its declaration.
///
/// ```
/// # use streamweir_sched as streamweir;
/// use streamweir::driver::ModuleImage;
/// use streamweir::kernel::{InOut, twin};
/// use streamweir::{Device, Error, kernel};
///
/// kernel! {
///     /// Adds one to each of `len` values, one a block.
///     ///
///     /// # Safety
///     /// A block touches its own value.
///     unsafe fn bump(data: InOut<u32>, len: u32) {
///         data.holds([len])?;
///         Ok((len, 1).into())
///     }
/// }
///
/// # fn main() -> Result<(), Error> {
/// # let device = Device::sim(1);
/// # let image = ModuleImage::Sim(vec![twin::<bump>(|block, (data, _len)| {
/// #     let at = data.at(block.index()[0] as usize);
/// #     let value = block.read::<u32>(at, 1)?[0];
/// #     block.write(at, &[value + 1])
/// # })]);
/// let module = device.load(&image)?;
/// // SAFETY: its twin does what the declaration says.
/// let loaded = unsafe { module.kernel::<bump>() }?;
/// let data = device.persistent_from("data", &[1_u32, 2, 3, 4])?;
/// // Once for each capture: the graph keeps the code.
/// let (graph, ()) = device.capture::<_, Error>("step", |cap| {
///     cap.origin().launch(&loaded, bump { data: &data, len: 4 })
/// })?;
/// drop(loaded);
/// graph.replay(&device.stream("replay")?)?;
/// assert_eq!(data.download()?, [2, 3, 4, 5]);
/// # Ok(())
/// # }
/// ```
pub struct LoadedKernel<K> {
    pub(crate) info: Arc<KernelInfo>,
    kernel: PhantomData<K>,
}

pub(crate) struct KernelInfo {
    /// What the code calls it.
    pub(crate) symbol: Box<str>,
    pub(crate) function: FunctionRef,
    pub(crate) signature: Signature,
    pub(crate) slots: Vec<ParamSlot>,
    /// What the kernel's name leaves open of its declaration.
    pub(crate) doubts: Vec<String>,
    /// Whether a launch can pass words that are long enough for an address and are not
    /// declared as one.
    pub(crate) has_words: bool,
    /// The bytes of dynamic shared memory that launches are allowed so far.
    shared: AtomicU32,
}

/// What a block may have without being allowed it.
const SHARED_ALWAYS: u32 = 48 << 10;

impl KernelInfo {
    /// Allows launches with so many bytes of dynamic shared memory, unless they are
    /// allowed already.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        if bytes <= self.shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.function.allow_shared(bytes).during(|| {
            format!(
                "allowing kernel `{}` {bytes} bytes of shared memory",
                self.signature.symbol
            )
        })?;
        self.shared.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether among the parameters is a word that is long enough for an address and not
    /// declared as one. `declared` says of each address in which parameter it stands,
    /// and where there.
    pub(crate) fn shows_words(&self, params: &[u8], declared: impl Fn(u32, u32) -> bool) -> bool {
        // Few kernels have room for such a word.
        self.has_words && self.undeclared(params, declared)
    }

    #[cold]
    fn undeclared(&self, params: &[u8], declared: impl Fn(u32, u32) -> bool) -> bool {
        (0..).zip(&self.slots).any(|(param, slot)| {
            let of_fields = matches!(self.signature.params[param as usize].role, Role::Fields(_));
            // Where the calling convention puts addresses.
            let first = slot.offset.next_multiple_of(8) - slot.offset;
            (first..slot.size.saturating_sub(7)).step_by(8).any(|at| {
                let start = (slot.offset + at) as usize;
                let is_null = params[start..start + 8].iter().all(|byte| *byte == 0);
                !is_null && !declared(param, if of_fields { at } else { 0 })
            })
        })
    }
}

fn has_words(signature: &Signature) -> bool {
    let mut params = signature.params.iter();
    params.any(|param| !matches!(param.role, Role::Buffer { .. }) && param.size >= 8)
}

impl<K: Kernel> LoadedKernel<K> {
    /// The declaration; without `#[waits]` where the code was compiled for less than
    /// compute capability 9.0, and so does not.
    pub fn signature(&self) -> Signature {
        self.info.signature
    }

    /// What the kernel's mangled name leaves open of the declaration: parameters
    /// declared `In` that the code takes as a pointer to what is not const. Each
    /// is an assumption of every verdict about a launch of the kernel.
    pub fn doubts(&self) -> &[String] {
        &self.info.doubts
    }

    /// Allows launches with up to `bytes` bytes of dynamic shared memory per
    /// block. A launch that needs more than 48 KiB asks for it by itself.
    ///
    /// # Errors
    /// When the device has not that much.
    pub fn allow_shared(&self, bytes: u32) -> Result<()> {
        self.info.allow_shared(bytes)
    }
}

impl<K> Clone for LoadedKernel<K> {
    fn clone(&self) -> Self {
        Self {
            info: self.info.clone(),
            kernel: PhantomData,
        }
    }
}

impl<K> fmt::Debug for LoadedKernel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoadedKernel({})", self.info.signature)
    }
}

fn check(signature: &Signature, declared: &[ParamSlot], actual: &[ParamSlot]) -> Result<()> {
    if declared.len() != actual.len() {
        return Err(Error::Kernel(KernelError::ParamCount {
            kernel: signature.symbol.to_owned(),
            declared: declared.len(),
            actual: actual.len(),
        }));
    }
    for ((param, declared), actual) in signature.params.iter().zip(declared).zip(actual) {
        if declared != actual {
            return Err(Error::Kernel(KernelError::ParamShape {
                kernel: signature.symbol.to_owned(),
                param: param.name.to_owned(),
                declared_size: declared.size,
                declared_offset: declared.offset,
                actual_size: actual.size,
                actual_offset: actual.offset,
            }));
        }
    }
    Ok(())
}

/// Holds the access modes against the types in a mangled name.
///
/// A kernel cannot write through a pointer to const, so declaring such a
/// parameter as written is a mistake. One that could write and is declared to
/// read alone may be just that; it is taken at its word, and this is said.
fn shown_by_name(signature: &Signature, symbol: &str) -> Result<Vec<String>> {
    let Some(shapes) = const_params(symbol) else {
        return Ok(Vec::new());
    };
    let mut doubts = Vec::new();
    for (param, shape) in signature.params.iter().zip(shapes) {
        match (param.role, shape) {
            (Role::Buffer { mode, .. }, ParamShape::ConstPointer) if mode.writes() => {
                return Err(Error::Kernel(KernelError::ConstParam {
                    kernel: signature.symbol.to_owned(),
                    param: param.name.to_owned(),
                    declared: mode,
                }));
            }
            (Role::Buffer { mode, .. }, ParamShape::Pointer) if !mode.writes() => {
                doubts.push(format!(
                    "kernel `{}` only reads parameter `{}`, which its name shows as a pointer to what is not const",
                    signature.symbol, param.name
                ));
            }
            _ => {}
        }
    }
    Ok(doubts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{In, Out, ParamDecl};

    const IN: ParamDecl = ParamDecl::of::<In<f32>>("from");
    const OUT: ParamDecl = ParamDecl::of::<Out<f32>>("to");

    #[test]
    fn a_pointer_to_const_is_not_written() {
        // void scale(const float*, float*)
        let symbol = "_Z5scalePKfPf";
        let right = shown_by_name(&Signature::new(symbol, &[IN, OUT]), symbol);
        assert!(right.is_ok_and(|doubts| doubts.is_empty()));
        let error = shown_by_name(&Signature::new(symbol, &[OUT, OUT]), symbol).expect_err("const");
        assert!(
            matches!(&error, Error::Kernel(KernelError::ConstParam { param, .. }) if param == "to"),
            "{error}"
        );
        assert!(error.to_string().contains("pointer to const"), "{error}");
    }

    #[test]
    fn a_pointer_to_what_is_not_const_may_be_read_and_this_is_said() {
        let found = shown_by_name(&Signature::new("_Z5scalePfS_", &[IN, OUT]), "_Z5scalePfS_")
            .expect("allowed");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`from`"), "{found:?}");
        let plain =
            shown_by_name(&Signature::new("scale", &[OUT, IN]), "scale").expect("not mangled");
        assert_eq!(plain, [""; 0]);
    }
}
