// Rotary embedding by a table of cosines and sines, [positions, 32, 2] in f32,
// made by the host (src/rope.rs). Pair i of the rotated dimensions is
// elements 2i and 2i + 1.

#pragma once

#include "common.cuh"

namespace rope {
constexpr u32 DIM = ROPE_DIM;
// Floats of a position's row: cosine and sine of each pair.
constexpr u32 ROW = DIM;
}  // namespace rope

// A position's row of the table. A position that the table does not have is
// replaced by the nearest that it has; `outside` says so.
struct Angles {
    const float* row;
    bool outside;

    __device__ __forceinline__ Angles(const float* table, int position, u32 rows) {
        const int last = static_cast<int>(rows) - 1;
        const int place = max(0, min(position, last));
        outside = place != position;
        row = table + static_cast<u64>(place) * rope::ROW;
    }

    // The angles of pairs i and i + 1, for even i: cosine, sine, cosine, sine.
    __device__ __forceinline__ float4 two(u32 pair) const {
        return *reinterpret_cast<const float4*>(row + 2 * pair);
    }
};

// Rotates two pairs. `direction` is 1, or -1 for the inverse.
__device__ __forceinline__ void rotate(float (&value)[4], float4 angles, float direction = 1.0f) {
    const float s0 = direction * angles.y;
    const float s1 = direction * angles.w;
    const float a = value[0] * angles.x - value[1] * s0;
    const float b = value[0] * s0 + value[1] * angles.x;
    const float c = value[2] * angles.z - value[3] * s1;
    const float d = value[2] * s1 + value[3] * angles.z;
    value[0] = a;
    value[1] = b;
    value[2] = c;
    value[3] = d;
}
