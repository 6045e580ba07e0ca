//! What the benches that need a GPU share.

use streamweir::Device;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Runs `measure` on the first GPU. Where there is none it says so and succeeds,
/// unless `STREAMWEIR_REQUIRE_GPU=1` makes that a failure.
pub(crate) fn on_a_gpu(measure: impl FnOnce(Device) -> Outcome) -> Outcome {
    match Device::cuda(0) {
        Ok(device) => measure(device),
        Err(error) if std::env::var_os("STREAMWEIR_REQUIRE_GPU").is_some_and(|v| v == "1") => {
            Err(error.into())
        }
        Err(error) => {
            println!("not run: {error}");
            Ok(())
        }
    }
}
