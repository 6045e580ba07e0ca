// The k best logits of each token, as slots. One block for each token.
//
// A radix selection, eight bits at a time, over a 64-bit key: the logit's order
// above, the complement of the entry below. All keys differ, so there is exactly
// one k-th key, and "at least that key" is exactly k entries, with equals by
// lower entry. They are collected in any order and then sorted, which makes the
// result independent of it. Signature and twin: src/dsv4/indexer/selection.rs.

#include "pages.cuh"

namespace selection {
constexpr u32 MAX_K = 1024;
constexpr u32 DIGITS = 256;

// Larger is better; zeros of both signs are equal; what is not a number is last.
__device__ __forceinline__ u32 order(float logit) {
    if (logit != logit) {
        return 0;
    }
    const u32 bits = logit == 0.0f ? 0u : __float_as_uint(logit);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ u64 key_of(float logit, u32 entry) {
    return static_cast<u64>(order(logit)) << 32 | static_cast<u32>(~entry);
}
}  // namespace selection

extern "C" __global__ void __launch_bounds__(1024) top_k(
    const float* __restrict__ logits,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    int* __restrict__ indices,
    LatentPages layout,
    u32 tokens,
    u32 max_entries,
    u32 table_stride,
    u32 k) {
    using namespace selection;
    __shared__ u32 histogram[DIGITS];
    __shared__ u64 chosen[MAX_K];
    __shared__ u64 shared_prefix;
    __shared__ u32 shared_needed;
    __shared__ u32 shared_done;
    __shared__ u32 collected;

    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    const u32 len = sequence_length(lens, token, max_entries);
    const float* row = logits + static_cast<u64>(token) * max_entries;
    const int* table = page_table + static_cast<u64>(token) * table_stride;
    int* out = indices + static_cast<u64>(token) * k;

    if (len <= k) {
        for (u32 i = threadIdx.x; i < k; i += blockDim.x) {
            out[i] = i < len ? layout.slot(table, i) : -1;
        }
        return;
    }

    // `prefix` is the k-th key down to `shift`; `needed` of the keys that begin
    // with it are among the best.
    u64 prefix = 0;
    u32 needed = k;
    int shift = 64;
    bool done = false;
    while (shift > 0 && !done) {
        const u64 mask = shift == 64 ? 0 : ~0ull << shift;
        shift -= 8;
        for (u32 i = threadIdx.x; i < DIGITS; i += blockDim.x) {
            histogram[i] = 0;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
            const u64 key = key_of(row[i], i);
            if ((key & mask) == prefix) {
                atomicAdd(&histogram[key >> shift & 0xff], 1u);
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            // Lane l holds digits 255 - 8l .. 248 - 8l, best first; `before`
            // counts what is better than all of them.
            u32 counts[8];
            u32 sum = 0;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                counts[i] = histogram[DIGITS - 1 - (threadIdx.x * 8 + i)];
                sum += counts[i];
            }
            u32 upto = sum;
#pragma unroll
            for (u32 distance = 1; distance < 32; distance *= 2) {
                const u32 other = __shfl_up_sync(0xffffffffu, upto, distance);
                if (threadIdx.x >= distance) {
                    upto += other;
                }
            }
            u32 before = upto - sum;
#pragma unroll
            for (u32 i = 0; i < 8; ++i) {
                // Exactly one digit of one lane holds the k-th key.
                if (before < needed && needed <= before + counts[i]) {
                    const u64 digit = DIGITS - 1 - (threadIdx.x * 8 + i);
                    shared_prefix = prefix | digit << shift;
                    shared_needed = needed - before;
                    shared_done = counts[i] == needed - before;
                }
                before += counts[i];
            }
        }
        __syncthreads();
        prefix = shared_prefix;
        needed = shared_needed;
        // All keys with this prefix are taken: the rest of the digits is zero.
        done = shared_done != 0;
        __syncthreads();
    }

    u32 padded = 1;
    while (padded < k) {
        padded *= 2;
    }
    if (threadIdx.x == 0) {
        collected = 0;
    }
    for (u32 i = threadIdx.x; i < padded; i += blockDim.x) {
        chosen[i] = 0;
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < len; i += blockDim.x) {
        const u64 key = key_of(row[i], i);
        if (key >= prefix) {
            const u32 place = atomicAdd(&collected, 1u);
            if (place < MAX_K) {
                chosen[place] = key;
            }
        }
    }
    __syncthreads();

    // Bitonic sort, best first; the padding is zero, hence last.
    for (u32 size = 2; size <= padded; size *= 2) {
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            for (u32 i = threadIdx.x; i < padded; i += blockDim.x) {
                const u32 other = i ^ distance;
                if (other > i) {
                    const u64 a = chosen[i];
                    const u64 b = chosen[other];
                    const bool descending = (i & size) == 0;
                    if (descending ? a < b : a > b) {
                        chosen[i] = b;
                        chosen[other] = a;
                    }
                }
            }
            __syncthreads();
        }
    }
    for (u32 i = threadIdx.x; i < k; i += blockDim.x) {
        out[i] = layout.slot(table, ~static_cast<u32>(chosen[i]));
    }
}
