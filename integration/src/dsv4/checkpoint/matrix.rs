//! A weight matrix in the format in which it is stored.

use super::bytes::Bytes;
use super::numbers::{bf16s, e2m1, e4m3, f32s, ue8m0};

/// Rows and columns that share a scale of an e4m3 matrix.
pub(super) const BLOCK: usize = 128;
/// Columns that share a scale of an e2m1 matrix.
pub(super) const GROUP: usize = 32;

/// How the numbers of a matrix are stored, row after row.
#[derive(Clone, Debug)]
pub enum Stored {
    /// f32.
    F32,
    /// bf16.
    Bf16,
    /// e4m3, and a scale for each block of 128 rows by 128 columns.
    E4m3(Scales),
    /// e2m1, two codes a byte with the first in the low four bits, and a scale for
    /// each 32 columns of a row.
    E2m1(Scales),
}

/// The scales of a matrix, row after row of blocks.
#[derive(Clone, Debug)]
pub enum Scales {
    /// Powers of two.
    Ue8m0(Bytes),
    /// f32.
    F32(Bytes),
}

/// A matrix `[rows, columns]`: its product takes `columns` values to `rows`.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) stored: Stored,
    pub(super) values: Bytes,
}

impl Matrix {
    /// Rows, which are outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, which are inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The format, and the scales where it has some.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// The codes or numbers, as they are stored.
    pub fn values(&self) -> &Bytes {
        &self.values
    }

    /// Bytes of values and scales.
    pub fn stored_bytes(&self) -> u64 {
        let scales = match &self.stored {
            Stored::F32 | Stored::Bf16 => 0,
            Stored::E4m3(scales) | Stored::E2m1(scales) => scales.bytes().len(),
        };
        (self.values.len() + scales) as u64
    }

    /// Writes the numbers of a row to `out`, which holds a value for each column.
    pub(in crate::dsv4) fn row(&self, row: usize, out: &mut [f32]) {
        let row_bytes = self.values.len() / self.rows;
        let bytes = &self.values[row * row_bytes..][..row_bytes];
        match &self.stored {
            Stored::F32 => f32s(bytes, out),
            Stored::Bf16 => bf16s(bytes, out),
            Stored::E4m3(scales) => {
                let first = row / BLOCK * self.columns.div_ceil(BLOCK);
                let blocks = bytes.chunks(BLOCK).zip(out.chunks_mut(BLOCK));
                for (block, (codes, out)) in blocks.enumerate() {
                    let scale = scales.get(first + block);
                    for (code, out) in codes.iter().zip(out) {
                        *out = e4m3(*code) * scale;
                    }
                }
            }
            Stored::E2m1(scales) => {
                let first = row * (self.columns / GROUP);
                let groups = bytes.chunks(GROUP / 2).zip(out.chunks_mut(GROUP));
                for (group, (codes, out)) in groups.enumerate() {
                    let scale = scales.get(first + group);
                    for (code, out) in codes.iter().zip(out.chunks_exact_mut(2)) {
                        out[0] = e2m1(*code) * scale;
                        out[1] = e2m1(code >> 4) * scale;
                    }
                }
            }
        }
    }
}

impl Scales {
    /// The scales, as they are stored.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Ue8m0(bytes) | Self::F32(bytes) => bytes,
        }
    }

    fn get(&self, index: usize) -> f32 {
        match self {
            Self::Ue8m0(bytes) => ue8m0(bytes[index]),
            Self::F32(bytes) => {
                let mut scale = [0.0];
                f32s(&bytes[4 * index..][..4], &mut scale);
                scale[0]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(matrix: &Matrix, row: usize) -> Vec<f32> {
        let mut out = vec![0.0; matrix.columns];
        matrix.row(row, &mut out);
        out
    }

    #[test]
    fn blocks_and_groups_have_their_own_scales() {
        let scales = [1.0_f32, 2.0, 4.0, 8.0].map(f32::to_le_bytes).concat();
        let matrix = Matrix {
            rows: 256,
            columns: 256,
            stored: Stored::E4m3(Scales::F32(scales.into())),
            values: vec![0x38; 256 * 256].into(),
        };
        for (number, left, right) in [(0, 1.0, 2.0), (127, 1.0, 2.0), (128, 4.0, 8.0)] {
            let row = row(&matrix, number);
            assert!(row[..128].iter().all(|&value| value == left), "{number}");
            assert!(row[128..].iter().all(|&value| value == right), "{number}");
        }

        // The low four bits come first: 0.5, then 6.
        let matrix = Matrix {
            rows: 1,
            columns: 64,
            stored: Stored::E2m1(Scales::Ue8m0(vec![127, 129].into())),
            values: vec![0x71; 32].into(),
        };
        let row = row(&matrix, 0);
        assert_eq!(row[..2], [0.5, 6.0]);
        assert_eq!(row[30..34], [0.5, 6.0, 2.0, 24.0]);
    }
}
