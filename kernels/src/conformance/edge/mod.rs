//! The promise of each declaration, tried: no launch that its check lets through
//! touches anything but the buffers, whatever these contain.
//!
//! Each kernel has one launch here, in buffers of exactly the lengths that it asks for.
//! [`short`] makes one of them an element shorter at a time, [`hostile`] fills all of
//! them with lengths, ids and slots that nothing has.

mod launches;
mod maker;

use streamweir_sched::kernel::{Refusal, Role};
use streamweir_sched::{Device, Error, KernelError};

use self::launches::LAUNCHES;
use self::maker::Maker;
use super::Failure;
use crate::dsv4::Code;

/// The kernels that are launched here, by symbol.
pub fn launched() -> impl Iterator<Item = &'static str> {
    LAUNCHES.iter().map(|launch| (launch.signature)().symbol)
}

/// Launches each kernel with one of its buffers an element too short, each in turn.
/// Every one of these is refused, by the name of the buffer.
///
/// # Errors
/// The launch that was let through, or refused for another reason.
pub fn short(device: &Device, code: &Code) -> Result<(), Failure> {
    for launch in LAUNCHES {
        let signature = (launch.signature)();
        for param in signature.params {
            if param.role == Role::Scalar {
                continue;
            }
            let maker = Maker::new(device, code, 1).short_of(param.name);
            match (launch.run)(&maker) {
                Err(Error::Kernel(KernelError::Arguments {
                    why: Refusal::Short { param: found, .. },
                    ..
                })) if found == param.name => {}
                other => {
                    return Err(Failure::new(format!(
                        "{} with a short `{}`: {other:?}",
                        signature.symbol, param.name
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Launches each kernel over buffers that are full of what nothing has. On a device
/// with guards, the guards around every buffer are as they were.
///
/// # Errors
/// The launch that failed, or damaged a guard.
pub fn hostile(device: &Device, code: &Code, seed: u64) -> Result<(), Failure> {
    for launch in LAUNCHES {
        let symbol = (launch.signature)().symbol;
        let maker = Maker::new(device, code, seed);
        let failed = |error: Error| Failure::new(format!("{symbol} with seed {seed}: {error}"));
        (launch.run)(&maker).map_err(failed)?;
        let report = device.check_guards().map_err(failed)?;
        if !report.is_clean() {
            return Err(Failure::new(format!("{symbol} with seed {seed}: {report}")));
        }
    }
    Ok(())
}
