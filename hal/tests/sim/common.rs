//! Kernels and short forms shared by the tests, and by those of the crate above.

use std::ffi::c_void;
use std::sync::Arc;

use streamweir_hal::driver::{
    CaptureMode, Driver, DriverResult, EventScope, ExecHandle, FunctionHandle, GraphHandle,
    LaunchShape, ModuleHandle, ModuleImage, ParamSlot, Start, StreamHandle,
};
use streamweir_hal::sim::{SimBlock, SimFault, SimKernel};

pub(crate) const PER_BLOCK: u32 = 4;

/// Four elements a block: the first of a block, and how many it has.
fn part(block: &SimBlock<'_>, len: u32) -> (u64, usize) {
    let start = block.index()[0] * PER_BLOCK;
    let count = len.saturating_sub(start).min(PER_BLOCK);
    (4 * u64::from(start), count as usize)
}

fn kernel(
    symbol: &'static str,
    sizes: &[u32],
    run: impl Fn(&mut SimBlock<'_>) -> Result<(), SimFault> + Send + Sync + 'static,
) -> SimKernel {
    let mut offset = 0;
    let params = sizes.iter().map(|&size| {
        let slot = ParamSlot { offset, size };
        offset += size;
        slot
    });
    SimKernel {
        symbol,
        params: params.collect(),
        run: Arc::new(run),
    }
}

pub(crate) fn kernels() -> Vec<SimKernel> {
    vec![
        // `output[i] = input[i] + add`.
        kernel(ADD_TO, &[8, 8, 4, 4], |block| {
            let (input, output): (u64, u64) = (block.param(0)?, block.param(8)?);
            let (add, len): (u32, u32) = (block.param(16)?, block.param(20)?);
            let (start, count) = part(block, len);
            let values = block.read::<u32>(input + start, count)?;
            let sums: Vec<u32> = values.iter().map(|value| value + add).collect();
            block.write(output + start, &sums)
        }),
        // `data[i] += 1`.
        kernel(BUMP, &[8, 4], |block| {
            let (data, len): (u64, u32) = (block.param(0)?, block.param(8)?);
            let (start, count) = part(block, len);
            let values = block.read::<u32>(data + start, count)?;
            let sums: Vec<u32> = values.iter().map(|value| value + 1).collect();
            block.write(data + start, &sums)
        }),
    ]
}

const ADD_TO: &str = "add_to";
const BUMP: &str = "bump";

pub(crate) struct Code {
    pub(crate) module: ModuleHandle,
    pub(crate) add_to: FunctionHandle,
    pub(crate) bump: FunctionHandle,
}

pub(crate) fn load(driver: &dyn Driver) -> DriverResult<Code> {
    let module = driver.module_load(&ModuleImage::Sim(kernels()))?;
    let function = |symbol| unsafe { driver.module_function(module, symbol) };
    match (function(ADD_TO), function(BUMP)) {
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
    LaunchShape::from(([len.div_ceil(PER_BLOCK), 1, 1], [PER_BLOCK, 1, 1]))
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
