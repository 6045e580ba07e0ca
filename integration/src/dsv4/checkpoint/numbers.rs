//! The numbers that stored codes stand for.
//!
//! | format | bits: sign, exponent, fraction | bias | without a number |
//! | --- | --- | --- | --- |
//! | bf16 | 1, 8, 7 | 127 | as f32 |
//! | e4m3 (OCP FP8, "fn") | 1, 4, 3 | 7 | 0x7f and 0xff |
//! | e2m1 (OCP MX FP4) | 1, 2, 1 | 1 | none |
//! | ue8m0 (OCP MX scale) | 0, 8, 0 | 127 | 0xff |

use std::sync::LazyLock;

/// What a code of e4m3 stands for.
pub(super) fn e4m3(code: u8) -> f32 {
    static TABLE: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|code| e4m3_of_bits(code as u8)));
    TABLE[code as usize]
}

fn e4m3_of_bits(code: u8) -> f32 {
    if code & 0x7f == 0x7f {
        return f32::NAN;
    }
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(code >> 3 & 0xf), f32::from(code & 7) / 8.0);
    let magnitude = match exponent {
        0 => fraction * exp2(-6),
        _ => (1.0 + fraction) * exp2(exponent - 7),
    };
    sign * magnitude
}

/// What a code of e2m1, the low four bits, stands for.
pub(super) fn e2m1(code: u8) -> f32 {
    const TABLE: [f32; 16] = [
        0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
    ];
    TABLE[usize::from(code & 0xf)]
}

/// The power of two that a scale in ue8m0 stands for.
pub(super) fn ue8m0(code: u8) -> f32 {
    match code {
        // Below the normal numbers of f32.
        0 => f32::from_bits(1 << 22),
        0xff => f32::NAN,
        code => f32::from_bits(u32::from(code) << 23),
    }
}

fn exp2(exponent: i32) -> f32 {
    (exponent as f32).exp2()
}

/// Values of bf16, little-endian.
pub(super) fn bf16s(bytes: &[u8], out: &mut [f32]) {
    for (pair, out) in bytes.chunks_exact(2).zip(out) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes([pair[0], pair[1]])) << 16);
    }
}

/// Values of f32, little-endian.
pub(super) fn f32s(bytes: &[u8], out: &mut [f32]) {
    for (four, out) in bytes.chunks_exact(4).zip(out) {
        *out = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest, smallest and first normal numbers of the OCP specification.
    #[test]
    fn codes_stand_for_the_published_numbers() {
        let cases = [
            (0x00, 0.0),
            (0x01, 0.001_953_125),
            (0x07, 0.013_671_875),
            (0x08, 0.015_625),
            (0x38, 1.0),
            (0x7e, 448.0),
            (0xb8, -1.0),
            (0xfe, -448.0),
        ];
        for (code, number) in cases {
            assert_eq!(e4m3(code), number, "{code:#x}");
        }
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        assert_eq!([1, 7, 9, 15].map(e2m1), [0.5, 6.0, -0.5, -6.0]);
        assert_eq!([1, 127, 130, 254].map(ue8m0), [-126, 0, 3, 127].map(exp2));
        assert_eq!(ue8m0(0), exp2(-127));
        assert!(ue8m0(255).is_nan());
    }
}
