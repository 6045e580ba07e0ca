// The indexer's queries: rotation of the last 64 of 128 dimensions, Hadamard
// transform, and the format that the logits want. A warp for each head.
// Signatures and twins: src/dsv4/query/indexer.rs.

#include "row.cuh"

namespace index_queries {
// The head of this warp, or none.
struct Head {
    u32 token;
    u32 head;
    u64 place;

    __device__ __forceinline__ bool begin(u32 tokens, u32 heads) {
        token = blockIdx.y;
        head = blockIdx.x * HEADS_PER_BLOCK + threadIdx.x / 32;
        place = static_cast<u64>(token) * heads + head;
        return token < tokens && head < heads;
    }
};

// The transformed query, four values to a lane.
__device__ __forceinline__ void prepare(
    const Head& here, const bf16* q, const float* rope_table, int position, u32 rope_rows, u32* faults, float (&value)[4]) {
    constexpr u32 FIRST_ROTATED = (row::KEY_DIM - rope::DIM) / 4;
    const u32 lane = threadIdx.x % 32;
    load_four(q + here.place * row::KEY_DIM + 4 * lane, value);
    const Angles angles(rope_table, position, rope_rows);
    if (lane >= FIRST_ROTATED) {
        rotate(value, angles.two(2 * (lane - FIRST_ROTATED)));
    }
    hadamard_transform(value);
    if (angles.outside && here.head == 0 && lane == 0) {
        count_fault(faults);
    }
}
}  // namespace index_queries

extern "C" __global__ void __launch_bounds__(index_queries::THREADS) index_query(
    const bf16* __restrict__ q,
    const float* __restrict__ projected,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    bf16* __restrict__ query,
    float* __restrict__ weights,
    u32* __restrict__ faults,
    u32 tokens,
    u32 heads,
    u32 rope_rows,
    float scale) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace index_queries;
    Head here;
    if (!here.begin(tokens, heads)) {
        return;
    }
    const u32 lane = threadIdx.x % 32;
    const float weight = projected[here.place];
    float value[4];
    prepare(here, q, rope_table, positions[here.token], rope_rows, faults, value);
    store_four(query + here.place * row::KEY_DIM + 4 * lane, value);
    if (lane == 0) {
        weights[here.place] = weight * scale;
    }
}

extern "C" __global__ void __launch_bounds__(index_queries::THREADS) index_query_fp8(
    const bf16* __restrict__ q,
    const float* __restrict__ projected,
    const float* __restrict__ rope_table,
    const int* __restrict__ positions,
    unsigned char* __restrict__ query,
    float* __restrict__ weights,
    u32* __restrict__ faults,
    u32 tokens,
    u32 heads,
    u32 rope_rows,
    float scale) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace index_queries;
    Head here;
    if (!here.begin(tokens, heads)) {
        return;
    }
    const u32 lane = threadIdx.x % 32;
    const float weight = projected[here.place];
    float value[4];
    prepare(here, q, rope_table, positions[here.token], rope_rows, faults, value);
    const float query_scale = e4m3_scale(warp_max(absmax_of(value)));
    *reinterpret_cast<u32*>(query + here.place * row::KEY_DIM + 4 * lane) = to_e4m3(
        __fdiv_rn(value[0], query_scale), __fdiv_rn(value[1], query_scale), __fdiv_rn(value[2], query_scale),
        __fdiv_rn(value[3], query_scale));
    if (lane == 0) {
        weights[here.place] = weight * scale * query_scale;
    }
}
