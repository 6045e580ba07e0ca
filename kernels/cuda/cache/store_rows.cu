// Norm, rotation and store of rows that a projection made, into each pool. A
// block for each token. Signatures and twins: src/dsv4/cache/store.rs.

#include "row.cuh"

template <u32 THREADS, typename Pages>
__device__ __forceinline__ void store_row(
    const bf16* x,
    const float* norm,
    const float* rope_table,
    const int* positions,
    const int* out_loc,
    char* pool,
    u32* faults,
    const Pages& layout,
    u32 tokens,
    u32 stride,
    u32 first,
    u32 rope_rows,
    float epsilon) {
    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    // All that does not depend on the slot is asked for before it is looked at.
    const int slot = out_loc[token];
    const int position = positions[token];
    float value[4];
    load_four(x + static_cast<u64>(token) * stride + first + 4 * threadIdx.x, value);
    const float4 four = reinterpret_cast<const float4*>(norm)[threadIdx.x];
    const float weight[4] = {four.x, four.y, four.z, four.w};
    if (!stores(layout, slot, faults)) {
        return;
    }
    const Angles angles(rope_table, position, rope_rows);
    if (angles.outside && threadIdx.x == 0) {
        count_fault(faults);
    }
    norm_and_rotate<THREADS>(value, weight, angles, epsilon);
    finish_row(value, pool, layout, slot);
}

extern "C" __global__ void __launch_bounds__(row::LATENT_THREADS) store_latent(
    const bf16* __restrict__ x,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    const int* __restrict__ out_loc,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    LatentFp8Pages layout,
    u32 tokens,
    u32 stride,
    u32 first,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    store_row<row::LATENT_THREADS>(
        x, norm, rope_table, positions, out_loc, pool, faults, layout, tokens, stride, first, rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) store_index_key(
    const bf16* __restrict__ x,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    const int* __restrict__ out_loc,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    IndexKeyPages layout,
    u32 tokens,
    u32 stride,
    u32 first,
    u32 rope_rows,
    float epsilon) {
    store_row<row::KEY_THREADS>(
        x, norm, rope_table, positions, out_loc, pool, faults, layout, tokens, stride, first, rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) store_index_key_fp8(
    const bf16* __restrict__ x,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    const int* __restrict__ out_loc,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    IndexKeyFp8Pages layout,
    u32 tokens,
    u32 stride,
    u32 first,
    u32 rope_rows,
    float epsilon) {
    store_row<row::KEY_THREADS>(
        x, norm, rope_table, positions, out_loc, pool, faults, layout, tokens, stride, first, rope_rows, epsilon);
}
