//! The choice of the highest scores.

/// The places of the `count` highest scores, in order; of equal ones the first.
pub(super) fn highest(scores: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..scores.len()).collect();
    places.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    places.truncate(count);
    places.sort_unstable();
    places
}
