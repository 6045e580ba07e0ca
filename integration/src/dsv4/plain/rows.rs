//! Rows of values, one for each token.

/// Rows of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>,
}

impl Rows {
    /// Rows of zeros.
    pub(super) fn zeros(rows: usize, width: usize) -> Self {
        Self {
            width,
            values: vec![0.0; rows * width],
        }
    }

    /// Rows of what `make` makes of each row's number, all of one width.
    pub(super) fn of(rows: usize, width: usize, make: impl FnMut(usize) -> Vec<f32>) -> Self {
        let values: Vec<f32> = (0..rows).flat_map(make).collect();
        debug_assert_eq!(values.len(), rows * width);
        Self { width, values }
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The rows in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[f32]> + ExactSizeIterator {
        self.values.chunks_exact(self.width)
    }

    /// The last row, if there is one.
    pub fn last(&self) -> Option<&[f32]> {
        self.iter().next_back()
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..][..self.width]
    }

    pub(super) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.width..][..self.width]
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.values.chunks_exact_mut(self.width)
    }
}
