//! The CPU twins against the references, on the simulated device; sizes and
//! errors of the launch shapes.

use streamweir_kernels::conformance::{Size, suite};
use streamweir_kernels::dsv4::{self, AttentionSplits};
use streamweir_kernels::layout::{IndexKeyPages, LatentFp8Pages, LatentPages};
use streamweir_sched::driver::sim::SimDriver;
use streamweir_sched::driver::{Backend, Driver, DynDriver, ModuleImage};

/// All cases at a size, with seeds of their own.
fn conforms(size: Size, seeds: std::ops::Range<u64>) {
    let sim = SimDriver::new(1);
    let image = dsv4::image(sim.info()).unwrap();
    let driver: DynDriver = sim.clone();
    for seed in seeds {
        for case in suite() {
            if let Err(failure) = case.run(&driver, &image, size, seed) {
                panic!("{} with seed {seed}: {failure}", case.name);
            }
        }
    }
    assert_eq!(sim.live(), Default::default(), "all is given back");
}

#[test]
fn twins_agree_with_the_references() {
    conforms(Size::TINY, 0..8);
}

#[test]
fn twins_agree_at_other_sizes() {
    let size = Size {
        tokens: 13,
        width: 8,
        heads: 1,
        dim: 8,
        index_heads: 70,
        index_dim: 8,
        entries: 67,
        k: 64,
    };
    conforms(size, 0..4);
}

#[test]
fn every_source_has_a_twin() {
    let program = dsv4::program();
    let kernels: usize = program
        .headers
        .iter()
        .map(|h| h.source.matches("extern \"C\" __global__").count())
        .sum();
    let twins = dsv4::twins();
    assert_eq!(kernels, twins.len());
    for twin in &twins {
        let declaration = format!(" {}(", twin.symbol);
        assert!(
            program
                .headers
                .iter()
                .any(|h| h.source.contains(&declaration)),
            "{} has no source",
            twin.symbol
        );
    }
}

#[test]
fn launch_shapes_cover_the_work() {
    let shape = dsv4::query_projection::shape(9, 64, 33).unwrap();
    assert_eq!((shape.grid, shape.block), ([3, 2, 1], [256, 1, 1]));

    let latent = LatentPages::bf16(512, 4).unwrap();
    let shape = dsv4::gather_attention::shape(3, 9, 16, &latent).unwrap();
    assert_eq!((shape.grid, shape.block), ([2, 3, 1], [256, 1, 1]));

    let splits = AttentionSplits::new(3, 65, 7);
    let shape = dsv4::sparse_attention::shape(&splits, (12, 0)).unwrap();
    assert_eq!((shape.grid, shape.block), ([7, 2, 3], [256, 1, 1]));
    assert_eq!(shape.shared_bytes, 79_168);
    let hopper = dsv4::sparse_attention::shape(&splits, (9, 0)).unwrap();
    assert_eq!((hopper.grid, hopper.block), ([7, 2, 3], [4 * 128, 1, 1]));
    let c128 = LatentFp8Pages::c128(4).unwrap();
    let paged = dsv4::paged_attention::shape(&splits, (12, 0), 8, 4, &c128).unwrap();
    assert_eq!(paged, shape);
    let shape = dsv4::combine_attention::shape(&splits).unwrap();
    assert_eq!((shape.grid, shape.block), ([33, 3, 1], [128, 1, 1]));

    let shape = dsv4::top_k::shape(3, 130, 4, 9, &latent).unwrap();
    assert_eq!((shape.grid, shape.block), ([12, 1, 1], [512, 1, 1]));
    let keys = IndexKeyPages::bf16(128, 4).unwrap();
    let shape = dsv4::indexer_logits::shape(3, 64, 4, 130, &keys).unwrap();
    assert_eq!((shape.grid, shape.block), ([4, 1, 1], [128, 1, 1]));
    let shape = dsv4::indexer_logits::shape(32, 64, 256, 16_384, &keys).unwrap();
    assert_eq!(shape.grid, [264, 1, 1]);
}

#[test]
fn sizes_that_a_kernel_does_not_take_are_named() {
    let keys = IndexKeyPages::bf16(128, 4).unwrap();
    let latent = LatentPages::bf16(512, 4).unwrap();
    let wide = LatentPages::bf16(520, 4).unwrap();
    let texts = [
        dsv4::query_projection::shape(0, 64, 1).unwrap_err(),
        dsv4::query_projection::shape(1, 60, 1).unwrap_err(),
        dsv4::top_k::shape(1, 64, 1, 1025, &latent).unwrap_err(),
        dsv4::indexer_logits::shape(1, 64, 3, 200, &keys).unwrap_err(),
        dsv4::gather_attention::shape(1, 64, 1, &wide).unwrap_err(),
        dsv4::sparse_attention::shape(&AttentionSplits::new(70_000, 64, 1), (9, 0)).unwrap_err(),
        dsv4::sparse_attention::shape(&AttentionSplits::new(1, 64, 129), (9, 0)).unwrap_err(),
        dsv4::combine_attention::shape(&AttentionSplits::new(1, 0, 1)).unwrap_err(),
        dsv4::paged_attention::shape(
            &AttentionSplits::new(1, 64, 1),
            (9, 0),
            9,
            4,
            &LatentFp8Pages::c128(4).unwrap(),
        )
        .unwrap_err(),
        dsv4::check_page_table::shape(1 << 16, 1 << 16, 64).unwrap_err(),
        dsv4::mix::shape(70_000, 64, 64).unwrap_err(),
        dsv4::testing::add_one::shape(0).unwrap_err(),
    ]
    .map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "kernel query_projection: tokens is 0; it must be at least 1",
            "kernel query_projection: width is 60; it must be a positive multiple of 8 (16-byte rows)",
            "kernel top_k: k is 1025; it must be from 1 to 1,024",
            "kernel indexer_logits: table_stride is 3; it must be enough pages for max_entries",
            "kernel gather_attention: dim is 520; it must be at most 512",
            "kernel sparse_attention: tokens is 70000; it must be from 1 to 65,535",
            "kernel sparse_attention: splits is 129; it must be from 1 to 128",
            "kernel combine_attention: heads is 0; it must be at least 1",
            "kernel paged_attention: table_stride is 4; it must be enough pages for max_entries",
            "kernel check_page_table: table_stride is 65536; it must be such that the table has \
             fewer than 2^32 - 1 ids",
            "kernel mix: tokens is 70000; it must be from 1 to 65,535",
            "kernel add_one: len is 0; it must be at least 1",
        ]
    );
}

#[test]
fn a_backend_without_kernels_is_an_error() {
    let mut info = SimDriver::new(0).info().clone();
    assert!(matches!(&*dsv4::image(&info).unwrap(), ModuleImage::Sim(twins) if !twins.is_empty()));
    info.backend = Backend::Other("other");
    let error = dsv4::image(&info).unwrap_err().to_string();
    assert!(error.contains("\"other\""), "{error}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_build_without_cuda_says_so() {
    let mut info = SimDriver::new(0).info().clone();
    info.backend = Backend::Cuda;
    let error = dsv4::image(&info).unwrap_err().to_string();
    assert!(error.contains("feature `cuda`"), "{error}");
}
