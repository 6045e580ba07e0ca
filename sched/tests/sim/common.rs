//! Kernels and short forms shared by the tests.

use std::ffi::c_void;

use streamweir_sched::driver::sim::SimKernel;
use streamweir_sched::driver::{
    CaptureMode, Driver, DriverResult, EventScope, ExecHandle, FunctionHandle, GraphHandle,
    LaunchShape, ModuleHandle, ModuleImage, Start, StreamHandle,
};
use streamweir_sched::kernel;
use streamweir_sched::kernel::{In, InOut, Kernel, Out, twin};

kernel! {
    /// `output[i] = input[i] + add`, four elements a block.
    pub(crate) fn add_to(input: In<u32>, output: Out<u32>, add: u32, len: u32);
    /// `data[i] += 1`, four elements a block.
    pub(crate) fn bump(data: InOut<u32>, len: u32);
}

pub(crate) const PER_BLOCK: u32 = 4;

pub(crate) fn kernels() -> Vec<SimKernel> {
    let part = |index: u32, len: u32| {
        let start = index * PER_BLOCK;
        (
            start as usize,
            len.saturating_sub(start).min(PER_BLOCK) as usize,
        )
    };
    vec![
        twin::<add_to>(move |block, (input, output, add, len)| {
            let (start, count) = part(block.index()[0], len);
            let sums: Vec<u32> = block
                .read::<u32>(input.at(start), count)?
                .iter()
                .map(|value| value + add)
                .collect();
            block.write(output.at(start), &sums)
        }),
        twin::<bump>(move |block, (data, len)| {
            let (start, count) = part(block.index()[0], len);
            let sums: Vec<u32> = block
                .read::<u32>(data.at(start), count)?
                .iter()
                .map(|value| value + 1)
                .collect();
            block.write(data.at(start), &sums)
        }),
    ]
}

pub(crate) struct Code {
    pub(crate) module: ModuleHandle,
    pub(crate) add_to: FunctionHandle,
    pub(crate) bump: FunctionHandle,
}

pub(crate) fn load(driver: &dyn Driver) -> DriverResult<Code> {
    let module = driver.module_load(&ModuleImage::Sim(kernels()))?;
    let function = |symbol| unsafe { driver.module_function(module, symbol) };
    match (function(add_to::SYMBOL), function(bump::SYMBOL)) {
        (Ok(first), Ok(second)) => Ok(Code {
            module,
            add_to: first,
            bump: second,
        }),
        (Err(error), _) | (_, Err(error)) => {
            unsafe { driver.module_unload(module) }?;
            Err(error)
        }
    }
}

pub(crate) fn shape(len: u32) -> LaunchShape {
    LaunchShape {
        grid: [len.div_ceil(PER_BLOCK), 1, 1],
        block: [PER_BLOCK, 1, 1],
        shared_bytes: 0,
    }
}

impl Code {
    pub(crate) fn add_to(
        &self,
        driver: &dyn Driver,
        stream: StreamHandle,
        (mut from, mut to): (u64, u64),
        mut add: u32,
        mut len: u32,
    ) -> DriverResult<()> {
        let mut params: [*mut c_void; 4] = [
            (&raw mut from).cast(),
            (&raw mut to).cast(),
            (&raw mut add).cast(),
            (&raw mut len).cast(),
        ];
        unsafe { driver.launch(stream, self.add_to, shape(len), Start::InOrder, &mut params) }
    }

    pub(crate) fn bump(
        &self,
        driver: &dyn Driver,
        stream: StreamHandle,
        mut data: u64,
        mut len: u32,
    ) -> DriverResult<()> {
        let mut params: [*mut c_void; 2] = [(&raw mut data).cast(), (&raw mut len).cast()];
        unsafe { driver.launch(stream, self.bump, shape(len), Start::InOrder, &mut params) }
    }
}

pub(crate) fn order(driver: &dyn Driver, from: StreamHandle, to: StreamHandle) -> DriverResult<()> {
    let event = driver.event_create(false)?;
    let ordered = unsafe {
        driver
            .event_record(event, from, EventScope::Internal)
            .and_then(|()| driver.stream_wait(to, event, EventScope::Internal))
    };
    let destroyed = unsafe { driver.event_destroy(event) };
    ordered.and(destroyed)
}

pub(crate) fn begin(driver: &dyn Driver, stream: StreamHandle) -> DriverResult<()> {
    unsafe { driver.capture_begin(stream, CaptureMode::ThreadLocal) }
}

pub(crate) fn end(driver: &dyn Driver, stream: StreamHandle) -> DriverResult<GraphHandle> {
    unsafe { driver.capture_end(stream) }
}

pub(crate) fn replay(
    driver: &dyn Driver,
    exec: ExecHandle,
    stream: StreamHandle,
) -> DriverResult<()> {
    unsafe {
        driver.exec_launch(exec, stream)?;
        driver.stream_synchronize(stream)
    }
}

pub(crate) fn upload(driver: &dyn Driver, values: &[u32]) -> u64 {
    let address = driver.mem_alloc(size_of_val(values) as u64).unwrap();
    write(driver, address, values);
    address
}

pub(crate) fn write(driver: &dyn Driver, address: u64, values: &[u32]) {
    unsafe { driver.copy_to_device(address, bytemuck::cast_slice(values)) }.unwrap();
}

pub(crate) fn download(driver: &dyn Driver, address: u64, len: usize) -> Vec<u32> {
    let mut values = vec![0_u32; len];
    unsafe { driver.copy_to_host(bytemuck::cast_slice_mut(&mut values), address) }.unwrap();
    values
}
