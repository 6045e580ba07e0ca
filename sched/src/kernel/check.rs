//! What a kernel's check sees of a launch, and how it refuses one.

use streamweir_hal::driver::{DeviceInfo, ParamSlot};
use streamweir_trace::{AccessMode, ByteRange};
use thiserror::Error;

/// Why the arguments of a launch are not what the kernel takes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel would touch more than the buffer has.
    #[error("`{param}` has {has} elements, and the kernel touches {needs}")]
    Short {
        /// The parameter.
        param: &'static str,
        /// Elements from where the kernel's pointer points to the buffer's end.
        has: u64,
        /// Elements that the kernel touches; the most that can be said of more than
        /// 2^64.
        needs: u64,
    },
    /// The kernel reads words that are longer than the buffer's elements.
    #[error("`{param}` begins at {address:#x}, and the kernel needs a multiple of {align}")]
    Misaligned {
        /// The parameter.
        param: &'static str,
        /// Where its first element is.
        address: u64,
        /// What the address must be a multiple of, in bytes.
        align: u64,
    },
    /// A size is none that the kernel takes.
    #[error("{dimension} is {value}; it must be {requirement}")]
    Size {
        /// The size.
        dimension: &'static str,
        /// Its value.
        value: u64,
        /// What the kernel takes.
        requirement: &'static str,
    },
}

/// A buffer as a kernel's check sees it: how many elements it has from where the
/// kernel's pointer points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    param: &'static str,
    address: u64,
    bytes: u64,
    /// Bytes of an element.
    element: u64,
}

impl Extent {
    /// Its elements.
    #[inline]
    pub const fn len(&self) -> u64 {
        match self.bytes.checked_div(self.element) {
            Some(elements) => elements,
            None => u64::MAX,
        }
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Itself, when it has as many elements as the product of `dims` says.
    ///
    /// # Errors
    /// When it has fewer. A product beyond 2^64 is more than any buffer has.
    #[inline]
    pub fn holds<D: Into<u64>, const N: usize>(self, dims: [D; N]) -> Result<Self, Refusal> {
        let mut needs = Some(1_u64);
        let mut empty = false;
        for dim in dims {
            let dim = dim.into();
            empty |= dim == 0;
            needs = needs.and_then(|all| all.checked_mul(dim));
        }
        let needs = if empty { 0 } else { needs.unwrap_or(u64::MAX) };
        // As `needs <= self.len()`, without a division.
        match needs.checked_mul(self.element) {
            Some(bytes) if bytes <= self.bytes => Ok(self),
            _ => Err(self.short(needs)),
        }
    }

    /// Itself, when it has `bytes` bytes: for a buffer whose elements do not say what
    /// it is made of.
    ///
    /// # Errors
    /// When it has fewer.
    #[inline]
    pub const fn holds_bytes(self, bytes: u64) -> Result<Self, Refusal> {
        if bytes <= self.bytes {
            return Ok(self);
        }
        match self.element {
            0 => Err(self.short(bytes)),
            element => Err(self.short(bytes.div_ceil(element))),
        }
    }

    const fn short(&self, needs: u64) -> Refusal {
        Refusal::Short {
            param: self.param,
            has: self.len(),
            needs,
        }
    }

    /// Itself, when it begins at a multiple of `align` bytes.
    ///
    /// # Errors
    /// When it does not.
    pub const fn aligned(self, align: u64) -> Result<Self, Refusal> {
        if self.address.is_multiple_of(align) {
            return Ok(self);
        }
        Err(Refusal::Misaligned {
            param: self.param,
            address: self.address,
            align,
        })
    }
}

/// A table of buffers as a kernel's check sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableExtent {
    len: u64,
    least: Extent,
}

impl TableExtent {
    /// How many buffers it has.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Itself, when each of its buffers has as many elements as the product of `dims`
    /// says.
    ///
    /// # Errors
    /// When one has fewer.
    pub fn each_holds<D: Into<u64>, const N: usize>(self, dims: [D; N]) -> Result<Self, Refusal> {
        self.least.holds(dims)?;
        Ok(self)
    }
}

/// An address that was bound to a parameter: what of the buffer the kernel can
/// reach from it, and what of it the kernel touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) param: u32,
    /// Where in the parameter it stands, in bytes.
    pub(crate) at: u32,
    /// Whether it stands not there, but in the table whose address does.
    pub(crate) in_table: bool,
    pub(crate) address: u64,
    /// Bytes from the address to the end of the buffer.
    pub(crate) reach: u64,
    /// The bytes touched, as device addresses.
    pub(crate) touched: ByteRange,
    pub(crate) mode: AccessMode,
}

/// The arguments of a launch, for its check.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub(crate) slots: &'a [ParamSlot],
    pub(crate) bytes: &'a [u8],
    /// By parameter, in order: those from the next one on.
    pub(crate) bound: &'a [Bound],
    pub(crate) device: &'a DeviceInfo,
    pub(crate) next: usize,
}

impl<'a> Given<'a> {
    /// The device of the launch.
    pub fn device(&self) -> &'a DeviceInfo {
        self.device
    }

    /// The next argument, for the parameter `name`.
    #[inline]
    pub fn next(&mut self, name: &'static str) -> Argument<'a> {
        let index = self.next;
        self.next += 1;
        let slot = self.slots[index];
        // Addresses stand in the order of the parameters, so those in front are over.
        while let [first, rest @ ..] = self.bound
            && (first.param as usize) < index
        {
            self.bound = rest;
        }
        Argument {
            name,
            index: index as u32,
            at: 0,
            slot,
            params: self.bytes,
            bound: self.bound,
        }
    }
}

/// One argument, or a field of one.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    name: &'static str,
    index: u32,
    /// Where in the parameter it stands.
    at: u32,
    slot: ParamSlot,
    /// Of all parameters.
    params: &'a [u8],
    bound: &'a [Bound],
}

impl<'a> Argument<'a> {
    /// The field `name` of `size` bytes at `at`.
    #[inline]
    pub fn field(&self, name: &'static str, at: u32, size: u32) -> Self {
        Self {
            name,
            at: self.at + at,
            slot: ParamSlot {
                offset: self.slot.offset + at,
                size,
            },
            ..*self
        }
    }

    /// The value as it is passed.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        &self.params[self.slot.offset as usize..][..self.slot.size as usize]
    }

    /// The buffer, in elements of `size` bytes; `None` for a null pointer.
    #[inline]
    pub fn extent(&self, size: usize) -> Option<Extent> {
        let bound = self
            .bound
            .iter()
            .take_while(|bound| bound.param == self.index)
            .find(|bound| self.is_of(bound) && !bound.in_table)?;
        Some(Extent {
            param: self.name,
            address: bound.address,
            bytes: bound.reach,
            element: size as u64,
        })
    }

    /// A table of buffers, in elements of `size` bytes.
    pub fn table(&self, size: usize) -> TableExtent {
        let table = self.buffer(size_of::<u64>());
        let entries = self
            .bound
            .iter()
            .take_while(|bound| bound.param == self.index)
            .filter(|bound| self.is_of(bound) && bound.in_table);
        let least = entries.map(|entry| entry.reach).min().unwrap_or(u64::MAX);
        TableExtent {
            len: table.len(),
            least: Extent {
                bytes: least,
                element: size as u64,
                address: 0,
                ..table
            },
        }
    }

    #[inline]
    fn is_of(&self, bound: &Bound) -> bool {
        (bound.param, bound.at) == (self.index, self.at)
    }

    /// The buffer, which is not null.
    #[inline]
    pub fn buffer(&self, size: usize) -> Extent {
        self.extent(size).unwrap_or(Extent {
            param: self.name,
            address: 0,
            bytes: 0,
            element: size as u64,
        })
    }
}
