//! A tensor as it stands in a file: five values, or eight that also say how its
//! elements lie.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::bounded::Capped;
use super::model::{Limits, View};

pub(super) struct RawTensor {
    pub(super) first: u64,
    pub(super) extent: u64,
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) written: bool,
    pub(super) view: Option<View>,
}

/// Numbers of the dimensions of a tensor.
type PerDimension = Capped<u64, { Limits::DIMENSIONS }>;

impl<'de> Deserialize<'de> for RawTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = RawTensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the five values of a tensor, or these with its sizes, its strides in elements and the bytes of an element",
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawTensor, A::Error> {
        let short = |values| A::Error::invalid_length(values, &self);
        let first = list.next_element()?.ok_or_else(|| short(0))?;
        let extent = list.next_element()?.ok_or_else(|| short(1))?;
        let start = list.next_element()?.ok_or_else(|| short(2))?;
        let len = list.next_element()?.ok_or_else(|| short(3))?;
        let written = list.next_element()?.ok_or_else(|| short(4))?;
        let mut tensor = RawTensor {
            first,
            extent,
            start,
            len,
            written,
            view: None,
        };
        let Some(Capped(sizes)) = list.next_element::<PerDimension>()? else {
            return Ok(tensor);
        };
        let Capped(strides) = list
            .next_element::<PerDimension>()?
            .ok_or_else(|| short(6))?;
        let element: u64 = list.next_element()?.ok_or_else(|| short(7))?;
        if sizes.len() != strides.len() {
            return Err(A::Error::custom(format!(
                "a tensor has {} sizes and {} strides",
                sizes.len(),
                strides.len()
            )));
        }
        let dims = sizes.into_iter().zip(strides).map(|(size, stride)| {
            let bytes = stride.checked_mul(element);
            bytes.map(|bytes| (size, bytes))
        });
        let dims: Option<Box<[_]>> = dims.collect();
        let dims = dims.ok_or_else(|| A::Error::custom("a stride of more than 2^64 bytes"))?;
        tensor.view = Some(View { dims, element });
        Ok(tensor)
    }
}
