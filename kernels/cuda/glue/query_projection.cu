// q[t, r] = x[t, ..] · weight[r, ..]. Signature and twin:
// src/dsv4/glue/projection.rs.

#include "projection.cuh"

extern "C" __global__ void __launch_bounds__(projection::THREADS) query_projection(
    const bf16* __restrict__ x,
    const bf16* __restrict__ weight,
    bf16* __restrict__ q,
    u32 tokens,
    u32 width,
    u32 rows) {
    project_block(x, weight, tokens, width, rows, [=](u32 token, u32 row, float sum) {
        q[static_cast<u64>(token) * rows + row] = to_bf16(sum);
    });
}
