//! Matrix products on the simulated device, and what no product takes.

use half::bf16;
use streamweir_kernels::conformance;
use streamweir_kernels::gemm::{GemmLibrary, GemmOptions, GemmShape};
use streamweir_sched::{CaptureOptions, Device, Error};

#[test]
fn products_agree_with_the_reference() {
    let device = Device::sim(1);
    for (seed, shape) in [
        GemmShape::new(1, 8, 8),
        GemmShape::new(5, 72, 136),
        GemmShape::grouped(3, 4, 16, 72),
    ]
    .into_iter()
    .enumerate()
    {
        conformance::gemm(&device, shape, seed as u64).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
    }
}

#[test]
fn sizes_that_no_product_has_are_named() {
    let library = GemmLibrary::new(&Device::sim(0)).unwrap();
    let texts = [
        GemmShape::new(0, 8, 8),
        GemmShape::new(1, 12, 8),
        GemmShape::new(1, 8, 4),
        GemmShape::grouped(1, 70_000, 8, 8),
    ]
    .map(|shape| {
        let refused = library.gemm::<bf16>(shape, GemmOptions::default());
        refused.unwrap_err().to_string()
    });
    assert_eq!(
        texts,
        [
            "kernel gemm: tokens is 0; it must be at least 1",
            "kernel gemm: width is 12; it must be a positive multiple of 8 (16-byte rows)",
            "kernel gemm: rows is 4; it must be a positive multiple of 8 (16-byte rows)",
            "kernel gemm: groups is 70000; it must be such that a token's values are fewer than \
             2^31",
        ]
    );
}

#[test]
fn buffers_that_are_too_short_are_named() {
    let device = Device::sim(0);
    let gemm = GemmLibrary::new(&device)
        .unwrap()
        .gemm::<f32>(GemmShape::new(2, 16, 8), GemmOptions::default())
        .unwrap();
    let x = device.persistent::<bf16>("x", 31).unwrap();
    let weight = device.persistent::<bf16>("weight", 128).unwrap();
    let y = device.persistent::<f32>("y", 16).unwrap();
    let result = device.capture(CaptureOptions::new("short"), |cap| {
        gemm.launch(&cap.origin(), &x, &weight, &y)
    });
    let error = result.map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, Error::Length { buffer, has: 31, .. } if buffer.contains('x')),
        "{error}"
    );
}
