//! The references of rows, quantisers, compressors and metadata against
//! formulas written another way; sizes and errors of the launch shapes.

use proptest::prelude::*;
use streamweir_kernels::dsv4;
use streamweir_kernels::layout::{IndexKeyFp8Pages, LatentFp8Pages, PageLayout};
use streamweir_kernels::reference;
use streamweir_kernels::rope::Rope;
use streamweir_sched::driver::LaunchShape;

/// All e4m3 numbers that are numbers, by their code.
fn e4m3_numbers() -> impl Iterator<Item = (u8, f64)> {
    (0..=255_u8)
        .filter(|code| code & 0x7f != 0x7f)
        .map(|code| (code, reference::from_e4m3(code).into()))
}

#[test]
fn e4m3_has_its_published_numbers() {
    let value = reference::from_e4m3;
    assert_eq!(value(0x7e), 448.0, "the largest");
    assert_eq!(value(0x08), 2_f32.powi(-6), "the least normal");
    assert_eq!(value(0x01), 2_f32.powi(-9), "the least");
    assert_eq!(value(0x38), 1.0);
    assert_eq!(value(0xb8), -1.0);
    assert_eq!(value(0x80).to_bits(), (-0.0_f32).to_bits());
    assert!(value(0x7f).is_nan() && value(0xff).is_nan());
    for (code, number) in e4m3_numbers() {
        assert_eq!(reference::to_e4m3(number as f32), code, "{number}");
    }
}

#[test]
fn what_e4m3_cannot_hold_is_clamped() {
    let code = reference::to_e4m3;
    assert_eq!(
        [code(449.0), code(f32::INFINITY), code(f32::MAX)],
        [0x7e; 3]
    );
    assert_eq!([code(-1e9), code(f32::NEG_INFINITY)], [0xfe; 2]);
    assert_eq!([code(f32::NAN), code(-f32::NAN)], [0x7f; 2]);
    assert_eq!([code(1e-30), code(-1e-30)], [0x00, 0x80]);
}

#[test]
fn scales_at_their_borders() {
    // A magnitude of 448 times a power of two has that power as its scale, and
    // the next float the next power.
    for exponent in -20..100 {
        let largest = 448.0 * 2_f32.powi(exponent);
        let scale = (127 + exponent) as u8;
        assert_eq!(reference::ue8m0_scale(largest), scale);
        assert_eq!(reference::ue8m0_scale(largest * 1.000_001), scale + 1);
        assert_eq!(reference::from_ue8m0(scale), 2_f32.powi(exponent));
    }
    assert_eq!(reference::ue8m0_scale(f32::INFINITY), 255);
    let least = reference::ue8m0_scale(1e-4);
    assert_eq!(reference::ue8m0_scale(0.0), least);
    assert_eq!(reference::e4m3_scale(0.0), 1e-4 / 448.0);
    assert_eq!(reference::e4m3_scale(896.0), 2.0);
}

proptest! {
    #[test]
    fn e4m3_is_the_nearest_number(bits in any::<u32>(), exponent in 100_u32..140) {
        // Most floats are far from all e4m3 numbers: take half of them near.
        let near = f32::from_bits(bits & 0x807f_ffff | exponent << 23);
        for value in [f32::from_bits(bits), near] {
            prop_assume!(value.is_finite());
            let wide = f64::from(value).clamp(-448.0, 448.0);
            let code = reference::to_e4m3(value);
            let distance = (f64::from(reference::from_e4m3(code)) - wide).abs();
            for (other, number) in e4m3_numbers() {
                let further = (number - wide).abs();
                prop_assert!(distance <= further, "{value}: {code:#x}, but {other:#x}");
                // A tie goes to the even code; zero keeps its sign.
                if distance == further && other & 0x7f != code & 0x7f {
                    prop_assert_eq!(code & 1, 0);
                }
            }
            prop_assert_eq!(code >> 7 == 1, value.is_sign_negative());
        }
    }

    #[test]
    fn quantised_rows_use_the_range(
        row in prop::collection::vec(-3e3_f32..3e3, 1..80)
    ) {
        let largest = reference::absmax(&row);
        prop_assume!(largest > 1e-3);
        let (codes, scale) = reference::quantise_e4m3(&row);
        prop_assert!(codes.iter().any(|code| code & 0x7f == 0x7e));
        for (&code, &value) in codes.iter().zip(&row) {
            let back = reference::from_e4m3(code) * scale;
            // Half a step of three bits, or of the least number.
            prop_assert!((back - value).abs() <= (value.abs() / 15.9).max(scale / 1000.0));
        }
        let (codes, scale) = reference::quantise_ue8m0(&row);
        let scale = reference::from_ue8m0(scale);
        prop_assert!(scale >= largest / 448.0 * 0.999_999 && scale < largest / 448.0 * 2.0);
        for (&code, &value) in codes.iter().zip(&row) {
            let back = reference::from_e4m3(code) * scale;
            prop_assert!((back - value).abs() <= (value.abs() / 15.9).max(scale / 1000.0));
        }
    }

    #[test]
    fn hadamard_is_the_matrix_of_signs_and_its_own_inverse(
        row in prop::collection::vec(-8_i32..8, 128)
    ) {
        let row: Vec<f64> = row.into_iter().map(f64::from).collect();
        let mut transformed = row.clone();
        reference::hadamard(&mut transformed);
        for (i, value) in transformed.iter().enumerate() {
            let sum: f64 = row.iter().enumerate().map(|(j, v)| {
                if (i & j).count_ones() % 2 == 1 { -v } else { *v }
            }).sum();
            prop_assert!((value - sum / 128_f64.sqrt()).abs() < 1e-9);
        }
        reference::hadamard(&mut transformed);
        for (back, value) in transformed.iter().zip(&row) {
            prop_assert!((back - value).abs() < 1e-9);
        }
    }

    #[test]
    fn rotation_is_a_complex_product_and_has_an_inverse(
        row in prop::collection::vec(-1.0_f64..1.0, 72), position in 0_i32..50
    ) {
        let table = Rope::WINDOW.table(50);
        let angles = reference::angles(&table, position);
        let mut rotated = row.clone();
        reference::rotate(&mut rotated, angles, false);
        prop_assert_eq!(&rotated[..8], &row[..8], "what is before the last 64 stays");
        for pair in 0..32 {
            let angle = f64::from(position) * 10_000_f64.powf(-(pair as f64) / 32.0);
            let (x, y) = (row[8 + 2 * pair], row[9 + 2 * pair]);
            let (radius, turn) = (x.hypot(y), y.atan2(x) + angle);
            prop_assert!((rotated[8 + 2 * pair] - radius * turn.cos()).abs() < 1e-6);
            prop_assert!((rotated[9 + 2 * pair] - radius * turn.sin()).abs() < 1e-6);
        }
        reference::rotate(&mut rotated, angles, true);
        for (back, value) in rotated.iter().zip(&row) {
            prop_assert!((back - value).abs() < 1e-6);
        }
    }

    #[test]
    fn equal_scores_give_the_mean_and_a_large_one_its_row(
        keys in prop::collection::vec(-1.0_f32..1.0, 8 * 4), chosen in 0_usize..8
    ) {
        // Four channels; score and bias cancel.
        let bias: Vec<f32> = (0..32).map(|i| i as f32).collect();
        let even: Vec<f32> = bias.iter().map(|b| -b).collect();
        let pool = |scores: &[f32]| {
            let rows: Vec<[&[f32]; 3]> = (0..8)
                .map(|r| [&keys[r * 4..], &scores[r * 4..], &bias[r * 4..]].map(|p| &p[..4]))
                .collect();
            reference::softmax_pool(&rows)
        };
        let mut scores = even.clone();
        for (channel, value) in pool(&scores).into_iter().enumerate() {
            let mean: f64 = (0..8).map(|r| f64::from(keys[r * 4 + channel])).sum::<f64>() / 8.0;
            prop_assert!((value - mean).abs() < 1e-9);
        }
        for channel in 0..4 {
            scores[chosen * 4 + channel] += 1e4;
        }
        for (channel, value) in pool(&scores).into_iter().enumerate() {
            prop_assert_eq!(value, f64::from(keys[chosen * 4 + channel]));
        }
    }
}

/// Rows whose keys name the token and the half of the channels that they are
/// of, with equal scores.
fn named_rows(tokens: std::ops::Range<u32>) -> Vec<Vec<f32>> {
    tokens
        .map(|token| vec![token as f32, 100.0 * token as f32, 0.0, 0.0])
        .collect()
}

#[test]
fn a_group_takes_overlap_channels_from_before_and_normal_ones_of_its_own() {
    let rows = named_rows(1..9);
    let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let entry = |rows, ape: &[f32; 8]| reference::compress_c4(rows, ape, 1)[0];
    let plain = [0.0; 8];
    let both = (1.0 + 2.0 + 3.0 + 4.0 + 500.0 + 600.0 + 700.0 + 800.0) / 8.0;
    assert_eq!(entry(&rows, &plain), both);
    assert_eq!(entry(&rows[4..], &plain), 650.0, "nothing before it");
    // A bias by the place in the group, apart for both halves.
    let mut ape = plain;
    ape[2 * 2] = 1e4;
    assert_eq!(entry(&rows, &ape), 3.0, "the third before, overlap");
    ape = plain;
    ape[2 * 2 + 1] = 1e4;
    assert_eq!(entry(&rows, &ape), 700.0, "the third of its own, normal");
}

#[test]
fn stored_rows_have_the_bytes_of_their_pages() {
    let row: Vec<f32> = (0..512).map(|i| if i < 64 { 448.0 } else { 1.0 }).collect();
    let stored = reference::stored_latent(&row);
    let layout = *LatentFp8Pages::c4(1).unwrap().layout();
    assert_eq!(stored.values.len(), layout.value_bytes() as usize);
    assert_eq!(stored.scales.len(), layout.scale_bytes() as usize);
    assert_eq!(stored.scales, [127, 119, 119, 119, 119, 119, 119, 0]);
    assert_eq!(stored.values[..64], [0x7e; 64]);
    // 1 / 2^-8 = 256.
    assert_eq!(stored.values[64..448], [0x78; 384]);
    assert_eq!(stored.values[448..450], [0x80, 0x3f], "bf16 one");
    assert_eq!(reference::stored_key(&row[..128]).values.len(), 256);
    let key = reference::stored_key_fp8(&row[..128]);
    assert_eq!(
        (key.values.len(), key.scales),
        (128, 1_f32.to_le_bytes().to_vec())
    );
}

#[test]
fn metadata_of_a_growing_sequence() {
    let table = [3, 7];
    let mut completed = (0, 0);
    for len in 1..=512 {
        let (row, fault) = reference::step_metadata(len, &table, 9);
        assert!(!fault);
        assert_eq!(row.position, len - 1);
        assert_eq!(row.window_len, len.min(128));
        let page = if len <= 256 { 3 } else { 7 };
        assert_eq!(row.out_loc, page * 256 + (len - 1) % 256);
        // An entry's slot is where readers look for it: page of 64, or of 2.
        if row.c4_out_loc != 0 {
            assert_eq!(row.c4_out_loc, page * 64 + completed.0 % 64);
            completed.0 += 1;
        }
        if row.c128_out_loc != 0 {
            assert_eq!(row.c128_out_loc, page * 2 + completed.1 % 2);
            completed.1 += 1;
        }
        assert_eq!((row.c4_len, row.c128_len), completed);
    }
    assert_eq!(completed, (128, 4));
    let padded = reference::step_metadata(0, &table, 9);
    assert_eq!(padded, (Default::default(), false));
    assert_eq!(reference::step_metadata(-4, &table, 9), padded);
    let (beyond, fault) = reference::step_metadata(600, &table, 9);
    assert!(fault);
    assert_eq!((beyond.position, beyond.c4_len), (511, 128));
    let (outside, fault) = reference::step_metadata(4, &[9], 9);
    assert!(fault);
    assert_eq!(
        (outside.out_loc, outside.c4_out_loc, outside.c4_len),
        (0, 0, 1)
    );
    let (nobody, fault) = reference::step_metadata(4, &[0], 9);
    assert!(!fault);
    assert_eq!((nobody.out_loc, nobody.c4_out_loc), (0, 0));
}

#[test]
fn a_window_takes_its_pages_in_turn() {
    let layout = PageLayout::new(2, 0, 128, 1, 9).unwrap();
    let slots = |len| reference::window(len, &[4, 6], &layout);
    assert_eq!(slots(0), []);
    assert_eq!(slots(1), [(4 * 128, true)]);
    let window = slots(200);
    assert_eq!(window.len(), 128);
    assert_eq!(window[0], (4 * 128 + 72, true));
    assert_eq!(window[127], (6 * 128 + 71, true));
    // The third page of the sequence is the first of the table again.
    assert_eq!(slots(257)[127], (4 * 128, true));
    assert_eq!(reference::window(1, &[9], &layout), [(0, false)]);
}

#[test]
fn the_largest_logit_wins_and_the_lowest_token_of_equals() {
    let argmax = reference::argmax;
    assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
    assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), 1);
    assert_eq!(argmax(&[f32::NAN, f32::NAN]), 0);
    assert_eq!(argmax(&[-0.0, 0.0]), 0);
}

#[test]
fn launch_shapes_cover_the_work() {
    let launch = |shape: LaunchShape| (shape.grid, shape.block[0]);
    let shape = dsv4::norm_rope_heads::shape(3, 9, 4).unwrap();
    assert_eq!(launch(shape), ([2, 3, 1], 256));
    let shape = dsv4::rope_heads::shape(3, 33, 512, 4).unwrap();
    assert_eq!(launch(shape), ([2, 3, 1], 256));
    let shape = dsv4::index_query::shape(3, 9, 4).unwrap();
    assert_eq!(launch(shape), ([2, 3, 1], 256));
    let window = LatentFp8Pages::window(4).unwrap();
    let shape = dsv4::store_latent::shape(3, 1536, 1024, 4, &window).unwrap();
    assert_eq!(launch(shape), ([3, 1, 1], 128));
    let keys = IndexKeyFp8Pages::new(128, 4).unwrap();
    let shape = dsv4::compress_index_key_fp8::shape(3, 4, 4, &keys).unwrap();
    assert_eq!(launch(shape), ([1, 3, 1], 32));
    let shape = dsv4::compress_c128::shape(3, 4, 4, &window).unwrap();
    assert_eq!(launch(shape), ([8, 3, 1], 256));
    let widest = dsv4::MAX_NORM_WIDTH;
    let shape = dsv4::rms_norm::shape(3, widest, widest, 0).unwrap();
    assert_eq!(launch(shape), ([3, 1, 1], 256));
    let shape = dsv4::window_slots::shape(3, 2, &window).unwrap();
    assert_eq!(launch(shape), ([3, 1, 1], 128));
}

#[test]
fn sizes_that_a_kernel_does_not_take_are_named() {
    let window = LatentFp8Pages::window(4).unwrap();
    let narrow = IndexKeyFp8Pages::new(64, 4).unwrap();
    let row = "must be a multiple of 8 with a whole row after it in the stride";
    for (refused, text) in [
        (
            dsv4::store_latent::shape(1, 1536, 1032, 4, &window),
            format!("kernel store_latent: first is 1032; it {row}"),
        ),
        (
            dsv4::store_latent::shape(1, 1536, u32::MAX - 7, 4, &window),
            format!("kernel store_latent: first is 4294967288; it {row}"),
        ),
        (
            dsv4::compress_index_key_fp8::shape(1, 2, 4, &narrow),
            "kernel compress_index_key_fp8: dim is 64; it must be 128".into(),
        ),
        (
            dsv4::compress_c4::shape(1, 0, 4, &window),
            "kernel compress_c4: slots is 0; it must be at least 1".into(),
        ),
        (
            dsv4::norm_rope_heads::shape(1, 1, 0),
            "kernel norm_rope_heads: rope_rows is 0; it must be from 1 to 2,147,483,647".into(),
        ),
        (
            dsv4::rope_heads::shape(1, 1, 56, 4),
            "kernel rope_heads: dim is 56; it must be at least 64".into(),
        ),
        (
            dsv4::rms_norm::shape(1, 8200, 8200, 0),
            "kernel rms_norm: width is 8200; it must be at most 8,192".into(),
        ),
        (
            dsv4::decode_metadata::shape(1, 1, 1 << 23),
            "kernel decode_metadata: pages is 8388608; it must be from 1 to 8,388,607".into(),
        ),
        (
            dsv4::window_slots::shape(1, 1, &window),
            "kernel window_slots: table_stride is 1; it must be enough pages for a window that \
             begins anywhere in one"
                .into(),
        ),
        (
            dsv4::argmax::shape(1, 1 << 31),
            "kernel argmax: vocabulary is 2147483648; it must be from 1 to 2,147,483,647".into(),
        ),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), text);
    }
}
