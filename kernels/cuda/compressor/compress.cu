// The compressors: the incoming row of keys and scores goes into the ring of its
// sequence; where it completes a group, the group becomes one row of a cache. A
// block for each token, for C128 eight, which alone touch the ring of its
// sequence. Signatures and twins: src/dsv4/compressor/.

#include "row.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CLUSTERS 1
#define ACROSS_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define CLUSTERS 0
#define ACROSS_CLUSTER(blocks)
#endif

namespace compressor {
using model::C4;
using model::C128;

// Clusters of blocks, from compute capability 9.0 on.
#if CLUSTERS
// The barrier of a cluster in two halves: what was written to shared memory
// before the first is seen after the second.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes to the place in the shared memory of the cluster's first block that
// `to` has in this block's.
__device__ __forceinline__ void store_in_first_block(float* to, float value) {
    const u32 own = static_cast<u32>(__cvta_generic_to_shared(to));
    u32 first;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first) : "r"(own));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(first), "f"(value) : "memory");
}
#endif

// Four channels of a row.
struct Four {
    float value[4];
};

__device__ __forceinline__ Four four(const float* from) {
    const float4 word = *reinterpret_cast<const float4*>(from);
    return {word.x, word.y, word.z, word.w};
}

__device__ __forceinline__ void put(float* to, const Four& channels) {
    *reinterpret_cast<float4*>(to) =
        make_float4(channels.value[0], channels.value[1], channels.value[2], channels.value[3]);
}

// What a row of the batch has to do, the same for the whole block.
struct Step {
    u32 len;
    float* ring;

    // Whether the row belongs to a sequence. A slot that there is no ring for is
    // counted, by one block of a row; slot 0 and an empty sequence are padding.
    __device__ __forceinline__ bool begin(
        u32 token,
        bool counts,
        const int* seq_lens,
        const int* state_slots,
        float* rings,
        u32 slots,
        u32 ring_floats,
        u32* faults) {
        const int slot = state_slots[token];
        const int length = seq_lens[token];
        if (slot == 0 || length <= 0) {
            return false;
        }
        if (slot < 0 || static_cast<u32>(slot) >= slots) {
            if (counts && threadIdx.x == 0) {
                count_fault(faults);
            }
            return false;
        }
        len = static_cast<u32>(length);
        ring = rings + static_cast<u64>(slot) * ring_floats;
        return true;
    }
};

// The rotation of an entry: the position of its group's first token.
__device__ __forceinline__ Angles entry_angles(
    const float* rope_table, u32 len, u32 ratio, u32 rope_rows, u32* faults) {
    const Angles angles(rope_table, static_cast<int>(len - ratio), rope_rows);
    if (angles.outside && threadIdx.x == 0) {
        count_fault(faults);
    }
    return angles;
}

// Four tokens to an entry, with overlap. Rows of the ring and of the input are
// [keys: overlap, normal | scores: overlap, normal].
template <u32 THREADS, typename Pages>
__device__ __forceinline__ void overlapping(
    const float* kv_score,
    const float* ape,
    const float* norm,
    const float* rope_table,
    const int* seq_lens,
    const int* state_slots,
    const int* out_loc,
    float* rings,
    char* pool,
    u32* faults,
    const Pages& layout,
    u32 tokens,
    u32 slots,
    u32 rope_rows,
    float epsilon) {
    constexpr u32 DIM = 4 * THREADS;
    constexpr u32 WIDTH = 4 * DIM;
    constexpr u32 SCORES = 2 * DIM;
    constexpr u32 RING_ROWS = 2 * C4;
    const u32 token = blockIdx.y;
    Step step;
    if (token >= tokens || !step.begin(token, true, seq_lens, state_slots, rings, slots, RING_ROWS * WIDTH, faults)) {
        return;
    }
    const u32 at = 4 * threadIdx.x;
    const float* incoming = kv_score + static_cast<u64>(token) * WIDTH + at;
    Four now[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        now[i] = four(incoming + i * DIM);
    }
    const bool complete = step.len % C4 == 0;
    const int slot = complete ? out_loc[token] : 0;

    // Row r of the eight is the token at len - 8 + r. The first group of a
    // sequence has no rows before it.
    const u32 first = step.len == C4 ? C4 : 0;
    Four key[RING_ROWS];
    Four score[RING_ROWS];
    if (complete) {
#pragma unroll
        for (u32 r = 0; r + 1 < RING_ROWS; ++r) {
            const float* from = step.ring + (step.len + r) % RING_ROWS * WIDTH + (r < C4 ? 0 : DIM) + at;
            key[r] = r < first ? Four{} : four(from);
            score[r] = r < first ? Four{} : four(from + SCORES);
        }
        key[RING_ROWS - 1] = now[1];
        score[RING_ROWS - 1] = now[3];
    }
    float* to = step.ring + (step.len - 1) % RING_ROWS * WIDTH + at;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        put(to + i * DIM, now[i]);
    }
    if (!complete || !stores(layout, slot, faults)) {
        return;
    }
    const Angles angles = entry_angles(rope_table, step.len, C4, rope_rows, faults);
    const Four weight = four(norm + at);
    Four bias[RING_ROWS];
#pragma unroll
    for (u32 r = 0; r < RING_ROWS; ++r) {
        bias[r] = four(ape + (r % C4) * 2 * DIM + (r < C4 ? 0 : DIM) + at);
    }

    Four value;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        float logit[RING_ROWS];
        float largest = negative_infinity();
#pragma unroll
        for (u32 r = 0; r < RING_ROWS; ++r) {
            logit[r] = r < first ? negative_infinity() : score[r].value[i] + bias[r].value[i];
            largest = fmaxf(largest, logit[r]);
        }
        float sum = 0.0f;
        float weighted = 0.0f;
#pragma unroll
        for (u32 r = 0; r < RING_ROWS; ++r) {
            const float e = expf(logit[r] - largest);
            sum += e;
            weighted = fmaf(e, key[r].value[i], weighted);
        }
        value.value[i] = weighted / sum;
    }
    norm_and_rotate<THREADS>(value.value, weight.value, angles, epsilon);
    finish_row(value.value, pool, layout, slot);
}
// 128 tokens to an entry, without overlap. Rows of the ring and of the input are
// [keys | scores]. Each of PARTS blocks has its part of the channels; its threads
// have some rows each, and what they find is combined in the order of the rows.
// The first block gets the pooled channels of the others and finishes the entry.
//
// The blocks are a cluster, which starts together or not at all, so none waits
// for one that may not run. Devices without clusters have the first block pool
// all channels.
template <u32 PARTS, u32 THREADS>
struct Parts {
    static constexpr u32 DIM = LatentFp8Pages::DIM;
    static constexpr u32 WIDTH = 2 * DIM;
    static constexpr u32 CHANNELS = DIM / PARTS;
    static constexpr u32 QUADS = CHANNELS / 4;
    static constexpr u32 GROUPS = THREADS / QUADS;
    static constexpr u32 ROWS = C128 / GROUPS;

    static_assert(THREADS % QUADS == 0 && C128 % GROUPS == 0, "whole groups");
    static_assert(THREADS >= row::LATENT_THREADS, "threads for the entry");

    // Of each group of rows: the largest logit, the sum of the weights relative
    // to it, the weighted sum of the keys.
    float largest[GROUPS][CHANNELS];
    float sum[GROUPS][CHANNELS];
    float weighted[GROUPS][CHANNELS];
    // In the first block: the entry.
    float pooled[DIM];

    // The pooled channel `threadIdx.x` of a part, for as many threads as it has
    // channels. All threads of the block call it.
    __device__ __forceinline__ float pool(const float* ring, const float* incoming, const float* ape, u32 part) {
        const u32 quad = 4 * (threadIdx.x % QUADS);
        const u32 group = threadIdx.x / QUADS;
        const u32 at = part * CHANNELS + quad;
        Four key[ROWS];
        Four logit[ROWS];
        Four bias[ROWS];
#pragma unroll
        for (u32 i = 0; i < ROWS; ++i) {
            const u32 r = group * ROWS + i;
            // A complete group lies in the ring in its order; the incoming row,
            // its last, may not be there yet.
            const float* from = (r == C128 - 1 ? incoming : ring + r * WIDTH) + at;
            key[i] = four(from);
            logit[i] = four(from + DIM);
            bias[i] = four(ape + r * DIM + at);
        }
        Four most;
        Four all = {};
        Four keys = {};
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            most.value[c] = negative_infinity();
#pragma unroll
            for (u32 i = 0; i < ROWS; ++i) {
                logit[i].value[c] += bias[i].value[c];
                most.value[c] = fmaxf(most.value[c], logit[i].value[c]);
            }
#pragma unroll
            for (u32 i = 0; i < ROWS; ++i) {
                const float e = expf(logit[i].value[c] - most.value[c]);
                all.value[c] += e;
                keys.value[c] = fmaf(e, key[i].value[c], keys.value[c]);
            }
        }
        put(&largest[group][quad], most);
        put(&sum[group][quad], all);
        put(&weighted[group][quad], keys);
        __syncthreads();
        if (threadIdx.x >= CHANNELS) {
            return 0.0f;
        }
        float highest = negative_infinity();
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            highest = fmaxf(highest, largest[g][threadIdx.x]);
        }
        float total = 0.0f;
        float total_keys = 0.0f;
#pragma unroll
        for (u32 g = 0; g < GROUPS; ++g) {
            const float share = expf(largest[g][threadIdx.x] - highest);
            total = fmaf(share, sum[g][threadIdx.x], total);
            total_keys = fmaf(share, weighted[g][threadIdx.x], total_keys);
        }
        return total_keys / total;
    }

    // Gives the first block all pooled channels. Whether this block is the first.
    __device__ __forceinline__ bool gather(const float* ring, const float* incoming, const float* ape, u32 part) {
#if CLUSTERS
        // The first block's memory is there once it has begun.
        cluster_arrive();
        const float value = pool(ring, incoming, ape, part);
        cluster_wait();
        if (threadIdx.x < CHANNELS) {
            store_in_first_block(&pooled[part * CHANNELS + threadIdx.x], value);
        }
        cluster_arrive();
        cluster_wait();
        return part == 0;
#else
        if (part != 0) {
            return false;
        }
        for (u32 each = 0; each < PARTS; ++each) {
            const float value = pool(ring, incoming, ape, each);
            if (threadIdx.x < CHANNELS) {
                pooled[each * CHANNELS + threadIdx.x] = value;
            }
            __syncthreads();
        }
        return true;
#endif
    }

    static __device__ __forceinline__ void run(
        const float* kv_score,
        const float* ape,
        const float* norm,
        const float* rope_table,
        const int* seq_lens,
        const int* state_slots,
        const int* out_loc,
        float* rings,
        char* pool,
        u32* faults,
        const LatentFp8Pages& layout,
        u32 tokens,
        u32 slots,
        u32 rope_rows,
        float epsilon) {
        __shared__ __align__(16) Parts shared;
        const u32 part = blockIdx.x;
        const u32 token = blockIdx.y;
        Step step;
        if (token >= tokens ||
            !step.begin(token, part == 0, seq_lens, state_slots, rings, slots, C128 * WIDTH, faults)) {
            return;
        }
        const float* incoming = kv_score + static_cast<u64>(token) * WIDTH;
        if (threadIdx.x < 2 * QUADS) {
            const u32 element = threadIdx.x / QUADS * DIM + part * CHANNELS + 4 * (threadIdx.x % QUADS);
            put(step.ring + (step.len - 1) % C128 * WIDTH + element, four(incoming + element));
        }
        if (step.len % C128 != 0) {
            return;
        }
        // The same for all blocks of the token.
        const int slot = out_loc[token];
        if (!stores(layout, slot, faults, part == 0) || !shared.gather(step.ring, incoming, ape, part) ||
            threadIdx.x >= row::LATENT_THREADS) {
            return;
        }
        const Angles angles = entry_angles(rope_table, step.len, C128, rope_rows, faults);
        Four value = four(&shared.pooled[4 * threadIdx.x]);
        norm_and_rotate<row::LATENT_THREADS>(value.value, four(norm + 4 * threadIdx.x).value, angles, epsilon);
        finish_row(value.value, pool, layout, slot);
    }
};
}  // namespace compressor

extern "C" __global__ void __launch_bounds__(row::LATENT_THREADS) compress_c4(
    const float* __restrict__ kv_score,
    const float* __restrict__ ape,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ seq_lens,
    const int* __restrict__ state_slots,
    const int* __restrict__ out_loc,
    float* __restrict__ rings,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    LatentFp8Pages layout,
    u32 tokens,
    u32 slots,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    compressor::overlapping<row::LATENT_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) compress_index_key(
    const float* __restrict__ kv_score,
    const float* __restrict__ ape,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ seq_lens,
    const int* __restrict__ state_slots,
    const int* __restrict__ out_loc,
    float* __restrict__ rings,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    IndexKeyPages layout,
    u32 tokens,
    u32 slots,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    compressor::overlapping<row::KEY_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(row::KEY_THREADS) compress_index_key_fp8(
    const float* __restrict__ kv_score,
    const float* __restrict__ ape,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ seq_lens,
    const int* __restrict__ state_slots,
    const int* __restrict__ out_loc,
    float* __restrict__ rings,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    IndexKeyFp8Pages layout,
    u32 tokens,
    u32 slots,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    compressor::overlapping<row::KEY_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

extern "C" __global__ void ACROSS_CLUSTER(compressor::C128_PARTS) __launch_bounds__(compressor::C128_THREADS, 3) compress_c128(
    const float* __restrict__ kv_score,
    const float* __restrict__ ape,
    const float* __restrict__ norm,
    const float* __restrict__ rope_table,
    const int* __restrict__ seq_lens,
    const int* __restrict__ state_slots,
    const int* __restrict__ out_loc,
    float* __restrict__ rings,
    char* __restrict__ pool,
    u32* __restrict__ faults,
    LatentFp8Pages layout,
    u32 tokens,
    u32 slots,
    u32 rope_rows,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    compressor::Parts<compressor::C128_PARTS, compressor::C128_THREADS>::run(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}
