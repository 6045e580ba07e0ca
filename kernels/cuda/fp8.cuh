// e4m3 numbers and their scales. The host's forms, equal bit by bit, are in
// src/reference/fp8.rs. The conversion instruction needs compute capability 8.9.

#pragma once

#include "common.cuh"

// Four e4m3 numbers, the first in the lowest byte: nearest, ties to even, beyond
// 448 the largest number of that sign, not a number 0x7f.
__device__ __forceinline__ u32 to_e4m3(float a, float b, float c, float d) {
    u16 low;
    u16 high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    return static_cast<u32>(high) << 16 | low;
}

// The f32 scale of values of this largest magnitude. Values are divided by it.
__device__ __forceinline__ float e4m3_scale(float absmax) {
    return __fdiv_rn(fmaxf(absmax, fp8::LEAST_ABSMAX), fp8::LARGEST);
}

// The UE8M0 scale of values of this largest magnitude, the byte e of 2^(e - 127):
// the least power of two that is no less than absmax / 448, where the quotient is
// taken, as the public quantisers do it, by multiplication with the rounded
// inverse.
__device__ __forceinline__ u32 ue8m0_scale(float absmax) {
    const float scale = __fmul_rn(fmaxf(absmax, fp8::LEAST_ABSMAX), 1.0f / fp8::LARGEST);
    const u32 bits = __float_as_uint(scale);
    return (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u);
}

// What values are multiplied by for the UE8M0 scale e: 2^(127 - e), a power of
// two, so that the product is the quotient. Zero for the scale of an infinite
// magnitude.
__device__ __forceinline__ float ue8m0_inverse(u32 e) {
    return e < 254 ? __uint_as_float((254u - e) << 23) : 0.0f;
}
