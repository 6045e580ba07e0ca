//! The references against formulas written another way, on random inputs.

use half::bf16;
use proptest::prelude::*;
use streamweir_kernels::layout::{IndexKeyFp8Pages, IndexKeyPages, LatentPages, PageLayout};
use streamweir_kernels::reference;

/// Small integers and halves: sums of their products are exact in any order, so
/// that two formulas have to agree to the last bit.
fn exact() -> impl Strategy<Value = f32> {
    (-8_i32..=8).prop_map(|v| v as f32 / 2.0)
}

fn halves(count: usize) -> impl Strategy<Value = Vec<bf16>> {
    prop::collection::vec(exact().prop_map(bf16::from_f32), count)
}

/// Patterns of e4m3 numbers whose products are exact in any order.
fn codes(count: usize) -> impl Strategy<Value = Vec<u8>> {
    let number =
        (any::<bool>(), 0x30_u8..0x50).prop_map(|(minus, code)| code | u8::from(minus) << 7);
    prop::collection::vec(prop_oneof![number, Just(0), Just(0x80)], count)
}

fn at(values: &[bf16], index: usize) -> f64 {
    f64::from(f32::from(values[index]))
}

proptest! {
    #[test]
    fn projection_is_a_matrix_product(
        (tokens, width, rows, x, w) in (1_usize..4, 1_usize..6, 1_usize..5).prop_flat_map(
            |(t, n, r)| (Just(t), Just(n), Just(r), halves(t * n), halves(r * n)))
    ) {
        let mut expected = vec![0.0; tokens * rows];
        for i in (0..width).rev() {
            for t in 0..tokens {
                for r in 0..rows {
                    expected[t * rows + r] += at(&x, t * width + i) * at(&w, r * width + i);
                }
            }
        }
        prop_assert_eq!(reference::projection(&x, &w, width), expected);
    }

    #[test]
    fn index_keys_have_the_norm_of_the_weight(
        (x, w, dim) in (1_usize..6, 1_usize..9).prop_flat_map(
            |(n, d)| (halves(n), halves(n * d), Just(d)))
    ) {
        let ones = vec![1.0_f32; dim];
        let key = reference::index_key(&x, &w, &ones, 0.0);
        let projected = reference::projection(&x, &w, x.len());
        prop_assume!(projected.iter().any(|&v| v != 0.0));
        let mean: f64 = key.iter().map(|v| v * v).sum::<f64>() / dim as f64;
        prop_assert!((mean - 1.0).abs() < 1e-12);
        // The same direction, doubled by a norm weight of two.
        let twos = vec![2.0_f32; dim];
        let doubled = reference::index_key(&x, &w, &twos, 0.0);
        for i in 0..dim {
            prop_assert!((doubled[i] - 2.0 * key[i]).abs() < 1e-12);
            prop_assert!(key[i] * projected[i] >= 0.0);
        }
    }

    #[test]
    fn logits_sum_positive_parts_over_heads(
        (heads, dim, entries, q, w, keys, table) in (1_usize..4, 1_usize..5, 1_usize..130)
            .prop_flat_map(|(h, d, e)| (
                Just(h), Just(d), Just(e), halves(h * d),
                prop::collection::vec(exact(), h), halves(4 * 64 * d),
                prop::collection::vec(-1_i32..5, e.div_ceil(64)))),
        len in -2_i32..140,
    ) {
        let pages = IndexKeyPages::bf16(dim as u32, 4).unwrap();
        let logits = reference::indexer_logits(&q, &w, &keys, &table, &[len], &pages, entries);
        for (j, &logit) in logits.iter().enumerate() {
            if j as i32 >= len {
                prop_assert_eq!(logit, f64::NEG_INFINITY);
                continue;
            }
            let page = table[j / 64];
            let page = if (0..4).contains(&page) { page as usize } else { 0 };
            let key = (page * 64 + j % 64) * dim;
            let mut expected = 0.0;
            for (h, &weight) in w.iter().enumerate().take(heads) {
                let product: f64 = (0..dim).map(|d| at(&q, h * dim + d) * at(&keys, key + d)).sum();
                if product > 0.0 {
                    expected += f64::from(weight) * product;
                }
            }
            prop_assert_eq!(logit, expected);
        }
    }

    #[test]
    fn fp8_logits_are_those_of_the_numbers_times_the_scale(
        (heads, dim, q, w, keys) in (1_usize..4, 1_usize..5).prop_flat_map(|(h, d)| (
            Just(h), Just(d), codes(h * d), prop::collection::vec(exact(), h), codes(64 * d))),
        scales in prop::collection::vec(exact(), 64),
        len in 0_i32..64,
    ) {
        // The small integers and halves of `codes` are bf16 numbers too.
        let number = |code: u8| {
            let magnitude = f32::from(code & 7) / 8.0 + f32::from(u8::from(code & 0x78 != 0));
            let exponent = i32::from(code >> 3 & 15).max(1) - 7;
            let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
            bf16::from_f32(sign * magnitude * 2_f32.powi(exponent))
        };
        let pages = IndexKeyFp8Pages::new(dim as u32, 1).unwrap();
        let mut pool = keys.clone();
        pool.extend(scales.iter().flat_map(|scale| scale.to_le_bytes()));
        let logits = reference::indexer_logits_fp8(&q, &w, &pool, &[0], &[len], &pages, 64);
        let query: Vec<bf16> = q.iter().map(|&code| number(code)).collect();
        for (j, &logit) in logits.iter().enumerate() {
            if j as i32 >= len {
                prop_assert_eq!(logit, f64::NEG_INFINITY);
                continue;
            }
            let key: Vec<bf16> = keys[j * dim..][..dim].iter().map(|&c| number(c)).collect();
            let plain = reference::logit(&query, &w, &key);
            prop_assert_eq!(logit, f64::from(scales[j]) * plain);
        }
        prop_assert_eq!(w.len(), heads);
    }

    #[test]
    fn selection_is_the_one_that_repeated_maxima_give(
        logits in prop::collection::vec(prop_oneof![
            exact(), Just(f32::NEG_INFINITY), Just(-0.0_f32), Just(f32::INFINITY)], 0..40),
        k in 1_usize..45,
    ) {
        let mut expected = Vec::new();
        if logits.len() <= k {
            expected.extend(0..logits.len() as u32);
        } else {
            let mut left: Vec<usize> = (0..logits.len()).collect();
            for _ in 0..k {
                // The first of the largest.
                let best = left.iter().copied().reduce(
                    |best, i| if logits[i] > logits[best] { i } else { best }).unwrap();
                left.retain(|&i| i != best);
                expected.push(best as u32);
            }
            expected.sort_unstable();
        }
        prop_assert_eq!(reference::select(&logits, k), expected);
    }

    #[test]
    fn order_keys_order_as_numbers_do(a in any::<f32>(), b in any::<f32>()) {
        let (x, y) = (reference::order_key(a), reference::order_key(b));
        match a.partial_cmp(&b) {
            Some(order) => prop_assert_eq!(x.cmp(&y), order),
            None => prop_assert!((a.is_nan() && x == 0) || (b.is_nan() && y == 0)),
        }
    }

    #[test]
    fn attention_is_softmax_over_entries_and_sink(
        (dim, rows, query) in (1_usize..5).prop_flat_map(|d| (
            Just(d), prop::collection::vec(halves(d), 0..6), halves(d))),
        sink in prop_oneof![Just(f32::NEG_INFINITY), exact()],
    ) {
        let scale = 0.25_f32;
        let refs: Vec<&[bf16]> = rows.iter().map(Vec::as_slice).collect();
        let out = reference::attend(&query, &refs, sink, scale);
        // The published form: attention without the sink, times
        // 1 / (1 + exp(sink - lse)).
        let exps: Vec<f64> = rows.iter().map(|row| {
            let product: f64 = (0..dim).map(|d| at(&query, d) * at(row, d)).sum();
            (product * 0.25).exp()
        }).collect();
        let sum: f64 = exps.iter().sum();
        for (d, &value) in out.iter().enumerate() {
            let expected = if rows.is_empty() { 0.0 } else {
                let plain: f64 = rows.iter().zip(&exps).map(|(row, e)| e / sum * at(row, d)).sum();
                plain / (1.0 + (f64::from(sink) - sum.ln()).exp())
            };
            prop_assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        }
    }

    #[test]
    fn attention_in_parts_is_the_attention_of_all(
        (rows, query) in (1_usize..5).prop_flat_map(|d| (
            prop::collection::vec(halves(d), 1..8), halves(d))),
        cuts in prop::collection::vec(0_usize..8, 0..4),
        sink in prop_oneof![Just(f32::NEG_INFINITY), exact()],
    ) {
        let refs: Vec<&[bf16]> = rows.iter().map(Vec::as_slice).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(rows.len())).collect();
        cuts.extend([0, rows.len()]);
        cuts.sort_unstable();
        let parts: Vec<_> = cuts
            .windows(2)
            .map(|cut| reference::attend_part(&query, &refs[cut[0]..cut[1]], 0.25))
            .collect();
        let together = reference::combine_parts(&parts, sink);
        for (a, b) in together.iter().zip(reference::attend(&query, &refs, sink, 0.25)) {
            prop_assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
    }

    #[test]
    fn latents_are_values_by_scales(
        codes in prop::collection::vec(
            any::<u8>().prop_filter("a number", |code| code & 0x7f != 0x7f), 448),
        rotated in halves(64),
        scales in prop::collection::vec(100_u8..150, 8),
    ) {
        let mut values = codes.clone();
        values.extend(rotated.iter().flat_map(|v| v.to_le_bytes()));
        let latent = reference::latent(&values, &scales);
        prop_assert_eq!(latent.len(), 512);
        for (i, &code) in codes.iter().enumerate() {
            // The number by its bits: those of f16, whose exponent begins 8 lower.
            let bits = u16::from(code & 0x80) << 8 | u16::from(code & 0x7f) << 7;
            let number = f64::from(half::f16::from_bits(bits)) * 256.0;
            let scale = 2_f64.powi(i32::from(scales[i / 64]) - 127);
            prop_assert_eq!(latent[i], number * scale);
        }
        for (a, b) in latent[448..].iter().zip(&rotated) {
            prop_assert_eq!(*a, b.to_f64());
        }
    }

    #[test]
    fn every_value_of_the_attention_reaches_the_next_layer(
        (width, values, attention, changed) in (1_usize..6, 1_usize..20).prop_flat_map(
            |(n, v)| (Just(n), Just(v), halves(v), 0..v))
    ) {
        let x = vec![bf16::ONE; width];
        let before = reference::mix(&x, &attention, width, values);
        let mut other = attention.clone();
        other[changed] += bf16::ONE;
        let after = reference::mix(&x, &other, width, values);
        for column in 0..width {
            prop_assert_eq!(before[column] != after[column], column == changed % width);
        }
    }
}

#[test]
fn large_scores_and_sinks_do_not_overflow() {
    let query = [bf16::from_f32(1e4)];
    let row = [bf16::from_f32(1e4)];
    assert_eq!(
        reference::attend(&query, &[&row], 0.0, 1.0),
        [row[0].to_f64()]
    );
    assert_eq!(reference::attend(&[bf16::ZERO], &[&row], 1e30, 1.0), [0.0]);
}

#[test]
fn selection_at_its_borders() {
    let pages = LatentPages::bf16(8, 9).unwrap();
    let k = 4;
    // Descending with the entry, so that order and entry disagree.
    let logits: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let select = |len: i32| reference::top_k(&logits, &[3], &[len], pages.layout(), k);
    let base = 3 * 64;
    assert_eq!(select(0), [-1; 4]);
    assert_eq!(select(-7), [-1; 4]);
    assert_eq!(select(1), [base, -1, -1, -1]);
    assert_eq!(select(3), [base, base + 1, base + 2, -1]);
    assert_eq!(
        select(4),
        [base, base + 1, base + 2, base + 3],
        "all, in order"
    );
    assert_eq!(
        select(5),
        [base + 1, base + 2, base + 3, base + 4],
        "in the order of the entries"
    );
    assert_eq!(select(99), [base + 2, base + 3, base + 4, base + 5]);
    let ties = [1.0; 6];
    assert_eq!(
        reference::top_k(&ties, &[3], &[6], pages.layout(), k),
        [base, base + 1, base + 2, base + 3],
        "equals by lower entry"
    );
    assert_eq!(
        reference::top_k(&ties, &[9], &[6], pages.layout(), k),
        [0, 1, 2, 3],
        "a page that the pool does not have"
    );
}

#[test]
fn geometries_of_different_pools_differ() {
    let keys = IndexKeyPages::bf16(128, 5).unwrap();
    let latent = LatentPages::bf16(512, 5).unwrap();
    assert_eq!(keys.layout(), &PageLayout::new(256, 0, 64, 1, 5).unwrap());
    assert_eq!(latent.layout().value_offset(65), Some(65 * 1024));
    assert_eq!((keys.dim(), latent.dim()), (128, 512));
}
