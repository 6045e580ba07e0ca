//! What a buffer holds, as far as a report wants to print it.

use std::any::TypeId;

use half::{bf16, f16};

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::capture) enum ElementKind {
    Bf16,
    F16,
    F32,
    F64,
    I32,
    U32,
    I64,
    U64,
    /// Anything else, with its size in bytes.
    Bytes(usize),
}

impl ElementKind {
    pub(in crate::capture) fn of<T: 'static>() -> Self {
        let id = TypeId::of::<T>();
        let known = [
            (TypeId::of::<bf16>(), Self::Bf16),
            (TypeId::of::<f16>(), Self::F16),
            (TypeId::of::<f32>(), Self::F32),
            (TypeId::of::<f64>(), Self::F64),
            (TypeId::of::<i32>(), Self::I32),
            (TypeId::of::<u32>(), Self::U32),
            (TypeId::of::<i64>(), Self::I64),
            (TypeId::of::<u64>(), Self::U64),
        ];
        known
            .iter()
            .find(|(known, _)| *known == id)
            .map_or(Self::Bytes(size_of::<T>().max(1)), |(_, kind)| *kind)
    }

    pub(super) fn size(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::Bytes(size) => size,
        }
    }

    /// One element in words: its value, and its bits where values of the same
    /// look may differ in them.
    pub(super) fn show(self, bytes: &[u8]) -> String {
        let bits = || {
            let digits = bytes.iter().rev().map(|byte| format!("{byte:02x}"));
            format!("0x{}", digits.collect::<String>())
        };
        // The last element of a part may be cut off.
        if bytes.len() != self.size() {
            return bits();
        }
        match self {
            Self::Bf16 => format!(
                "{} ({})",
                bytemuck::pod_read_unaligned::<bf16>(bytes),
                bits()
            ),
            Self::F16 => format!(
                "{} ({})",
                bytemuck::pod_read_unaligned::<f16>(bytes),
                bits()
            ),
            Self::F32 => format!(
                "{} ({})",
                bytemuck::pod_read_unaligned::<f32>(bytes),
                bits()
            ),
            Self::F64 => format!(
                "{} ({})",
                bytemuck::pod_read_unaligned::<f64>(bytes),
                bits()
            ),
            Self::I32 => bytemuck::pod_read_unaligned::<i32>(bytes).to_string(),
            Self::U32 => bytemuck::pod_read_unaligned::<u32>(bytes).to_string(),
            Self::I64 => bytemuck::pod_read_unaligned::<i64>(bytes).to_string(),
            Self::U64 => bytemuck::pod_read_unaligned::<u64>(bytes).to_string(),
            Self::Bytes(_) => bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_shown_with_their_bits() {
        let show = |kind: ElementKind, bytes: &[u8]| kind.show(bytes);
        assert_eq!(
            show(ElementKind::of::<f32>(), &(-0.0_f32).to_le_bytes()),
            "-0 (0x80000000)"
        );
        assert_eq!(
            show(ElementKind::of::<bf16>(), &[0xff, 0xff]),
            "NaN (0xffff)"
        );
        assert_eq!(show(ElementKind::of::<i32>(), &[0xff; 4]), "-1");
        assert_eq!(show(ElementKind::of::<u8>(), &[0x5a]), "0x5a");
        assert_eq!(show(ElementKind::of::<i32>(), &[1, 2]), "0x0201");
    }
}
