//! Which algorithm of those that a library proposes is the fastest here.
//!
//! A library guesses by the sizes. The guess is some percent off now and then, for
//! some rows and not for others, and a product of main is paid for in every layer.

use half::bf16;
use streamweir::kernels::gemm::{Gemm, GemmOutput};
use streamweir::{CaptureOptions, Device, Graph, Persistent};

use crate::dsv4::error::Error;
use crate::dsv4::timer::Timer;

/// Products in a row, over the weights of one layer after the other: of a dozen layers
/// or more, far more than a cache holds. A model of few layers has its small weights
/// at hand in a step, too, as far as the others leave them there.
const LAPS: usize = 16;
/// Replays of each algorithm, in turn.
const REPLAYS: usize = 7;
/// What another algorithm takes at the most of the time of the library's first choice
/// to be chosen instead: a smaller difference is noise.
const CLEARLY: f64 = 0.99;

/// The fastest of at least one product over these weights. Where there is one only,
/// as on the simulated device, which has no clock, nothing is measured. What cannot be
/// measured, as when the library proposes an algorithm and then refuses it, is passed
/// over.
///
/// # Errors
/// When none can be measured: why the first could not.
pub(super) fn fastest<O: GemmOutput>(
    device: &Device,
    mut proposals: Vec<Gemm<O>>,
    weights: &[&Persistent<bf16>],
) -> Result<Gemm<O>, Error> {
    if proposals.len() == 1 {
        return Ok(proposals.swap_remove(0));
    }
    let mut measured = Vec::new();
    let mut refused = None;
    for product in proposals {
        match chain(device, &product, weights) {
            Ok(chain) => measured.push((product, chain)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if let (true, Some(error)) = (measured.is_empty(), refused) {
        return Err(error);
    }
    let chains: Vec<&Graph> = measured.iter().map(|(_, chain)| chain).collect();
    let best = clearly_least(&Timer::new(device)?.in_turn(&chains, REPLAYS)?);
    Ok(measured.swap_remove(best).0)
}

fn chain<O: GemmOutput>(
    device: &Device,
    product: &Gemm<O>,
    weights: &[&Persistent<bf16>],
) -> Result<Graph, Error> {
    let shape = product.shape();
    let ones = vec![bf16::ONE; shape.x_len()];
    let x = device.persistent_from("x of a measured product", &ones)?;
    let y = device.persistent::<O>("y of a measured product", shape.y_len())?;
    let options = CaptureOptions::new("measured product");
    let (graph, ()) = device.capture::<_, Error>(options, |capture| {
        let main = capture.origin();
        for weight in weights.iter().cycle().take(LAPS) {
            product.launch(&main, &x, *weight, &y)?;
        }
        Ok(())
    })?;
    Ok(graph)
}

/// The place of the least, or 0 where that is not clearly less than the first.
fn clearly_least(times: &[f64]) -> usize {
    let least = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b]));
    least
        .filter(|&least| times[least] < times[0] * CLEARLY)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_left_for_what_is_clearly_faster() {
        assert_eq!(clearly_least(&[10.0]), 0);
        assert_eq!(clearly_least(&[10.0, 9.95, 11.0]), 0);
        assert_eq!(clearly_least(&[10.0, 9.8, 9.7, 9.75]), 2);
    }
}
