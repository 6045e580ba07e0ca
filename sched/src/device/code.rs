//! Loaded code, checked against its declaration.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Device, DeviceInner};
use crate::driver::{ModuleImage, ParamSlot};
use crate::error::{During, Error, Result};
use crate::kernel::{Kernel, Signature};
use crate::owned::{FunctionRef, OwnedModule};

/// Loaded code.
#[derive(Clone)]
pub struct Module {
    device: Arc<DeviceInner>,
    module: Arc<OwnedModule>,
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
    pub fn kernel<K: Kernel>(&self) -> Result<LoadedKernel<K>> {
        self.device.outside("Module::kernel")?;
        let signature = K::signature();
        let function = self
            .module
            .function(K::SYMBOL)
            .during(|| format!("looking for kernel `{}`", K::SYMBOL))?;
        let actual = function
            .params()
            .during(|| format!("reading the parameters of `{}`", K::SYMBOL))?;
        let slots = signature.slots();
        check(&signature, &slots, &actual)?;
        Ok(LoadedKernel {
            info: Arc::new(KernelInfo {
                function,
                signature,
                slots,
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
pub struct LoadedKernel<K> {
    pub(crate) info: Arc<KernelInfo>,
    kernel: PhantomData<K>,
}

pub(crate) struct KernelInfo {
    pub(crate) function: FunctionRef,
    pub(crate) signature: Signature,
    pub(crate) slots: Vec<ParamSlot>,
}

impl<K: Kernel> LoadedKernel<K> {
    /// The declaration.
    pub fn signature(&self) -> Signature {
        self.info.signature
    }

    /// Allows launches with up to `bytes` bytes of dynamic shared memory per
    /// block; beyond 48 KiB CUDA asks for this.
    ///
    /// # Errors
    /// When the device has not that much.
    pub fn allow_shared(&self, bytes: u32) -> Result<()> {
        self.info.function.allow_shared(bytes).during(|| {
            format!(
                "allowing kernel `{}` {bytes} bytes of shared memory",
                K::SYMBOL
            )
        })
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
        return Err(Error::ParamCount {
            kernel: signature.symbol.to_owned(),
            declared: declared.len(),
            actual: actual.len(),
        });
    }
    for ((param, declared), actual) in signature.params.iter().zip(declared).zip(actual) {
        if declared != actual {
            return Err(Error::ParamShape {
                kernel: signature.symbol.to_owned(),
                param: param.name.to_owned(),
                declared_size: declared.size,
                declared_offset: declared.offset,
                actual_size: actual.size,
                actual_offset: actual.offset,
            });
        }
    }
    Ok(())
}
