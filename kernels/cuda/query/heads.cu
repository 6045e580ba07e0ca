// Norm and rotation of heads in place: the queries of the attention, and the
// rotation alone, forward or back. Signatures and twins: src/dsv4/query/.

#include "row.cuh"

namespace heads {
// Heads that a block normalises.
constexpr u32 PER_BLOCK = THREADS / 32;
constexpr u32 DIM = HEAD_DIM;
// Words of eight values that a lane holds.
constexpr u32 WORDS = DIM / 8 / 32;
}  // namespace heads

__device__ __forceinline__ void rotate_eight(float (&value)[8], const Angles& angles, u32 pair, float direction) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
        float four[4] = {value[4 * half], value[4 * half + 1], value[4 * half + 2], value[4 * half + 3]};
        rotate(four, angles.two(pair + 2 * half), direction);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            value[4 * half + i] = four[i];
        }
    }
}

__device__ __forceinline__ uint4 pack(const float (&value)[8]) {
    return make_uint4(
        two_bf16(value[0], value[1]), two_bf16(value[2], value[3]), two_bf16(value[4], value[5]),
        two_bf16(value[6], value[7]));
}

// A warp for each head of 512 values.
extern "C" __global__ void __launch_bounds__(heads::THREADS) norm_rope_heads(
    bf16* __restrict__ q,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    u32* __restrict__ faults,
    u32 tokens,
    u32 count,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace heads;
    const u32 token = blockIdx.y;
    const u32 head = blockIdx.x * PER_BLOCK + threadIdx.x / 32;
    const u32 lane = threadIdx.x % 32;
    if (token >= tokens || head >= count) {
        return;
    }
    bf16* row = q + (static_cast<u64>(token) * count + head) * DIM;
    const Angles angles(rope_table, positions[token], rope_rows);
    Eight value[WORDS];
    float squares = 0.0f;
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
        value[w] = unpack(load_eight(row, 8 * (lane + 32 * w)));
    }
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            squares = fmaf(value[w].value[i], value[w].value[i], squares);
        }
    }
    const float inverse = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(DIM) + epsilon);
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
        const u32 element = 8 * (lane + 32 * w);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            value[w].value[i] *= inverse;
        }
        if (element >= DIM - rope::DIM) {
            rotate_eight(value[w].value, angles, (element - (DIM - rope::DIM)) / 2, 1.0f);
        }
        *reinterpret_cast<uint4*>(row + element) = pack(value[w].value);
    }
    if (angles.outside && head == 0 && lane == 0) {
        count_fault(faults);
    }
}

// The last 64 of `dim` values of each head, a thread for eight of them.
extern "C" __global__ void __launch_bounds__(heads::THREADS) rope_heads(
    bf16* __restrict__ x,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    u32* __restrict__ faults,
    u32 tokens,
    u32 count,
    u32 dim,
    u32 rope_rows,
    u32 inverse) {
    programmatic::let_next_start();
    programmatic::wait();
    constexpr u32 THREADS_PER_HEAD = rope::DIM / 8;
    const u32 token = blockIdx.y;
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 head = thread / THREADS_PER_HEAD;
    const u32 element = thread % THREADS_PER_HEAD * 8;
    if (token >= tokens || head >= count) {
        return;
    }
    bf16* to = x + (static_cast<u64>(token) * count + head) * dim + dim - rope::DIM + element;
    const Angles angles(rope_table, positions[token], rope_rows);
    Eight value = unpack(load_eight(to, 0));
    rotate_eight(value.value, angles, element / 2, inverse ? -1.0f : 1.0f);
    *reinterpret_cast<uint4*>(to) = pack(value.value);
    if (angles.outside && thread == 0) {
        count_fault(faults);
    }
}
