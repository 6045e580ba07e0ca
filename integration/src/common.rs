//! What several files share.

use rand::Rng;
use rand::rngs::StdRng;
use streamweir::Device;
use streamweir::driver::Backend;

/// `len` numbers from -1 to 1.
pub(crate) fn units(random: &mut StdRng, len: usize) -> impl Iterator<Item = f32> {
    // Models take half a billion of these: a whole word each would be thrown
    // away for the most part.
    let mut bytes = vec![0_u8; 2 * len];
    random.fill_bytes(&mut bytes);
    (0..len)
        .map(move |i| i16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
        .map(|number| f32::from(number) / 32768.0)
}

/// The device in reports: `sim`, or `cuda:0` and its name.
pub(crate) fn name_of(device: &Device) -> String {
    let info = device.info();
    match info.backend {
        Backend::Sim => Backend::Sim.to_string(),
        backend @ (Backend::Cuda | Backend::Other(_)) => {
            format!("{backend}:{} {}", info.ordinal, info.name)
        }
    }
}
