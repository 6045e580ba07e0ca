// The Hadamard transform of 128 values that a warp holds, four to a lane.

#pragma once

#include "common.cuh"

namespace hadamard {
constexpr u32 DIM = row::INDEX_DIM;
// 128^-0.5, which makes the transform orthogonal.
constexpr float SCALE = 0.08838834764831845f;
static_assert(DIM == 4 * 32, "four values to a lane; SCALE");
}  // namespace hadamard

// Lane l holds elements 4l .. 4l + 3, before and after. Natural order: element i
// of the result is the sum over j of value j, negated where i & j has an odd
// number of ones, times SCALE.
__device__ __forceinline__ void hadamard_transform(float (&value)[4]) {
    const float a = value[0] + value[1];
    const float b = value[0] - value[1];
    const float c = value[2] + value[3];
    const float d = value[2] - value[3];
    value[0] = a + c;
    value[1] = b + d;
    value[2] = a - c;
    value[3] = b - d;
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const bool upper = lane & distance;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float other = __shfl_xor_sync(0xffffffffu, value[i], distance);
            value[i] = upper ? other - value[i] : value[i] + other;
        }
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        value[i] *= hadamard::SCALE;
    }
}
