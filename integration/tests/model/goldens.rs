//! What transformers made of the generated weights (`integration/reference`).

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use streamweir_integration::dsv4::plain::Rows;

use crate::generator::Generated;

/// Prompts whose logits are kept.
pub(crate) const PROMPTS: [usize; 5] = [5, 64, 129, 260, 700];
/// The prompt of which states are kept, and the one that is continued.
pub(crate) const STATES: usize = 260;
pub(crate) const GREEDY: usize = 150;

/// The goldens of a model.
pub(crate) struct Goldens(Vec<u8>);

/// `integration/reference`.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("reference")
}

/// The rows of a prompt whose logits are kept.
pub(crate) fn rows_of(length: usize) -> Vec<usize> {
    let mut rows = vec![length / 4, length / 2, 3 * length / 4, length - 1];
    rows.sort_unstable();
    rows.dedup();
    rows
}

impl Goldens {
    pub(crate) fn of(model: Generated) -> Self {
        let file = folder().join(format!("goldens/{}.safetensors", model.name));
        Self(std::fs::read(file).unwrap())
    }

    /// A tensor of four-byte elements.
    fn words(&self, name: &str) -> Option<Vec<[u8; 4]>> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).ok()?;
        Some(tensor.data().as_chunks().0.to_vec())
    }

    pub(crate) fn floats(&self, name: &str) -> Vec<f32> {
        let words = self
            .words(name)
            .unwrap_or_else(|| panic!("no golden {name}"));
        words.into_iter().map(f32::from_le_bytes).collect()
    }

    pub(crate) fn ids(&self, name: &str) -> Option<Vec<usize>> {
        let words = self.words(name)?;
        let id = |word| usize::try_from(i32::from_le_bytes(word)).ok();
        words.into_iter().map(id).collect()
    }

    /// By how much the logits of a prompt differ from the reference's at the most.
    pub(crate) fn logits_off(&self, prompt: usize, logits: &Rows) -> f32 {
        let expected = self.floats(&format!("prompt.{prompt}.logits"));
        let rows: Vec<&[f32]> = logits.iter().collect();
        let found = rows_of(prompt).into_iter().flat_map(|row| rows[row]);
        off(found.copied(), &expected)
    }
}

/// The largest difference; not a number where one of them is none.
pub(crate) fn off(found: impl IntoIterator<Item = f32>, expected: &[f32]) -> f32 {
    let mut found = found.into_iter();
    let worst = expected.iter().fold(0.0, |worst: f32, expected| {
        let off = (found.next().unwrap_or(f32::NAN) - expected).abs();
        if off > worst || off.is_nan() {
            off
        } else {
            worst
        }
    });
    assert_eq!(found.next(), None, "more than the reference has");
    worst
}
