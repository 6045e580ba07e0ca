//! e4m3 numbers, their scales, and the public quantisers, bit by bit.
//!
//! These work in f32 and in the order of the public quantisers, because the
//! bytes of a cache must be theirs: the device code in `cuda/fp8.cuh` gives the
//! same bytes for the same f32 values.

use crate::constants::shared;

shared! {
    pub(crate) FP8 = fp8 {
        /// The largest e4m3 number.
        LARGEST: f32 = 448.0;
        /// What a group's largest magnitude counts as at the least, so that no
        /// scale is zero.
        LEAST_ABSMAX: f32 = 1e-4;
    }
}

/// The e4m3 number nearest to `value`, ties to even. Beyond 448 it is the
/// largest number of that sign; what is not a number is 0x7f.
pub fn to_e4m3(value: f32) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = ((value.to_bits() >> 24) & 0x80) as u8;
    let magnitude = value.abs();
    if magnitude >= LARGEST {
        return sign | 0x7e;
    }
    // The step between neighbours: 2^(exponent - 3), below 2^-6 always 2^-9.
    let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-6);
    // Exact: a power of two, and a quotient that keeps its significand or, for
    // the smallest values, is far below a half.
    let steps = f64::from(magnitude) / 2_f64.powi(exponent - 3);
    let steps = steps.round_ties_even() as u32;
    // 8..=16 steps of a normal number; 16 is the first of the next exponent.
    // Below 8 the number is subnormal and its code is the number of steps.
    let code = (exponent + 6) as u32 * 8 + steps;
    sign | code as u8
}

/// The value of an e4m3 number.
pub fn from_e4m3(code: u8) -> f32 {
    let (exponent, steps) = (i32::from(code >> 3 & 0xf), f32::from(code & 7));
    let magnitude = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => steps * 2_f32.powi(-9),
        _ => (8.0 + steps) * 2_f32.powi(exponent - 10),
    };
    if code & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// The largest magnitude. What is not a number does not count.
pub fn absmax(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// The f32 scale of values of this largest magnitude; values are divided by it.
pub fn e4m3_scale(absmax: f32) -> f32 {
    absmax.max(LEAST_ABSMAX) / LARGEST
}

/// The UE8M0 scale of values of this largest magnitude, the byte `e` of
/// `2^(e - 127)`: the least power of two that is no less than `absmax / 448`,
/// where the quotient is taken, as the public quantisers do it, by
/// multiplication with the rounded inverse. An infinite magnitude gives 255.
pub fn ue8m0_scale(absmax: f32) -> u8 {
    let bits = (absmax.max(LEAST_ABSMAX) * (1.0 / LARGEST)).to_bits();
    ((bits >> 23) + u32::from(bits & 0x7f_ffff != 0)) as u8
}

/// The value of a UE8M0 scale; infinite for 255.
pub fn from_ue8m0(scale: u8) -> f32 {
    f32::from_bits(u32::from(scale) << 23)
}

/// Values as e4m3 numbers with one f32 scale.
pub fn quantise_e4m3(values: &[f32]) -> (Vec<u8>, f32) {
    let scale = e4m3_scale(absmax(values));
    (values.iter().map(|v| to_e4m3(v / scale)).collect(), scale)
}

/// Values as e4m3 numbers with one UE8M0 scale.
pub fn quantise_ue8m0(values: &[f32]) -> (Vec<u8>, u8) {
    let scale = ue8m0_scale(absmax(values));
    // A power of two: the quotient has no rounding of its own.
    let divisor = from_ue8m0(scale);
    (values.iter().map(|v| to_e4m3(v / divisor)).collect(), scale)
}
