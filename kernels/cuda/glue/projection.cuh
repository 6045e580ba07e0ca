// x · weightᵀ for few tokens and many rows: the weight is read once for every
// eight tokens, which is what the time goes into.

#pragma once

#include "common.cuh"

namespace projection {
constexpr u32 ROWS_PER_WARP = ROWS_PER_BLOCK / (THREADS / 32);
}

// Calls `store(token, row, sum)` once for each result of the block. A warp owns
// two rows; its lanes take every 32nd word of eight values, and their sums are
// added in a fixed order.
template <typename Store>
__device__ __forceinline__ void project_block(
    const bf16* __restrict__ x,
    const bf16* __restrict__ weight,
    u32 tokens,
    u32 width,
    u32 rows,
    Store store) {
    using namespace projection;
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 first_row = blockIdx.x * ROWS_PER_BLOCK + warp * ROWS_PER_WARP;
    const u32 first_token = blockIdx.y * TOKENS_PER_BLOCK;
    if (first_row >= rows || first_token >= tokens) {
        return;
    }
    const u32 tokens_here = min(TOKENS_PER_BLOCK, tokens - first_token);
    const u32 rows_here = min(ROWS_PER_WARP, rows - first_row);

    float sum[ROWS_PER_WARP][TOKENS_PER_BLOCK] = {};
    for (u32 i = lane * 8; i < width; i += 32 * 8) {
        Eight w[ROWS_PER_WARP];
#pragma unroll
        for (u32 r = 0; r < ROWS_PER_WARP; ++r) {
            // A row past the end is read as the last one and not stored.
            const u32 row = first_row + min(r, rows_here - 1);
            w[r] = unpack(load_eight(weight + static_cast<u64>(row) * width, i));
        }
#pragma unroll
        for (u32 t = 0; t < TOKENS_PER_BLOCK; ++t) {
            const u32 token = first_token + min(t, tokens_here - 1);
            const Eight v = unpack(load_eight(x + static_cast<u64>(token) * width, i));
#pragma unroll
            for (u32 r = 0; r < ROWS_PER_WARP; ++r) {
#pragma unroll
                for (u32 e = 0; e < 8; ++e) {
                    sum[r][t] = fmaf(w[r].value[e], v.value[e], sum[r][t]);
                }
            }
        }
    }
#pragma unroll
    for (u32 r = 0; r < ROWS_PER_WARP; ++r) {
#pragma unroll
        for (u32 t = 0; t < TOKENS_PER_BLOCK; ++t) {
            const float total = warp_sum(sum[r][t]);
            if (lane == 0 && r < rows_here && t < tokens_here) {
                store(first_token + t, first_row + r, total);
            }
        }
    }
}
