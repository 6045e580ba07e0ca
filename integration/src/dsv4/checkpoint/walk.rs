//! Tensors asked for one by one, with what is wrong about them noted, so that one
//! walk through a model finds all faults of its files.

use safetensors::Dtype;

use super::bytes::Bytes;
use super::config::{ExpertFormat, Quantisation};
use super::error::TensorFault;
use super::matrix::{BLOCK, GROUP, Matrix, Scales, Stored};
use super::numbers::{bf16s, f32s};
use super::source::{Source, Tensor};

const REAL: &[Dtype] = &[Dtype::BF16, Dtype::F32];
const IDS: &[Dtype] = &[Dtype::I64, Dtype::I32];
const FP8: &[Dtype] = &[Dtype::F8_E4M3];
const FP4: &[Dtype] = &[Dtype::I8];
const POWERS: &[Dtype] = &[Dtype::F8_E8M0];
const BLOCK_SCALES: &[Dtype] = &[Dtype::F8_E8M0, Dtype::F32];

/// A walk through the tensors of a model. After a fault the walk goes on with
/// something in the place of the tensor, which nobody gets to see: a walk with
/// faults ends in an error.
pub(super) struct Walk<'a> {
    source: &'a mut dyn Source,
    quantisation: Option<Quantisation>,
    asked: &'a mut dyn FnMut(),
    faults: Vec<TensorFault>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        source: &'a mut dyn Source,
        quantisation: Option<Quantisation>,
        asked: &'a mut dyn FnMut(),
    ) -> Self {
        Self {
            source,
            quantisation,
            asked,
            faults: Vec::new(),
        }
    }

    /// What the walk found, or all that is wrong.
    pub(super) fn end<T>(self, found: T) -> Result<T, Vec<TensorFault>> {
        if self.faults.is_empty() {
            return Ok(found);
        }
        Err(self.faults)
    }

    pub(super) fn vector(&mut self, name: &str, len: usize) -> Vec<f32> {
        let Some(tensor) = self.tensor(name, &[len], REAL) else {
            return Vec::new();
        };
        reals(&tensor, len)
    }

    /// A small matrix that is read as a whole.
    pub(super) fn table(&mut self, name: &str, rows: usize, columns: usize) -> Vec<f32> {
        let Some(tensor) = self.tensor(name, &[rows, columns], REAL) else {
            return Vec::new();
        };
        reals(&tensor, rows * columns)
    }

    /// A matrix that is never quantised.
    pub(super) fn plain(&mut self, name: &str, rows: usize, columns: usize) -> Matrix {
        let tensor = self.tensor(name, &[rows, columns], REAL);
        let stored = match &tensor {
            Some(tensor) if tensor.dtype == Dtype::F32 => Stored::F32,
            _ => Stored::Bf16,
        };
        matrix(rows, columns, stored, tensor)
    }

    /// The matrix of a projection, in the format of the checkpoint.
    pub(super) fn linear(&mut self, name: &str, rows: usize, columns: usize) -> Matrix {
        match self.quantisation {
            None => self.plain(&format!("{name}.weight"), rows, columns),
            Some(_) => self.blocks(name, rows, columns),
        }
    }

    /// A matrix of an expert, in the experts' format.
    pub(super) fn expert(&mut self, name: &str, rows: usize, columns: usize) -> Matrix {
        match self.quantisation.map(|quantisation| quantisation.experts) {
            Some(ExpertFormat::Fp4) => self.groups(name, rows, columns),
            Some(ExpertFormat::Fp8) | None => self.linear(name, rows, columns),
        }
    }

    /// The experts of each token, `chosen` of `count` different ones.
    pub(super) fn experts_of_tokens(
        &mut self,
        name: &str,
        tokens: usize,
        chosen: usize,
        count: usize,
    ) -> Vec<u32> {
        let Some(tensor) = self.tensor(name, &[tokens, chosen], IDS) else {
            return Vec::new();
        };
        let (ids, _) = tensor.bytes.as_chunks::<4>();
        let ids = ids.iter().map(|&id| i64::from(i32::from_le_bytes(id)));
        let ids: Vec<i64> = if tensor.dtype == Dtype::I64 {
            let (ids, _) = tensor.bytes.as_chunks::<8>();
            ids.iter().map(|&id| i64::from_le_bytes(id)).collect()
        } else {
            ids.collect()
        };
        for (token, ids) in ids.chunks(chosen).enumerate() {
            let outside = ids.iter().find(|&&id| id < 0 || id >= count as i64);
            let twice = (1..ids.len()).find(|&i| ids[..i].contains(&ids[i]));
            if let Some(&expert) = outside.or(twice.map(|i| &ids[i])) {
                self.faults.push(TensorFault::Expert {
                    name: name.to_owned(),
                    token,
                    expert,
                    experts: count,
                });
                break;
            }
        }
        // What does not fit is a fault that was just noted.
        ids.into_iter().map(|id| id as u32).collect()
    }

    /// e4m3 in blocks.
    fn blocks(&mut self, name: &str, rows: usize, columns: usize) -> Matrix {
        let weight = format!("{name}.weight");
        let whole = |size: usize| size <= BLOCK || size.is_multiple_of(BLOCK);
        if !whole(rows) || !whole(columns) {
            self.faults.push(TensorFault::Blocks {
                name: weight.clone(),
                shape: [rows, columns],
            });
        }
        let values = self.tensor(&weight, &[rows, columns], FP8);
        let grid = [rows.div_ceil(BLOCK), columns.div_ceil(BLOCK)];
        let scales = self.scales(&format!("{name}.scale"), &grid, BLOCK_SCALES);
        matrix(rows, columns, Stored::E4m3(scales), values)
    }

    /// e2m1 in groups.
    fn groups(&mut self, name: &str, rows: usize, columns: usize) -> Matrix {
        let weight = format!("{name}.weight");
        if !columns.is_multiple_of(GROUP) {
            self.faults.push(TensorFault::Groups {
                name: weight.clone(),
                columns,
            });
        }
        let values = self.tensor(&weight, &[rows, columns / 2], FP4);
        let grid = [rows, columns / GROUP];
        let scales = self.scales(&format!("{name}.scale"), &grid, POWERS);
        matrix(rows, columns, Stored::E2m1(scales), values)
    }

    fn scales(&mut self, name: &str, grid: &[usize], dtypes: &[Dtype]) -> Scales {
        match self.tensor(name, grid, dtypes) {
            Some(tensor) if tensor.dtype == Dtype::F32 => Scales::F32(tensor.bytes),
            Some(tensor) => Scales::Ue8m0(tensor.bytes),
            None => Scales::Ue8m0(Vec::new().into()),
        }
    }

    /// A tensor of that shape and of one of the types, or none and a fault.
    fn tensor(&mut self, name: &str, shape: &[usize], dtypes: &[Dtype]) -> Option<Tensor> {
        (self.asked)();
        let before = self.faults.len();
        let name = || name.to_owned();
        let Some(tensor) = self.source.tensor(&name(), shape, dtypes) else {
            self.faults.push(TensorFault::Missing { name: name() });
            return None;
        };
        if tensor.shape != shape {
            self.faults.push(TensorFault::Shape {
                name: name(),
                found: tensor.shape.clone(),
                wanted: shape.to_vec(),
            });
        }
        if !dtypes.contains(&tensor.dtype) {
            self.faults.push(TensorFault::Type {
                name: name(),
                found: tensor.dtype,
                wanted: dtypes.to_vec(),
            });
        }
        let bits = tensor.dtype.bitsize() * tensor.shape.iter().product::<usize>();
        if bits != 8 * tensor.bytes.len() {
            self.faults.push(TensorFault::Bytes {
                name: name(),
                found: tensor.bytes.len(),
                wanted: bits.div_ceil(8),
            });
        }
        (self.faults.len() == before).then_some(tensor)
    }
}

fn matrix(rows: usize, columns: usize, stored: Stored, tensor: Option<Tensor>) -> Matrix {
    Matrix {
        rows,
        columns,
        stored,
        values: tensor.map_or(Bytes::from(Vec::new()), |tensor| tensor.bytes),
    }
}

fn reals(tensor: &Tensor, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    match tensor.dtype {
        Dtype::F32 => f32s(&tensor.bytes, &mut values),
        _ => bf16s(&tensor.bytes, &mut values),
    }
    values
}
