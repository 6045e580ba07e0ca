// Pairs of 16-bit numbers in one word, and latents in fp8 made into such pairs.

#pragma once

#include "common.cuh"

namespace sparse {

// Two bf16 in one word, the first in its lower half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// The products of two pairs of bf16. The sum with minus zero changes nothing.
__device__ __forceinline__ u32 scaled(u32 pair, u32 factor) {
    u32 product;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(pair), "r"(factor), "r"(0x80008000u));
    return product;
}

// Two f16 in one word, the first in its lower half.
__device__ __forceinline__ u32 pack_f16(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float2 unpack_f16(u32 pair) {
    float2 both;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(both.x), "=f"(both.y)
        : "r"(pair));
    return both;
}

// What sums of which the largest magnitude is `largest` are multiplied by to make
// the most of f16, and what undoes it, their unit: powers of two.
__device__ __forceinline__ float scale_for(float largest, float& unit) {
    const u32 exponent = __float_as_uint(largest) >> 23;
    // The largest becomes 2^14 or somewhat more. Infinity stays.
    const u32 scale = min(127 + 14 + 127 - exponent, 253u);
    unit = __uint_as_float((254 - scale) << 23);
    return __uint_as_float(scale << 23);
}

// Eight pairs of bf16 out of 16 numbers in e4m3 and the exponent of their scale.
// The bits of e4m3 are put where bf16 has its own; that is the number by 2^-120,
// subnormal or not, and one product with a power of two makes up for it.
__device__ __forceinline__ void dequantise(u32 (&pairs)[8], const uint4& raw, u32 exponent) {
    // 2^120 times the scale 2^(exponent - 127), as far as bf16 goes.
    const u32 biased = min(exponent + 120, 254u);
    const u32 factor = biased << 7 | biased << 23;
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const u32 high = (words[i] & 0x80808080u) | (words[i] >> 4 & 0x07070707u);
        const u32 low = words[i] << 4 & 0xf0f0f0f0u;
        pairs[2 * i] = scaled(__byte_perm(low, high, 0x5140), factor);
        pairs[2 * i + 1] = scaled(__byte_perm(low, high, 0x7362), factor);
    }
    if (exponent > 134) {
        const u32 rest = exponent - 134 + 127;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            pairs[i] = scaled(pairs[i], rest << 7 | rest << 23);
        }
    }
}

}  // namespace sparse
