// The compressors: the incoming row of keys and scores goes into the ring of its
// sequence; where it completes a group, the group becomes one row of a cache. A
// block for each token, which alone touches the ring of its sequence. Signatures
// and twins: src/dsv4/compressor/.

#include "row.cuh"

namespace compressor {
constexpr u32 C4 = 4;
constexpr u32 C128 = 128;

// Threads of a C128 block: four groups of 32 rows, each as wide as a latent.
constexpr u32 C128_GROUPS = 4;
constexpr u32 C128_ROWS = C128 / C128_GROUPS;
constexpr u32 C128_THREADS = C128_GROUPS * row::LATENT_THREADS;
// Rows that a thread has in flight.
constexpr u32 CHUNK = 4;

static_assert(C128_ROWS % CHUNK == 0, "whole chunks");

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
    // counted; slot 0 and an empty sequence are padding.
    __device__ __forceinline__ bool begin(
        const int* seq_lens, const int* state_slots, float* rings, u32 slots, u32 ring_floats, u32* faults) {
        const u32 token = blockIdx.x;
        const int slot = state_slots[token];
        const int length = seq_lens[token];
        if (slot == 0 || length <= 0) {
            return false;
        }
        if (slot < 0 || static_cast<u32>(slot) >= slots) {
            if (threadIdx.x == 0) {
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
    const u32 token = blockIdx.x;
    Step step;
    if (token >= tokens || !step.begin(seq_lens, state_slots, rings, slots, RING_ROWS * WIDTH, faults)) {
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
}  // namespace compressor

extern "C" __global__ void __launch_bounds__(128) compress_c4(
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
    compressor::overlapping<row::LATENT_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(32) compress_index_key(
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
    compressor::overlapping<row::KEY_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

extern "C" __global__ void __launch_bounds__(32) compress_index_key_fp8(
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
    compressor::overlapping<row::KEY_THREADS>(
        kv_score, ape, norm, rope_table, seq_lens, state_slots, out_loc, rings, pool, faults, layout, tokens, slots,
        rope_rows, epsilon);
}

// 128 tokens to an entry. Rows of the ring and of the input are [keys | scores].
// Each of four groups of threads takes 32 rows of the ring with a running
// maximum, and the groups are added in their order.
extern "C" __global__ void __launch_bounds__(512) compress_c128(
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
    using namespace compressor;
    constexpr u32 DIM = LatentFp8Pages::DIM;
    constexpr u32 WIDTH = 2 * DIM;
    constexpr u32 QUADS = row::LATENT_THREADS;
    // The groups' maxima, then their sums.
    __shared__ __align__(16) float part[C128_GROUPS][DIM];
    __shared__ __align__(16) float weighted_part[C128_GROUPS][DIM];

    const u32 token = blockIdx.x;
    Step step;
    if (token >= tokens || !step.begin(seq_lens, state_slots, rings, slots, C128 * WIDTH, faults)) {
        return;
    }
    const float* incoming = kv_score + static_cast<u64>(token) * WIDTH;
    const u32 place = (step.len - 1) % C128;
    if (threadIdx.x < WIDTH / 4) {
        put(step.ring + place * WIDTH + 4 * threadIdx.x, four(incoming + 4 * threadIdx.x));
    }
    // A complete group lies in the ring in its order, with the incoming row last.
    if (step.len % C128 != 0) {
        return;
    }
    const int slot = out_loc[token];
    if (!stores(layout, slot, faults)) {
        return;
    }

    const u32 quad = threadIdx.x % QUADS;
    const u32 group = threadIdx.x / QUADS;
    const u32 at = 4 * quad;
    Four largest;
    Four sum = {};
    Four weighted = {};
#pragma unroll 1
    for (u32 chunk = 0; chunk < C128_ROWS; chunk += CHUNK) {
        Four key[CHUNK];
        Four score[CHUNK];
        Four bias[CHUNK];
#pragma unroll
        for (u32 i = 0; i < CHUNK; ++i) {
            const u32 r = group * C128_ROWS + chunk + i;
            const float* from = (r == C128 - 1 ? incoming : step.ring + r * WIDTH) + at;
            key[i] = four(from);
            score[i] = four(from + DIM);
            bias[i] = four(ape + r * DIM + at);
        }
#pragma unroll
        for (u32 c = 0; c < 4; ++c) {
            float logit[CHUNK];
            float most = negative_infinity();
#pragma unroll
            for (u32 i = 0; i < CHUNK; ++i) {
                logit[i] = score[i].value[c] + bias[i].value[c];
                most = fmaxf(most, logit[i]);
            }
            if (chunk != 0) {
                most = fmaxf(most, largest.value[c]);
                const float factor = expf(largest.value[c] - most);
                sum.value[c] *= factor;
                weighted.value[c] *= factor;
            }
            largest.value[c] = most;
#pragma unroll
            for (u32 i = 0; i < CHUNK; ++i) {
                const float e = expf(logit[i] - most);
                sum.value[c] += e;
                weighted.value[c] = fmaf(e, key[i].value[c], weighted.value[c]);
            }
        }
    }

    put(&part[group][at], largest);
    __syncthreads();
    Four share;
#pragma unroll
    for (u32 c = 0; c < 4; ++c) {
        float most = largest.value[c];
#pragma unroll
        for (u32 g = 0; g < C128_GROUPS; ++g) {
            most = fmaxf(most, part[g][at + c]);
        }
        share.value[c] = expf(largest.value[c] - most);
    }
    // The maxima are read before their place takes the sums.
    __syncthreads();
#pragma unroll
    for (u32 c = 0; c < 4; ++c) {
        sum.value[c] *= share.value[c];
        weighted.value[c] *= share.value[c];
    }
    put(&part[group][at], sum);
    put(&weighted_part[group][at], weighted);
    __syncthreads();
    if (group != 0) {
        return;
    }
    Four value;
#pragma unroll
    for (u32 c = 0; c < 4; ++c) {
        float all = 0.0f;
        float all_weighted = 0.0f;
#pragma unroll
        for (u32 g = 0; g < C128_GROUPS; ++g) {
            all += part[g][at + c];
            all_weighted += weighted_part[g][at + c];
        }
        value.value[c] = all_weighted / all;
    }
    const Angles angles = entry_angles(rope_table, step.len, C128, rope_rows, faults);
    norm_and_rotate<QUADS>(value.value, four(norm + at).value, angles, epsilon);
    finish_row(value.value, pool, layout, slot);
}
