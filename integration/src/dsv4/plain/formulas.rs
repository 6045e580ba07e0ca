//! Formulas that no configuration changes, as values.
//!
//! Most mistakes that one could make in this model are another configuration or other
//! weights. The rest are these: a test puts a wrong formula in the place of one, and
//! sees that the comparison with the reference finds it.

/// The cosine and the sine of an angle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Angle {
    /// The cosine.
    pub cosine: f32,
    /// The sine.
    pub sine: f32,
}

impl Angle {
    pub(super) fn of(radians: f32) -> Self {
        let (sine, cosine) = f64::from(radians).sin_cos();
        Self {
            cosine: cosine as f32,
            sine: sine as f32,
        }
    }

    /// The same angle the other way round.
    pub(super) fn back(self) -> Self {
        Self {
            sine: -self.sine,
            ..self
        }
    }
}

/// Turns the last channels of the values by the angles.
pub type Rotate = fn(values: &mut [f32], angles: &[Angle]);

/// Of scores and biases of all experts, the chosen ones and their weights before these
/// are made to add up.
pub type Choose = fn(scores: &[f32], bias: &[f32], count: usize) -> Vec<(usize, f32)>;

/// The streams after a block: of `post`, the square matrix `comb`, the streams before,
/// and what the block put out.
pub type Expand = fn(post: &[f32], comb: &[f32], streams: &[f32], output: &[f32]) -> Vec<f32>;

/// What a model is made of beside its configuration and weights.
#[derive(Clone, Copy, Debug)]
pub struct Formulas {
    /// The rotary embedding.
    pub rotate: Rotate,
    /// The choice of experts by their scores.
    pub choose: Choose,
    /// The hyper-connection after a block.
    pub expand: Expand,
}
