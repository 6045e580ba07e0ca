//! What a case works with: random inputs, device memory, launches.

use std::cell::Cell;
use std::ffi::c_void;

use bytemuck::Pod;
use half::bf16;
use streamweir_sched::driver::{
    Backend, DynDriver, FunctionHandle, LaunchShape, ModuleHandle, ModuleImage, Start, StreamHandle,
};
use streamweir_sched::kernel::{Kernel, PdlWait};

use super::Failure;
use super::random::Random;
use crate::dsv4;
use crate::reference::relative_error;

/// Bytes that outputs hold before a launch: as bf16 and f32 no number, as an
/// index no slot.
const POISON: u8 = 0xff;

/// Dynamic shared memory that a kernel has without asking for it.
const SHARED_ALWAYS: u32 = 48 << 10;

/// Nanoseconds that a late copy is late: far longer than a kernel takes to begin.
const LATE: u32 = 50_000;

/// Memory, a stream and a module of one device; all given back by
/// [`close`](Self::close).
pub(super) struct Bench<'a> {
    driver: &'a DynDriver,
    module: ModuleHandle,
    stream: StreamHandle,
    /// Addresses, and how many bytes each.
    memory: Vec<(u64, u64)>,
    /// Where all of it is put aside for a late copy, and how many bytes there are.
    aside: Cell<(u64, u64)>,
    launches: Cell<u32>,
    random: Random,
}

/// The value of one parameter.
pub(super) fn arg<T: Pod>(value: T) -> Vec<u8> {
    bytemuck::bytes_of(&value).to_vec()
}

// SAFETY comments below: a bench passes only handles and memory that it has made
// and gives back in `close` alone, and waits for the stream after each launch.
impl<'a> Bench<'a> {
    pub(super) fn new(
        driver: &'a DynDriver,
        image: &ModuleImage,
        seed: u64,
    ) -> Result<Self, Failure> {
        let module = driver.module_load(image)?;
        Ok(Self {
            driver,
            module,
            stream: driver.stream_create(0)?,
            memory: Vec::new(),
            aside: Cell::new((0, 0)),
            launches: Cell::new(0),
            random: Random(seed),
        })
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        // SAFETY: nothing is running, and the bench is gone afterwards.
        unsafe {
            let aside = [self.aside.get()];
            let aside = aside.into_iter().filter(|(_, len)| *len > 0);
            for (address, _) in self.memory.into_iter().chain(aside) {
                self.driver.mem_free(address)?;
            }
            self.driver.stream_destroy(self.stream)?;
            self.driver.module_unload(self.module)?;
        }
        Ok(())
    }

    /// The next number of the seed's sequence.
    pub(super) fn next(&mut self) -> u64 {
        self.random.next()
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        (self.next() % u64::from(bound)) as u32
    }

    /// A number from -1 to 1.
    pub(super) fn unit(&mut self) -> f32 {
        self.random.unit()
    }

    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }

    pub(super) fn halves(&mut self, count: usize) -> Vec<bf16> {
        self.random.halves(count)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Device memory that holds `values`.
    pub(super) fn upload<T: Pod>(&mut self, values: &[T]) -> Result<u64, Failure> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        // In whole words, for a late copy.
        let len = bytes.len().max(1).next_multiple_of(4) as u64;
        let address = self.driver.mem_alloc(len)?;
        self.memory.push((address, len));
        // SAFETY: live memory of at least this length that nothing uses.
        unsafe { self.driver.copy_to_device(address, bytes)? };
        Ok(address)
    }

    /// Writes `values` over what device memory holds.
    pub(super) fn overwrite<T: Pod>(&self, address: u64, values: &[T]) -> Result<(), Failure> {
        // SAFETY: live memory of at least this length that nothing uses.
        unsafe {
            self.driver
                .copy_to_device(address, bytemuck::cast_slice(values))?;
        }
        Ok(())
    }

    /// Device memory for `count` elements, poisoned.
    pub(super) fn output<T: Pod>(&mut self, count: usize) -> Result<u64, Failure> {
        self.upload(&vec![POISON; count * size_of::<T>()])
    }

    pub(super) fn download<T: Pod>(&self, address: u64, count: usize) -> Result<Vec<T>, Failure> {
        let mut values = vec![T::zeroed(); count];
        // SAFETY: memory of this length that no work writes.
        unsafe {
            self.driver
                .copy_to_host(bytemuck::cast_slice_mut(&mut values), address)?;
        }
        Ok(values)
    }

    /// Launches and waits. A kernel that declares to wait for what it follows is
    /// launched [early](Self::launch_late) now and then, where it can be.
    pub(super) fn launch<K: Kernel>(
        &self,
        shape: LaunchShape,
        args: Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        let launches = self.launches.get();
        self.launches.set(launches + 1);
        let waits = K::signature().pdl == PdlWait::OnAllPaths;
        if waits && self.starts_early() && (launches < 4 || launches.is_multiple_of(16)) {
            return self.launch_late::<K>(shape, args);
        }
        let function = self.function::<K>(shape, &args)?;
        self.enqueue(function, shape, Start::InOrder, args)?;
        self.wait()
    }

    /// Launches early, and waits. What is before the launch brings the contents of
    /// all memory only when the kernel is long there: if it reads before it waits it
    /// sees no number and no slot, and what it writes is overwritten.
    pub(super) fn launch_late<K: Kernel>(
        &self,
        shape: LaunchShape,
        args: Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        let driver = self.driver;
        let whole: u64 = self.memory.iter().map(|(_, len)| len).sum();
        let table_len = self.memory.len() as u64 * 24;
        let aside = self.room_aside(table_len + whole)?;
        let mut table = Vec::new();
        let mut from = aside + table_len;
        for &(to, len) in &self.memory {
            table.extend([to, from, len / 4]);
            from += len;
        }
        // SAFETY: live memory of these lengths, in order on one stream.
        unsafe {
            driver.copy_to_device(aside, bytemuck::cast_slice(&table))?;
            for entry in table.chunks_exact(3) {
                driver.copy_async(self.stream, entry[1], entry[0], entry[2] * 4)?;
                driver.fill_async(self.stream, entry[0], POISON, entry[2] * 4)?;
            }
        }
        let late = vec![arg(aside), arg(self.memory.len() as u32), arg(LATE)];
        let late_shape = dsv4::testing::copy_late::shape();
        // Loaded before anything runs: loading may wait for what does.
        let copy = self.function::<dsv4::testing::copy_late>(late_shape, &late)?;
        let function = self.function::<K>(shape, &args)?;
        self.wait()?;
        self.enqueue(copy, late_shape, Start::InOrder, late)?;
        self.enqueue(function, shape, Start::Early, args)?;
        self.wait()
    }

    /// Memory of at least `bytes` bytes that is no case's. Nothing uses it between
    /// launches.
    fn room_aside(&self, bytes: u64) -> Result<u64, Failure> {
        let (old, len) = self.aside.get();
        if len >= bytes {
            return Ok(old);
        }
        if len > 0 {
            self.aside.set((0, 0));
            // SAFETY: every launch has been waited for.
            unsafe { self.driver.mem_free(old)? };
        }
        let room = self.driver.mem_alloc(bytes)?;
        self.aside.set((room, bytes));
        Ok(room)
    }

    fn wait(&self) -> Result<(), Failure> {
        // SAFETY: a live handle.
        unsafe { self.driver.stream_synchronize(self.stream)? };
        Ok(())
    }

    /// The kernel, which takes these arguments and may be launched in this shape.
    fn function<K: Kernel>(
        &self,
        shape: LaunchShape,
        args: &[Vec<u8>],
    ) -> Result<FunctionHandle, Failure> {
        // SAFETY: the module is live.
        let function = unsafe { self.driver.module_function(self.module, K::SYMBOL)? };
        // SAFETY: the function is live.
        let loaded = unsafe { self.driver.function_params(function)? };
        let declared = K::signature().slots();
        let sizes: Vec<usize> = args.iter().map(Vec::len).collect();
        let expected: Vec<usize> = loaded.iter().map(|slot| slot.size as usize).collect();
        if loaded != declared || sizes != expected {
            return Err(Failure::new(format!(
                "{}: declared {declared:?}, loaded {loaded:?}, passed {sizes:?}",
                K::SYMBOL
            )));
        }
        if shape.shared_bytes > SHARED_ALWAYS {
            // SAFETY: the function is live.
            unsafe {
                self.driver
                    .function_shared_limit(function, shape.shared_bytes)?;
            }
        }
        Ok(function)
    }

    fn enqueue(
        &self,
        function: FunctionHandle,
        shape: LaunchShape,
        start: Start,
        mut args: Vec<Vec<u8>>,
    ) -> Result<(), Failure> {
        let mut params: Vec<*mut c_void> =
            args.iter_mut().map(|arg| arg.as_mut_ptr().cast()).collect();
        // SAFETY: `function` has looked at the parameters, and the memory lives
        // until the stream is idle. Whether a kernel that starts early waits is what
        // is tested; if it does not, it meets values that are masked or replaced.
        unsafe {
            self.driver
                .launch(self.stream, function, shape, start, &mut params)?;
        }
        Ok(())
    }

    /// Launches twice, each time with fresh outputs of `count` elements, and
    /// gives the result when both have the same bits. `args` makes the
    /// parameters from the output's address.
    pub(super) fn twice<K: Kernel, T: Pod>(
        &mut self,
        shape: LaunchShape,
        count: usize,
        args: impl Fn(u64) -> Vec<Vec<u8>>,
    ) -> Result<Vec<T>, Failure> {
        let mut run = || {
            let output = self.output::<T>(count)?;
            self.launch::<K>(shape, args(output))?;
            self.download::<T>(output, count)
        };
        let (first, second) = (run()?, run()?);
        if bytemuck::cast_slice::<T, u8>(&first) != bytemuck::cast_slice::<T, u8>(&second) {
            return Err(Failure::new(format!(
                "{}: two runs gave different bits",
                K::SYMBOL
            )));
        }
        Ok(first)
    }

    /// The device's compute capability.
    pub(super) fn capability(&self) -> (u32, u32) {
        self.driver.info().capability
    }

    /// How often a launch is repeated to see that its bits do not change: a
    /// twin is a function, a card runs blocks and threads in any order.
    pub(super) fn runs(&self) -> usize {
        if self.is_sim() { 2 } else { 100 }
    }

    fn is_sim(&self) -> bool {
        self.driver.info().backend == Backend::Sim
    }

    /// Whether kernels can start early. A twin begins when all before it is done.
    pub(super) fn starts_early(&self) -> bool {
        !self.is_sim() && self.capability() >= (9, 0)
    }

    /// Runs `work` `runs` times over the same output of `count` elements, poisoned
    /// before each, and gives the result when all have the same bits.
    pub(super) fn repeat<T: Pod>(
        &mut self,
        runs: usize,
        count: usize,
        work: impl Fn(&Self, u64) -> Result<(), Failure>,
    ) -> Result<Vec<T>, Failure> {
        let poison = vec![POISON; count * size_of::<T>()];
        let output = self.upload(&poison)?;
        let mut first = None;
        for run in 0..runs.max(1) {
            // SAFETY: live memory of this length that nothing uses.
            unsafe { self.driver.copy_to_device(output, &poison)? };
            work(self, output)?;
            let result = self.download::<T>(output, count)?;
            let first = first.get_or_insert_with(|| result.clone());
            if bytemuck::cast_slice::<T, u8>(first) != bytemuck::cast_slice::<T, u8>(&result) {
                return Err(Failure::new(format!(
                    "run {run} gave other bits than run 0"
                )));
            }
        }
        Ok(first.unwrap_or_default())
    }
}

/// Refuses a result further from the reference than `tolerance`.
pub(super) fn close_to(actual: &[f64], expected: &[f64], tolerance: f64) -> Result<(), Failure> {
    let error = relative_error(actual, expected);
    // Not a number must fail too.
    if error <= tolerance {
        return Ok(());
    }
    let worst = actual
        .iter()
        .zip(expected)
        .enumerate()
        .filter(|(_, (a, e))| a != e)
        .max_by(|(_, (a, e)), (_, (b, f))| (*a - *e).abs().total_cmp(&(*b - *f).abs()))
        .map(|(at, (a, e))| format!("; worst at {at}: {a} instead of {e}"))
        .unwrap_or_default();
    Err(Failure::new(format!(
        "relative error {error:.3e} exceeds {tolerance:.0e}{worst}"
    )))
}

/// Refuses results that are not equal.
pub(super) fn equal<T: PartialEq + std::fmt::Debug>(
    actual: &[T],
    expected: &[T],
) -> Result<(), Failure> {
    if actual.len() != expected.len() {
        return Err(Failure::new("the lengths differ"));
    }
    match actual.iter().zip(expected).position(|(a, e)| a != e) {
        None => Ok(()),
        Some(at) => Err(Failure::new(format!(
            "element {at} is {:?}; expected {:?}",
            actual[at], expected[at]
        ))),
    }
}

pub(super) fn widen(values: &[bf16]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

pub(super) fn widen_floats(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}
