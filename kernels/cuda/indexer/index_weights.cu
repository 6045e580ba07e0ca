// weights[t, h] = scale · (x[t, ..] · weight[h, ..]). Signature and twin:
// src/dsv4/indexer/weights.rs.

#include "projection.cuh"

extern "C" __global__ void __launch_bounds__(projection::THREADS) index_weights(
    const bf16* __restrict__ x,
    const bf16* __restrict__ weight,
    float* __restrict__ weights,
    u32 tokens,
    u32 width,
    u32 heads,
    float scale) {
    project_block(x, weight, tokens, width, heads, [=](u32 token, u32 head, float sum) {
        weights[static_cast<u64>(token) * heads + head] = scale * sum;
    });
}
