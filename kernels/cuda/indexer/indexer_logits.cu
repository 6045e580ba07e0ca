// logits[t, j] = Σ_h weights[t, h] · relu(q[t, h, ..] · key(t, j)). One block for
// 64 entries of a token: a 64 × 64 tile of heads and entries, each thread 4 × 4
// of it, through shared memory in steps of 32 dimensions. Signature and twin:
// src/dsv4/indexer/logits.rs.

#include "pages.cuh"

namespace logits_tile {
constexpr u32 ENTRIES_PER_BLOCK = 64;
constexpr u32 HEADS = 64;
constexpr u32 STEP = 32;
// Rows of threads (heads) and columns (entries), four elements each.
constexpr u32 SIDE = 16;
constexpr u32 EACH = 4;
// Word columns of one row of the tile, shifted so that a store down a column
// and a load along a row both touch different banks.
constexpr u32 STRIDE = ENTRIES_PER_BLOCK + 4;

static_assert(ENTRIES_PER_BLOCK == SIDE * EACH && HEADS == SIDE * EACH, "the tile");
}  // namespace logits_tile

extern "C" __global__ void __launch_bounds__(256) indexer_logits(
    const bf16* __restrict__ q,
    const float* __restrict__ weights,
    const bf16* __restrict__ keys,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    float* __restrict__ logits,
    IndexKeyPages layout,
    u32 tokens,
    u32 heads,
    u32 table_stride,
    u32 max_entries) {
    using namespace logits_tile;
    // Transposed: dimension by row.
    __shared__ __align__(16) float query_tile[STEP][STRIDE];
    __shared__ __align__(16) float key_tile[STEP][STRIDE];
    __shared__ float partial[SIDE][ENTRIES_PER_BLOCK];

    const u32 token = blockIdx.y;
    const u32 first_entry = blockIdx.x * ENTRIES_PER_BLOCK;
    if (token >= tokens) {
        return;
    }
    const u32 dim = layout.dim();
    const u32 len = sequence_length(lens, token, max_entries);
    float* out = logits + static_cast<u64>(token) * max_entries;

    // Each thread loads one word of eight values of a row of either tile ...
    const u32 load_row = threadIdx.x % 64;
    const u32 load_dim = threadIdx.x / 64 * 8;
    // ... and computes four heads by four entries.
    const u32 head_group = threadIdx.x / SIDE;
    const u32 entry_group = threadIdx.x % SIDE;

    float total[EACH] = {};
    if (first_entry < len) {
        const u32 entry = first_entry + load_row;
        const bf16* key = nullptr;
        if (entry < len) {
            const int* table = page_table + static_cast<u64>(token) * table_stride;
            key = layout.values(keys, layout.slot(table, entry));
        }
        for (u32 first_head = 0; first_head < heads; first_head += HEADS) {
            const u32 head = first_head + load_row;
            const bf16* query = head < heads ? q + (static_cast<u64>(token) * heads + head) * dim : nullptr;
            float score[EACH][EACH] = {};
            for (u32 first_dim = 0; first_dim < dim; first_dim += STEP) {
                const u32 d = first_dim + load_dim;
                const uint4 zero = make_uint4(0, 0, 0, 0);
                const Eight a = unpack(query && d < dim ? load_eight(query, d) : zero);
                const Eight b = unpack(key && d < dim ? load_eight(key, d) : zero);
                __syncthreads();
#pragma unroll
                for (u32 e = 0; e < 8; ++e) {
                    query_tile[load_dim + e][load_row] = a.value[e];
                    key_tile[load_dim + e][load_row] = b.value[e];
                }
                __syncthreads();
#pragma unroll
                for (u32 s = 0; s < STEP; ++s) {
                    const float4 h = *reinterpret_cast<const float4*>(&query_tile[s][head_group * EACH]);
                    const float4 k = *reinterpret_cast<const float4*>(&key_tile[s][entry_group * EACH]);
                    const float hs[EACH] = {h.x, h.y, h.z, h.w};
                    const float ks[EACH] = {k.x, k.y, k.z, k.w};
#pragma unroll
                    for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
                        for (u32 j = 0; j < EACH; ++j) {
                            score[i][j] = fmaf(hs[i], ks[j], score[i][j]);
                        }
                    }
                }
            }
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const u32 h = first_head + head_group * EACH + i;
                const float weight = h < heads ? weights[static_cast<u64>(token) * heads + h] : 0.0f;
#pragma unroll
                for (u32 j = 0; j < EACH; ++j) {
                    total[j] = fmaf(weight, fmaxf(score[i][j], 0.0f), total[j]);
                }
            }
        }
    }
#pragma unroll
    for (u32 j = 0; j < EACH; ++j) {
        partial[head_group][entry_group * EACH + j] = total[j];
    }
    __syncthreads();
    if (threadIdx.x < ENTRIES_PER_BLOCK) {
        const u32 entry = first_entry + threadIdx.x;
        if (entry < max_entries) {
            float sum = 0.0f;
#pragma unroll
            for (u32 g = 0; g < SIDE; ++g) {
                sum += partial[g][threadIdx.x];
            }
            out[entry] = entry < len ? sum : negative_infinity();
        }
    }
}
