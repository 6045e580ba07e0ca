//! Instruments: what a capture can be made to do besides its work, so that an
//! error shows itself.
//!
//! | instrument | what it adds |
//! | --- | --- |
//! | [`Poison`] | fills of scratch whose content nobody may rely on |
//! | [`Taps`] | copies of what each command read and wrote |
//!
//! Each is recorded work like any other: the verifier sees it, graphs, planned
//! captures and eager runs have it alike. A capture without instruments has no
//! node and makes no call for them.

mod element;
mod poison;
mod readings;
mod taps;

use std::panic::Location;
use std::sync::Arc;

use streamweir_alloc::Block;
use streamweir_trace::ScopeId;

pub(in crate::capture) use self::element::ElementKind;
pub(in crate::capture) use self::poison::Dropped;
pub use self::poison::Poison;
use self::poison::Reuse;
pub use self::readings::{Difference, Differential, Readings};
use self::taps::Tapping;
pub use self::taps::Taps;
use super::options::CaptureOptions;
use super::session::Mode;
use crate::device::DeviceInner;
use crate::error::{Error, Result};

/// The instruments of one capture.
pub(in crate::capture) struct Instruments {
    poison: Poison,
    reuse: Reuse,
    taps: Option<Tapping>,
    /// By block.
    taken: Vec<Taken>,
    /// What is recorded now is an instrument's own.
    busy: bool,
}

/// A block as it was taken.
#[derive(Clone, Copy)]
struct Taken {
    block: Block,
    scope: Option<ScopeId>,
    line: &'static Location<'static>,
    element: ElementKind,
    /// A library's, which alone knows what is in it.
    workspace: bool,
}

impl Instruments {
    /// Those that the options ask for; none in most captures.
    ///
    /// # Errors
    /// When a planned capture is to poison what is used again, or taps are in
    /// use or of another device.
    pub(in crate::capture) fn new(
        options: &CaptureOptions,
        device: &Arc<DeviceInner>,
        mode: Mode,
    ) -> Result<Option<Box<Self>>> {
        let (poison, taps) = (options.poison, &options.taps);
        if poison == Poison::Off && taps.is_none() {
            return Ok(None);
        }
        if poison == Poison::Reused && mode == Mode::Planned {
            return Err(Error::Unplannable {
                what: "poisoning the bytes that are used again".into(),
                capture: options.name.clone(),
                instead: "which bytes those are is known when all has been recorded, too late for \
                          another node: choose Poison::Every, or capture live",
            });
        }
        let taps = taps.as_ref();
        Ok(Some(Box::new(Self {
            poison,
            reuse: Reuse::default(),
            taps: taps
                .map(|taps| taps.begin(device, &options.name))
                .transpose()?,
            taken: Vec::new(),
            busy: false,
        })))
    }
}
