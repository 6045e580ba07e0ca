//! Which device `--device` means.

use std::str::FromStr;

use streamweir::Device;

use crate::exit::Failure;

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Auto,
    Sim,
    Cuda(u32),
}

/// A device, and whether it stands in for a CUDA device that is not there.
pub(crate) struct Opened {
    pub(crate) device: Device,
    pub(crate) no_cuda: bool,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("cuda:")) {
            ("auto", _) => Ok(Self::Auto),
            ("sim", _) => Ok(Self::Sim),
            (_, Some(ordinal)) => match ordinal.parse() {
                Ok(ordinal) => Ok(Self::Cuda(ordinal)),
                Err(_) => Err(format!(
                    "`{ordinal}` is no device number; the first device is `cuda:0`"
                )),
            },
            _ => Err("the devices are `auto`, `sim` and `cuda:N`, such as `cuda:0`".to_owned()),
        }
    }
}

impl Choice {
    /// Opens the device.
    pub(crate) fn open(self, seed: u64) -> Result<Opened, Failure> {
        let opened = |device, no_cuda| Opened { device, no_cuda };
        match self {
            Self::Sim => Ok(opened(Device::sim(seed), false)),
            Self::Auto => Ok(match cuda(0) {
                Ok(device) => opened(device, false),
                Err(_) => opened(Device::sim(seed), true),
            }),
            Self::Cuda(ordinal) => Ok(opened(cuda(ordinal)?, false)),
        }
    }
}

#[cfg(feature = "cuda")]
fn cuda(ordinal: u32) -> Result<Device, Failure> {
    Ok(Device::cuda(ordinal)?)
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: u32) -> Result<Device, Failure> {
    Err(Failure::new(
        "this build has no CUDA backend: build with the feature `cuda`, or use `--device sim`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("sim".parse(), Ok(Choice::Sim));
        assert_eq!("cuda:3".parse(), Ok(Choice::Cuda(3)));
        for wrong in ["", "cuda", "cuda:", "cuda:-1", "cuda:x", "gpu", "SIM"] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
        }
    }
}
