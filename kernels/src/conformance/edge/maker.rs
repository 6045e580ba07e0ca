//! Buffers of exactly the lengths that a launch asks for, full of what nothing has.

use std::any::TypeId;
use std::cell::RefCell;

use streamweir_sched::kernel::{Element, Kernel};
use streamweir_sched::{CheckedArgs, Device, Dyn, Error, Persistent};

use super::super::random::Random;
use crate::dsv4::{AttentionSplits, Code, Shipped, paged_attention, sparse_attention};

// The sizes of all launches.
pub(super) const TOKENS: u32 = 3;
pub(super) const HEADS: u32 = 5;
pub(super) const WIDTH: u32 = 72;
pub(super) const STRIDE: u32 = 4;
pub(super) const PAGES: u32 = 6;
pub(super) const ENTRIES: u32 = 100;
pub(super) const ROPE_ROWS: u32 = 4;
pub(super) const SLOTS: u32 = 4;
pub(super) const EPSILON: f32 = 1e-6;
pub(super) const SPLITS: AttentionSplits = AttentionSplits::new(TOKENS, HEADS, 2);

/// Makes the buffers of a launch, and launches.
pub(super) struct Maker<'a> {
    device: &'a Device,
    code: &'a Code,
    /// The buffer that is an element too short.
    short: Option<&'static str>,
    /// What the buffers are filled from.
    random: RefCell<Random>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(device: &'a Device, code: &'a Code, seed: u64) -> Self {
        Self {
            device,
            code,
            short: None,
            random: RefCell::new(Random(seed)),
        }
    }

    /// The same with the buffer of this name an element too short.
    pub(super) fn short_of(self, name: &'static str) -> Self {
        let short = Some(name);
        Self { short, ..self }
    }

    pub(super) fn buffer<T: Element>(
        &self,
        name: &'static str,
        len: u64,
    ) -> Result<Persistent<T>, Error> {
        let len = len as usize - usize::from(self.short == Some(name));
        let random = &mut *self.random.borrow_mut();
        let bytes: Vec<u8> = match TypeId::of::<T>() == TypeId::of::<i32>() {
            true => (0..len)
                .flat_map(|_| number(random).to_le_bytes())
                .collect(),
            false => (0..len * size_of::<T>())
                .map(|_| random.next() as u8)
                .collect(),
        };
        let buffer = self.device.persistent(name, len)?;
        let values: Vec<T> = bytes
            .chunks_exact(size_of::<T>())
            .map(bytemuck::pod_read_unaligned)
            .collect();
        buffer.upload(&values)?;
        Ok(buffer)
    }

    pub(super) fn tokens<T: Element>(
        &self,
        name: &'static str,
        each: u32,
    ) -> Result<Persistent<T>, Error> {
        self.buffer(name, u64::from(TOKENS) * u64::from(each))
    }

    pub(super) fn launch<K: Shipped, A: CheckedArgs<K, Dyn>>(&self, args: A) -> Result<(), Error> {
        let kernel = self.code.kernel::<K>()?;
        let shared = sparse_attention::shape(&SPLITS, self.device.info().capability);
        if [sparse_attention::SYMBOL, paged_attention::SYMBOL].contains(&K::SYMBOL)
            && let Ok(shape) = shared
        {
            kernel.allow_shared(shape.shared_bytes)?;
        }
        self.device
            .eager::<_, Error>(K::SYMBOL, |run| run.origin().launch(&kernel, args))?;
        self.device.synchronize()
    }
}

/// A length, an id or a slot, as likely as not one that nothing has.
fn number(random: &mut Random) -> i32 {
    const ODD: [i32; 12] = [
        i32::MIN,
        i32::MAX,
        i32::MIN + 1,
        i32::MAX - 1,
        -1,
        0,
        1,
        PAGES as i32,
        PAGES as i32 - 1,
        64 * PAGES as i32,
        128 * PAGES as i32,
        ENTRIES as i32 + 1,
    ];
    let word = random.next();
    match word % 4 {
        0 => (word >> 32) as i32,
        1 => (word >> 32) as i32 % 128,
        _ => ODD[(word >> 32) as usize % ODD.len()],
    }
}
