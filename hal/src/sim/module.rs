//! Modules, functions and launches.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;

use super::device::Device;
use super::objects::Module;
use super::work::{Function, Work};
use crate::driver::code::{SimKernel, no_kernel};
use crate::driver::{
    DriverResult, ErrorClass, FunctionHandle, LaunchShape, ModuleHandle, ModuleImage, Start,
    StreamHandle,
};

/// What CUDA gives a block unasked.
const SHARED_DEFAULT: u32 = 48 << 10;

/// What a block may have at most, as on compute capability 9.0.
const SHARED_MOST: u32 = 227 << 10;

/// The most threads of a block.
const THREADS_MOST: u64 = 1024;

/// The most blocks of a cluster that any device has.
const CLUSTER_MOST: u32 = 8;

/// What the one multiprocessor holds at once, as on compute capability 9.0.
const RESIDENT_BLOCKS: u64 = 32;
const RESIDENT_THREADS: u64 = 2048;

impl Device {
    pub(super) fn module_load(&mut self, image: &ModuleImage) -> DriverResult<ModuleHandle> {
        let ModuleImage::Sim(kernels) = image else {
            return Err(self
                .fail(ErrorClass::NoBinaryForGpu)
                .with("the simulated device runs Rust functions, not CUDA code"));
        };
        let mut seen = BTreeSet::new();
        for kernel in kernels {
            if !seen.insert(kernel.symbol) || !well_formed(kernel) {
                return Err(self
                    .fail(ErrorClass::InvalidImage)
                    .with(format!("kernel {}", kernel.symbol)));
            }
        }
        let functions = kernels
            .iter()
            .map(|kernel| {
                let handle = FunctionHandle(self.handle());
                let kernel = kernel.clone();
                self.functions
                    .insert(handle, Arc::new(Function { handle, kernel }));
                handle
            })
            .collect();
        let module = ModuleHandle(self.handle());
        self.modules.insert(module, Module { functions });
        Ok(module)
    }

    pub(super) fn module_unload(&mut self, module: ModuleHandle) -> DriverResult<()> {
        let Some(module) = self.modules.remove(&module) else {
            return Err(self.unknown(module));
        };
        for handle in module.functions {
            self.shared_limits.remove(&handle);
            if let Some(function) = self.functions.remove(&handle) {
                self.trash.push(function);
            }
        }
        Ok(())
    }

    pub(super) fn module_function(
        &self,
        module: ModuleHandle,
        symbol: &str,
    ) -> DriverResult<FunctionHandle> {
        let found = self
            .modules
            .get(&module)
            .ok_or_else(|| self.unknown(module))?;
        let known = || {
            let handles = found.functions.iter();
            handles.filter_map(|handle| Some((*handle, self.functions.get(handle)?.kernel.symbol)))
        };
        let of_symbol = known().find(|&(_, name)| name == symbol);
        of_symbol.map(|(handle, _)| handle).ok_or_else(|| {
            let there = known().map(|(_, name)| name.to_owned()).collect();
            self.fail(ErrorClass::NotFound)
                .with(no_kernel(symbol, there))
        })
    }

    pub(super) fn function(&self, handle: FunctionHandle) -> DriverResult<&Arc<Function>> {
        self.functions
            .get(&handle)
            .ok_or_else(|| self.unknown(handle))
    }

    pub(super) fn shared_limit(&mut self, handle: FunctionHandle, bytes: u32) -> DriverResult<()> {
        let name = self.function(handle)?.kernel.symbol;
        if bytes > SHARED_MOST {
            return Err(self
                .fail(ErrorClass::InvalidValue)
                .with(format!("{name}: {bytes} bytes of shared memory")));
        }
        self.shared_limits.insert(handle, bytes);
        Ok(())
    }

    /// # Safety
    /// Each pointer in `params` that is not null points to as many readable
    /// bytes as the function's parameter has.
    pub(super) unsafe fn launch(
        &mut self,
        stream: StreamHandle,
        handle: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        params: &[*mut c_void],
    ) -> DriverResult<()> {
        let function = Arc::clone(self.function(handle)?);
        self.capture_of(stream)?;
        let name = function.kernel.symbol;
        let refuse = |what: String| {
            Err(self
                .fail(ErrorClass::InvalidValue)
                .with(format!("{name}: {what}")))
        };
        let threads = shape.block.iter().map(|&n| u64::from(n)).product::<u64>();
        if shape.grid.contains(&0) || shape.block.contains(&0) || threads > THREADS_MOST {
            return refuse(format!("grid {:?}, block {:?}", shape.grid, shape.block));
        }
        if shape.cluster != [0; 3] {
            let blocks: u32 = shape.cluster.iter().product();
            let divides = |(grid, cluster): (&u32, &u32)| *cluster > 0 && grid % cluster == 0;
            if blocks > CLUSTER_MOST || !shape.grid.iter().zip(&shape.cluster).all(divides) {
                return Err(self.fail(ErrorClass::InvalidCluster).with(format!(
                    "{name}: grid {:?} in clusters of {:?}",
                    shape.grid, shape.cluster
                )));
            }
        }
        let blocks = shape.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        if start == Start::Together && blocks > RESIDENT_BLOCKS.min(RESIDENT_THREADS / threads) {
            return Err(self
                .fail(ErrorClass::CooperativeTooLarge)
                .with(format!("{name}: {blocks} blocks of {threads} threads")));
        }
        let allowed = self.shared_limits.get(&handle).copied().unwrap_or_default();
        if shape.shared_bytes > allowed.max(SHARED_DEFAULT) {
            return refuse(format!("{} bytes of shared memory", shape.shared_bytes));
        }
        let slots = &function.kernel.params;
        if params.len() != slots.len() || params.iter().any(|param| param.is_null()) {
            return refuse(format!(
                "{} parameters, none of them null; got {}",
                slots.len(),
                params.len()
            ));
        }
        let mut bytes = vec![0; end_of(&function.kernel)];
        for (slot, param) in slots.iter().zip(params) {
            // SAFETY: not null, so it points to this many readable bytes.
            let value = unsafe {
                std::slice::from_raw_parts(param.cast_const().cast::<u8>(), slot.size as usize)
            };
            bytes[slot.offset as usize..][..value.len()].copy_from_slice(value);
        }
        self.submit(
            stream,
            Work::Kernel {
                function,
                shape,
                start,
                params: bytes.into(),
            },
        )
    }
}

/// The length of the parameter buffer.
fn end_of(kernel: &SimKernel) -> usize {
    kernel
        .params
        .iter()
        .map(|slot| slot.offset as usize + slot.size as usize)
        .max()
        .unwrap_or(0)
}

/// Whether the parameters follow one another in what CUDA allows them.
fn well_formed(kernel: &SimKernel) -> bool {
    let ordered = kernel.params.windows(2).all(|pair| {
        pair[0]
            .offset
            .checked_add(pair[0].size)
            .is_some_and(|end| end <= pair[1].offset)
    });
    ordered && end_of(kernel) <= 32764
}
