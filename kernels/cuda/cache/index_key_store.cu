// The index key of each token: projection, RMS norm, store at its slot. One
// block for each token. Signature and twin: src/dsv4/cache/key_store.rs.

#include "pages.cuh"

extern "C" __global__ void __launch_bounds__(index_key::THREADS) index_key_store(
    const bf16* __restrict__ x,
    const bf16* __restrict__ weight,
    const float* __restrict__ norm,
    const int* __restrict__ out_loc,
    bf16* __restrict__ keys,
    IndexKeyPages layout,
    u32 tokens,
    u32 width,
    float epsilon) {
    __shared__ float projected[index_key::MAX_KEY_DIM];
    __shared__ float inverse_rms;

    const u32 token = blockIdx.x;
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 warps = blockDim.x / 32;
    const u32 dim = layout.dim();
    if (token >= tokens) {
        return;
    }
    // Padded rows share slot 0: storing them would be a race of this kernel with
    // itself. The condition is the same for the whole block.
    const int slot = out_loc[token];
    if (slot <= 0 || !layout.holds(slot)) {
        return;
    }

    const bf16* row = x + static_cast<u64>(token) * width;
    for (u32 d = warp; d < dim; d += warps) {
        const bf16* w = weight + static_cast<u64>(d) * width;
        float sum = 0.0f;
        for (u32 i = lane * 8; i < width; i += 32 * 8) {
            const Eight a = unpack(load_eight(row, i));
            const Eight b = unpack(load_eight(w, i));
#pragma unroll
            for (u32 e = 0; e < 8; ++e) {
                sum = fmaf(a.value[e], b.value[e], sum);
            }
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            projected[d] = sum;
        }
    }
    __syncthreads();

    if (warp == 0) {
        float squares = 0.0f;
        for (u32 d = lane; d < dim; d += 32) {
            squares = fmaf(projected[d], projected[d], squares);
        }
        squares = warp_sum(squares);
        if (lane == 0) {
            inverse_rms = 1.0f / sqrtf(squares / static_cast<float>(dim) + epsilon);
        }
    }
    __syncthreads();

    bf16* key = layout.values(keys, slot);
    for (u32 d = threadIdx.x; d < dim; d += blockDim.x) {
        key[d] = to_bf16(projected[d] * inverse_rms * norm[d]);
    }
}
