//! The plain model equals transformers.

use streamweir_integration::dsv4::plain::{ExtendError, PlainModel, Rows, Seen};

use crate::generator::{ALL, BASE, BF16, FLASH, Generated};
use crate::goldens::{GREEDY, Goldens, PROMPTS, STATES, off};

/// The most that a logit may differ.
const TOLERANCE: f32 = 1e-4;

/// All logits of a prompt, taken in at once.
fn logits(model: &PlainModel<'_>, tokens: &[u32]) -> Rows {
    let states = model.extend(&mut model.begin(), tokens).unwrap();
    states.logits()
}

fn prompts_give_the_references_logits(of: Generated) {
    let weights = of.weights();
    let (model, goldens) = (PlainModel::new(&weights), Goldens::of(of));
    for length in PROMPTS {
        let off = goldens.logits_off(length, &logits(&model, &of.prompt(length)));
        println!("{} {length}: {off:e}", of.name);
        assert!(off <= TOLERANCE, "{}, {length} tokens: {off}", of.name);
    }
}

#[test]
fn prompts_give_the_references_logits_with_fp4_experts() {
    prompts_give_the_references_logits(FLASH);
}

#[test]
fn prompts_give_the_references_logits_with_f32_scales() {
    prompts_give_the_references_logits(BASE);
}

#[test]
fn prompts_give_the_references_logits_in_bf16() {
    prompts_give_the_references_logits(BF16);
}

/// What each layer takes in, gives and chooses, of the last row of a prompt.
#[test]
fn each_layer_does_what_the_references_does() {
    for of in ALL {
        let weights = of.weights();
        let (model, goldens) = (PlainModel::new(&weights), Goldens::of(of));
        let mut compared = 0;
        let mut watch = |layer: usize, seen: Seen<'_>| {
            let name = |what: &str| format!("states.layer.{layer}.{what}");
            let (what, rows) = match seen {
                Seen::Streams(rows) => ("in", rows),
                Seen::Attention(rows) => ("attention", rows),
                Seen::Experts(rows) => ("experts", rows),
                Seen::After(rows) => ("out", rows),
                Seen::Selected(rows) => {
                    let expected = goldens.ids(&name("selected"));
                    assert_eq!(rows.last(), expected.as_ref(), "{}, layer {layer}", of.name);
                    let top_k = weights.config().index_top_k;
                    assert_eq!(rows.last().unwrap().len(), top_k, "all are seen");
                    return;
                }
                Seen::Chosen(rows) => {
                    let chosen = rows.last().unwrap().iter().map(|&(expert, _)| expert);
                    let expected = goldens.ids(&name("chosen"));
                    assert_eq!(
                        Some(chosen.collect()),
                        expected,
                        "{}, layer {layer}",
                        of.name
                    );
                    return;
                }
                _ => return,
            };
            let expected = goldens.floats(&name(what));
            let off = off(rows.last().unwrap().iter().copied(), &expected);
            let largest = expected
                .iter()
                .fold(0.0, |all: f32, one| all.max(one.abs()));
            compared += 1;
            assert!(
                off <= 2e-5 * largest,
                "{}, layer {layer}, {what}: {off} of {largest}",
                of.name
            );
        };
        let tokens = of.prompt(STATES);
        model
            .extend_watched(&mut model.begin(), &tokens, &mut watch)
            .unwrap();
        assert_eq!(compared, 4 * weights.layers().len());
    }
}

/// Free decoding, but where the reference's best two are as near as its rounding.
#[test]
fn greedy_tokens_are_the_references() {
    for of in ALL {
        let weights = of.weights();
        let (model, goldens) = (PlainModel::new(&weights), Goldens::of(of));
        let expected = goldens.ids("greedy.tokens").unwrap();
        let margins = goldens.floats("greedy.margins");
        assert_eq!((expected.len(), margins.len()), (200, 200));
        let mut sequence = model.begin();
        let mut next = of.prompt(GREEDY);
        for (step, (&token, margin)) in expected.iter().zip(margins).enumerate() {
            let states = model.extend(&mut sequence, &next).unwrap();
            let logits = states.logits();
            let last = logits.last().unwrap();
            let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b]));
            let tie = margin <= 2.0 * TOLERANCE;
            assert!(best == Some(token) || tie, "{}, token {step}", of.name);
            next = vec![token as u32];
        }
        assert_eq!(sequence.len(), GREEDY + 199);
    }
}

/// Whatever rows a token comes with, the bits of its logits are the same.
#[test]
fn a_prompt_at_once_in_chunks_and_token_by_token_is_the_same() {
    for of in ALL {
        let weights = of.weights();
        let model = PlainModel::new(&weights);
        let tokens = of.prompt(STATES);
        let at_once = logits(&model, &tokens);
        let mut rest = tokens.as_slice();
        let (mut sequence, mut rows) = (model.begin(), at_once.iter());
        for size in [3, 1, 4, 0, 125, 60].into_iter().chain([1; 67]) {
            let (chunk, after) = rest.split_at(size);
            rest = after;
            let states = model.extend(&mut sequence, chunk).unwrap();
            for row in states.logits().iter() {
                let at_once = rows.next().unwrap();
                assert!(row == at_once, "{}, token {}", of.name, sequence.len());
            }
        }
        assert_eq!((rest.len(), rows.len()), (0, 0));
    }
}

#[test]
fn a_token_that_the_model_does_not_have_changes_nothing() {
    let weights = BF16.weights();
    let model = PlainModel::new(&weights);
    let mut sequence = model.begin();
    model.extend(&mut sequence, &[1, 2, 3]).unwrap();
    let error = model.extend(&mut sequence, &[4, 320]).unwrap_err();
    let expected = ExtendError::Token {
        row: 1,
        token: 320,
        vocabulary: 320,
    };
    assert_eq!(error, expected);
    assert_eq!(sequence.len(), 3);
    let mut other = model.begin();
    model.extend(&mut other, &[1, 2, 3]).unwrap();
    let [one, two] = [sequence, other].map(|mut of| model.extend(&mut of, &[4]).unwrap());
    assert_eq!(one.rows(), two.rows());
}

#[test]
fn a_sequence_goes_on_with_its_own_model() {
    let (weights, others) = (BF16.weights(), BF16.weights());
    let (model, other) = (PlainModel::new(&weights), PlainModel::new(&others));
    let mut sequence = model.begin();
    model.extend(&mut sequence, &[1, 2, 3]).unwrap();
    let error = other.extend(&mut sequence, &[4]).unwrap_err();
    assert_eq!(error, ExtendError::OtherModel { tokens: 3 });
    assert!(model.extend(&mut sequence, &[4]).is_ok());
}
