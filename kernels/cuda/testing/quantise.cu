// The steps that the fused kernels take, each alone. Signatures and twins:
// src/dsv4/testing/.

#include "row.cuh"

// Rows of 128, a warp for each.
extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) hadamard_rows(
    const bf16* __restrict__ x, bf16* __restrict__ out, u32 rows) {
    const u32 row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    const u64 at = static_cast<u64>(row) * hadamard::DIM + 4 * threadIdx.x;
    float value[4];
    load_four(x + at, value);
    hadamard_transform(value);
    store_four(out + at, value);
}

// Rows of 128 with an f32 scale, a warp for each.
extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) quantise_e4m3(
    const float* __restrict__ x, unsigned char* __restrict__ out, float* __restrict__ scales, u32 rows) {
    const u32 row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    const u64 at = static_cast<u64>(row) * row::KEY_DIM + 4 * threadIdx.x;
    const float4 four = *reinterpret_cast<const float4*>(x + at);
    const float value[4] = {four.x, four.y, four.z, four.w};
    const float scale = e4m3_scale(warp_max(absmax_of(value)));
    *reinterpret_cast<u32*>(out + at) = to_e4m3(
        __fdiv_rn(value[0], scale), __fdiv_rn(value[1], scale), __fdiv_rn(value[2], scale),
        __fdiv_rn(value[3], scale));
    if (threadIdx.x == 0) {
        scales[row] = scale;
    }
}

// Latents of 512: a block for each, into a pool at the slot of the row.
extern "C" __global__ void __launch_bounds__(row::LATENT_THREADS) quantise_latent(
    const float* __restrict__ x,
    const int* __restrict__ out_loc,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    LatentFp8Pages layout,
    u32 rows) {
    const u32 row = blockIdx.x;
    if (row >= rows) {
        return;
    }
    const int slot = out_loc[row];
    if (!stores(layout, slot, faults)) {
        return;
    }
    const float4 four =
        *reinterpret_cast<const float4*>(x + static_cast<u64>(row) * LatentFp8Pages::DIM + 4 * threadIdx.x);
    const float value[4] = {four.x, four.y, four.z, four.w};
    store_latent_row(value, pool, layout, slot);
}
