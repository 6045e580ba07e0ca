//! Mistakes that one could make, each of which the comparison with the reference finds.
//!
//! Most are another configuration or other weights; those that are not replace a
//! formula. A mistake that goes unnoticed here would say that the goldens do not depend
//! on what it changes.

use serde_json::{Value, json};
use streamweir_integration::dsv4::checkpoint::Tensor;
use streamweir_integration::dsv4::plain::{Angle, Formulas, PlainModel};

use crate::generator::{BF16, Change, FLASH, Generated};
use crate::goldens::{Goldens, STATES};

/// What a logit differs by at the least somewhere, five times what it may differ by.
const NOTICED: f32 = 5e-4;

struct Mistake {
    name: &'static str,
    model: Generated,
    edit: fn(&mut Value),
    change: Change,
    formulas: Formulas,
}

/// No mistake, to be changed in one place.
const NONE: Mistake = Mistake {
    name: "",
    model: FLASH,
    edit: |_| {},
    change: |_, _| {},
    formulas: Formulas::DSV4,
};

fn mistakes() -> Vec<Mistake> {
    let config = |name, edit| Mistake { name, edit, ..NONE };
    let weights = |name, change| Mistake {
        name,
        change,
        ..NONE
    };
    let formula = |name, formulas| Mistake {
        name,
        formulas,
        ..NONE
    };
    vec![
        config("the window's rope in layers with entries", |config| {
            config["compress_rope_theta"] = config["rope_theta"].clone();
            config["rope_scaling"] = Value::Null;
        }),
        config("the entries' rope in window layers", |config| {
            config["rope_theta"] = config["compress_rope_theta"].clone();
        }),
        config("no yarn", |config| config["rope_scaling"] = Value::Null),
        formula(
            "halves instead of pairs",
            Formulas {
                rotate: rotate_halves,
                ..Formulas::DSV4
            },
        ),
        config("a window of 127", |config| {
            config["sliding_window"] = json!(127)
        }),
        config("a window of 129", |config| {
            config["sliding_window"] = json!(129)
        }),
        weights("no sink", |name, tensor| {
            if name.ends_with(".attn_sink") {
                tensor.bytes = f32::NEG_INFINITY
                    .to_le_bytes()
                    .repeat(tensor.shape[0])
                    .into();
            }
        }),
        weights("Ca and Cb exchanged", exchange::<false>),
        weights("the indexer's Ca and Cb exchanged", exchange::<true>),
        weights("no position bias", |name, tensor| {
            if name.ends_with("attn.compressor.ape") {
                tensor.bytes = vec![0; tensor.bytes.len()].into();
            }
        }),
        weights("no position bias in the indexer", |name, tensor| {
            if name.ends_with("indexer.compressor.ape") {
                tensor.bytes = vec![0; tensor.bytes.len()].into();
            }
        }),
        config("one entry less selected", |config| {
            config["index_topk"] = json!(15)
        }),
        formula(
            "the router's bias in the weights",
            Formulas {
                choose: choose_with_bias,
                ..Formulas::DSV4
            },
        ),
        weights("no bias for the choice", |name, tensor| {
            if name.ends_with("gate.bias") {
                tensor.bytes = vec![0; tensor.bytes.len()].into();
            }
        }),
        config("weights of experts not scaled", |config| {
            config["routed_scaling_factor"] = json!(1.0);
        }),
        formula(
            "comb not transposed",
            Formulas {
                expand: expand_straight,
                ..Formulas::DSV4
            },
        ),
        config("19 rounds of Sinkhorn", |config| {
            config["hc_sinkhorn_iters"] = json!(19)
        }),
        config("another hc_eps", |config| config["hc_eps"] = json!(1e-5)),
        config("no clamp", |config| config["swiglu_limit"] = json!(1e9)),
        Mistake {
            model: BF16,
            ..config("no clamp, unquantised", |config| {
                config["swiglu_limit"] = json!(1e9);
            })
        },
        weights("the high four bits first", |name, tensor| {
            if name.contains(".experts.") && name.ends_with(".weight") {
                let swapped: Vec<u8> = tensor.bytes.iter().map(|b| b.rotate_left(4)).collect();
                tensor.bytes = swapped.into();
            }
        }),
    ]
}

#[test]
fn every_mistake_is_found() {
    for mistake in mistakes() {
        let off = logits_off(&mistake);
        println!("{}: {off:e}", mistake.name);
        assert!(off >= NOTICED, "{}: {off} is not noticed", mistake.name);
    }
}

/// So what is found is the mistake.
#[test]
fn without_a_mistake_nothing_is_found() {
    for model in [FLASH, BF16] {
        let off = logits_off(&Mistake { model, ..NONE });
        assert!(off <= 0.2 * NOTICED, "{off}");
    }
}

fn logits_off(mistake: &Mistake) -> f32 {
    let weights = mistake.model.changed(mistake.edit, mistake.change);
    let model = PlainModel::with_formulas(&weights, mistake.formulas);
    let tokens = mistake.model.prompt(STATES);
    let states = model.extend(&mut model.begin(), &tokens).unwrap();
    Goldens::of(mistake.model).logits_off(STATES, &states.logits())
}

/// Channel `i` and channel `i + d / 2`, as most models have it.
fn rotate_halves(x: &mut [f32], angles: &[Angle]) {
    let first = x.len() - 2 * angles.len();
    let (left, right) = x[first..].split_at_mut(angles.len());
    for ((left, right), angle) in left.iter_mut().zip(right).zip(angles) {
        let (a, b) = (*left, *right);
        *left = a * angle.cosine - b * angle.sine;
        *right = b * angle.cosine + a * angle.sine;
    }
}

fn choose_with_bias(scores: &[f32], bias: &[f32], count: usize) -> Vec<(usize, f32)> {
    let mut chosen = (Formulas::DSV4.choose)(scores, bias, count);
    for (expert, weight) in &mut chosen {
        *weight += bias[*expert];
    }
    chosen
}

fn expand_straight(post: &[f32], comb: &[f32], streams: &[f32], output: &[f32]) -> Vec<f32> {
    let n = post.len();
    let turned: Vec<f32> = (0..n * n).map(|i| comb[i % n * n + i / n]).collect();
    (Formulas::DSV4.expand)(post, &turned, streams, output)
}

/// Exchanges the halves of a C4 compressor's outputs.
fn exchange<const INDEXER: bool>(name: &str, tensor: &mut Tensor) {
    let part = [".wkv.weight", ".wgate.weight", ".ape"];
    let here = name.contains(".compressor.") && name.contains(".indexer.") == INDEXER;
    if !here || !part.iter().any(|part| name.ends_with(part)) {
        return;
    }
    // In C128 layers there is one half.
    if name.ends_with(".ape") {
        if tensor.shape[0] == 4 {
            let row = tensor.bytes.len() / 4;
            let rows = tensor.bytes.chunks(row);
            let bytes: Vec<u8> = rows.flat_map(turned).collect();
            tensor.bytes = bytes.into();
        }
    } else if tensor.shape[0] > 512 || INDEXER {
        tensor.bytes = turned(&tensor.bytes).into();
    }
}

/// The second half, then the first.
fn turned(bytes: &[u8]) -> Vec<u8> {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [second, first].concat()
}
