// From token ids to rows, and from logits to token ids. Signatures and twins:
// src/dsv4/glue/tokens.rs.

#include "row.cuh"

extern "C" __global__ void __launch_bounds__(token_rows::EMBED_THREADS) embed(
    const int* __restrict__ ids,
    const bf16* __restrict__ embedding,
    bf16* __restrict__ x,
    u32* __restrict__ faults,
    u32 tokens,
    u32 width,
    u32 vocabulary) {
    programmatic::let_next_start();
    programmatic::wait();
    const u32 token = blockIdx.y;
    const u32 element = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (token >= tokens || element >= width) {
        return;
    }
    int id = ids[token];
    if (id < 0 || static_cast<u32>(id) >= vocabulary) {
        id = 0;
        if (element == 0) {
            count_fault(faults);
        }
    }
    *reinterpret_cast<uint4*>(x + static_cast<u64>(token) * width + element) =
        load_eight(embedding + static_cast<u64>(id) * width, element);
}

// A block for each token. The key of a logit orders logits above and, the other
// way round, entries below, so that the largest key is the answer in any order.
extern "C" __global__ void __launch_bounds__(token_rows::ARGMAX_THREADS) argmax(
    const float* __restrict__ logits, int* __restrict__ ids, u32 tokens, u32 vocabulary) {
    programmatic::let_next_start();
    programmatic::wait();
    __shared__ u64 part[token_rows::ARGMAX_THREADS / 32];
    static_assert(token_rows::ARGMAX_THREADS == 32 * 32, "one warp has the parts of all");
    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    const float* row = logits + static_cast<u64>(token) * vocabulary;
    u64 best = 0;
    for (u32 i = threadIdx.x; i < vocabulary; i += blockDim.x) {
        const float logit = row[i];
        const u32 bits = logit == 0.0f ? 0u : __float_as_uint(logit);
        const u32 order = logit != logit ? 0u : (bits >> 31 ? ~bits : bits | 0x80000000u);
        best = max(best, static_cast<u64>(order) << 32 | static_cast<u32>(~i));
    }
#pragma unroll
    for (u32 distance = 16; distance > 0; distance /= 2) {
        best = max(best, __shfl_xor_sync(0xffffffffu, best, distance));
    }
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = best;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        best = part[threadIdx.x];
#pragma unroll
        for (u32 distance = 16; distance > 0; distance /= 2) {
            best = max(best, __shfl_xor_sync(0xffffffffu, best, distance));
        }
        if (threadIdx.x == 0) {
            ids[token] = static_cast<int>(~static_cast<u32>(best));
        }
    }
}
