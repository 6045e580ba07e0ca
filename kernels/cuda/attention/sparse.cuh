// Attention of a token over its entries of two pools of fp8 latents, the part
// of one block: 64 heads and one split of the entries. What the kernels
// sparse_attention and paged_attention share; they differ in where the entries
// of the second pool are written down.
//
// Warp w owns dimensions 64 w to 64 w + 63, which share one scale (warp 7 has
// the rotated ones, bf16). Keys and values are the same numbers, and a warp
// needs only its own dimensions of them for both products: it copies them, turns
// them into bf16 in the registers where the first product wants them, and turns
// the registers over (movmatrix) for the second. So no latent passes through
// shared memory in bf16, and no barrier stands between a copy and its use. What
// the warps exchange is small: partial scores, 64 heads by 16 entries each, and
// the weights that the softmax makes of their sums.
//
// The order of the 64 dimensions inside a product is free as long as both
// operands agree: lane 4 r + c of a warp holds dimensions 16 c to 16 c + 15 of
// row r, that is 16 bytes of a latent and 32 of a query, whole words of both.

#pragma once

#include "entries.cuh"
#include "mma.cuh"
#include "packed.cuh"

namespace sparse {

constexpr u32 WARPS = THREADS / 32;
constexpr u32 DIM = LatentFp8Pages::DIM;
// Steps whose copies are under way at once.
constexpr u32 STAGES = 3;
// Words of eight sums that one block leaves. They are f16, half of what they
// were, relative to a power of two, the unit of half of the dimensions of a head;
// that rounds each by 2^-12 of itself at most. The weights of the entries are
// rounded by up to 2^-9 before, to bf16, and the result afterwards.
constexpr u32 SUMS = HEADS * DIM / 8;
// Bytes of eight rows of 128: what matrices in shared memory begin at multiples of
// where the products of hopper.cuh read them.
constexpr u32 EIGHT_ROWS = 8 * 128;
constexpr float LOG2_E = 1.4426950408889634f;

static_assert(WARPS * LatentFp8Pages::GROUP == DIM, "a group of dimensions for each warp");
static_assert(LatentFp8Pages::NOPE == 7 * LatentFp8Pages::GROUP, "the last group is the rotated one");

// Starts to copy 4 bytes, or to write zero when not `valid`.
__device__ __forceinline__ void copy_word_async(void* shared, const void* global, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(valid ? 4 : 0)
                 : "memory");
}

// An 8 by 8 matrix of 16-bit values over a warp, a pair of row `lane / 4` in
// each lane, turned over.
__device__ __forceinline__ u32 transposed(u32 pair) {
    u32 result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
}

struct Shared {
    // What was copied, each word for the lane that copied it: two words for
    // each lane of a warp, four in the last.
    uint4 raw[STAGES][2 * WARPS + 2][32];
    u32 scale[STAGES][WARPS][2][32];
    // Scores of each warp's dimensions: of a head, entries (2 c, 2 c + 1,
    // 2 c + 8, 2 c + 9) for c from 0 to 3, the order of the products.
    float4 partial[WARPS][HEADS][4];
    // Weights as the second product wants them: words 0, 2, 1, 3 of the
    // fragment of each lane.
    uint2 weights[HEADS / 16][32][2];
    float correction[HEADS];
    // Of the sums, for each warp.
    alignas(16) float magnitudes[HEADS][WARPS];
    Places places;
};

static_assert(sizeof(Shared) == SHARED_BYTES, "what the host asks for; a block of sm_120 has 99 KiB");

template <typename Source>
struct Block {
    Shared& shared;
    const Entries<Source>& entries;
    u32 warp;
    u32 lane;

    // Starts the copies of a step: this lane's words of two entries.
    __device__ __forceinline__ void fetch(u32 step) {
        if (entries.begin + step * STEP < entries.end) {
            const u32 stage = step % STAGES;
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                const Place place = entries.place(step * STEP + lane / 4 + 8 * i);
                const bool valid = place.values != nullptr;
                const char* values = (valid ? place.values : entries.window.pool) + warp * LatentFp8Pages::GROUP;
                if (warp < WARPS - 1) {
                    copy_async(&shared.raw[stage][2 * warp + i][lane], values + lane % 4 * 16, valid);
                    copy_word_async(
                        &shared.scale[stage][warp][i][lane],
                        (valid ? place.scales : entries.window.pool) + warp / 4 * 4,
                        valid);
                } else {
                    values += lane % 4 * 32;
                    copy_async(&shared.raw[stage][2 * (warp + i)][lane], values, valid);
                    copy_async(&shared.raw[stage][2 * (warp + i) + 1][lane], values + 16, valid);
                }
            }
        }
        copy_commit();
    }

    // The step's latents, as the first product wants them. A masked one is zero,
    // so that its weight of zero meets no NaN.
    __device__ __forceinline__ void latents(u32 (&pairs)[2][8], u32 step) const {
        const u32 stage = step % STAGES;
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
            if (warp < WARPS - 1) {
                const u32 scales = shared.scale[stage][warp][i][lane];
                dequantise(pairs[i], shared.raw[stage][2 * warp + i][lane], scales >> warp % 4 * 8 & 0xffu);
            } else {
                const uint4 low = shared.raw[stage][2 * (warp + i)][lane];
                const uint4 high = shared.raw[stage][2 * (warp + i) + 1][lane];
                const u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                for (u32 j = 0; j < 8; ++j) {
                    pairs[i][j] = words[j];
                }
            }
        }
    }
};

// Where a word is among those that one block leaves, and which dimensions of a
// head are in it: eight neighbours from `first` on. Four neighbouring words `at`
// lie side by side.
struct Sums {
    u32 word;
    u32 first;
};

__device__ __forceinline__ Sums sums_of(u32 head, u32 at) {
    const u32 warp = at / 8;
    const u32 half = at / 4 % 2;
    const u32 pair = at % 4;
    return {((head / 8 * 2 + half) * WARPS + warp) * 32 + head % 8 * 4 + pair, 64 * warp + 16 * pair + 8 * half};
}

// The words of four neighbouring threads that finish a head are as they are.
__device__ __forceinline__ void turn(u32 (&)[4]) {}

// The queries of a warp's dimensions as left operands: of 16 heads and four
// products the two words of row `lane / 4`, and of row + 8.
__device__ __forceinline__ void load_queries(u32 (&queries)[HEADS / 16][4][4], const bf16* q, u32 heads, u32 lane) {
#pragma unroll
    for (u32 m = 0; m < HEADS / 16; ++m) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const u32 head = 16 * m + lane / 4 + 8 * half;
            const bf16* row = q + head * DIM + lane % 4 * 16;
            const uint4 zero = make_uint4(0, 0, 0, 0);
            const uint4 low = head < heads ? load_eight(row, 0) : zero;
            const uint4 high = head < heads ? load_eight(row, 8) : zero;
            const u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                queries[m][k][half] = words[2 * k];
                queries[m][k][half + 2] = words[2 * k + 1];
            }
        }
    }
}

// What a thread keeps of the softmax of one head, its warp's and its row's.
struct Softmax {
    float largest;
    float sum;
};

// Sums the scores of one head over the warps, in the order of the warps, and
// makes weights of them. Says whether the head's largest score has grown.
__device__ __forceinline__ bool weigh(Shared& shared, Softmax& softmax, u32 present, float scale, u32 warp, u32 lane) {
    const u32 row = lane / 4;
    const u32 pair = lane % 4;
    const u32 head = 8 * warp + row;
    float score[4] = {};
#pragma unroll
    for (u32 w = 0; w < WARPS; ++w) {
        const float4 part = shared.partial[w][head][pair];
        score[0] += part.x;
        score[1] += part.y;
        score[2] += part.z;
        score[3] += part.w;
    }
    float largest = softmax.largest;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const u32 entry = 2 * pair + i % 2 + i / 2 * 8;
        score[i] = present >> entry & 1 ? score[i] * scale : negative_infinity();
        largest = fmaxf(largest, score[i]);
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    // An entry takes part, so the largest score is a number; the one before may
    // be minus infinity, whose power is zero.
    const float correction = exp2f(softmax.largest - largest);
    const bool grown = largest > softmax.largest;
    float weight[4];
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        weight[i] = exp2f(score[i] - largest);
        sum += weight[i];
    }
    softmax.sum = softmax.sum * correction + sum;
    softmax.largest = largest;
    shared.weights[warp / 2][lane][warp % 2] =
        make_uint2(pack_bf16(weight[0], weight[1]), pack_bf16(weight[2], weight[3]));
    if (pair == 0) {
        shared.correction[head] = correction;
    }
    return grown;
}

// What one block leaves: for each head the largest score, in powers of two, the
// sum of the weights relative to it, and the units of the sums of the lower and
// of the upper dimensions; and the sums of the weighted latents of all 64 heads in
// the order in which the threads hold them (sums_of). A block without entries
// leaves minus infinity, and no sums.
template <typename Source>
__device__ __forceinline__ void attend(
    Shared& shared,
    const bf16* q,
    const Window& window,
    const Source& source,
    uint4* partial,
    float4* stats,
    u32* faults,
    u32 heads,
    u32 split,
    u32 splits,
    float scale) {
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    // The softmax is one of powers of two.
    scale *= LOG2_E;
    const u32 count = window.count + source.count;
    const u32 each = (count + splits * STEP - 1) / (splits * STEP) * STEP;
    const u32 begin = min(split * each, count);
    const u32 end = min(begin + each, count);
    const u32 steps = (end - begin + STEP - 1) / STEP;
    Entries<Source> all = {shared.places, window, source, begin, end};
    Block<Source> block = {shared, all, warp, lane};

    Softmax softmax = {negative_infinity(), 0.0f};
    float out[HEADS / 16][8][4] = {};
    u32 bad = 0;
    if (steps > 0) {
        bad = all.look_up(begin, threadIdx.x);
        u32 queries[HEADS / 16][4][4];
        load_queries(queries, q + warp * LatentFp8Pages::GROUP, heads, lane);
        __syncthreads();
#pragma unroll
        for (u32 step = 0; step < STAGES - 1; ++step) {
            block.fetch(step);
        }
        for (u32 step = 0; step < steps; ++step) {
            if (step % (AHEAD / STEP) == 0 && begin + step * STEP + AHEAD < end) {
                // No warp still reads the half that is overwritten.
                __syncthreads();
                bad += all.look_up(begin + step * STEP + AHEAD, threadIdx.x);
                __syncthreads();
            }
            block.fetch(step + STAGES - 1);
            const u32 present = all.present(step * STEP) & 0xffffu;
            copy_wait<STAGES - 1>();
            if (present == 0) {
                continue;
            }
            u32 pairs[2][8];
            block.latents(pairs, step);
#pragma unroll
            for (u32 m = 0; m < HEADS / 16; m += 2) {
                float score[2][2][4] = {};
#pragma unroll
                for (u32 k = 0; k < 4; ++k) {
#pragma unroll
                    for (u32 i = 0; i < 2; ++i) {
                        mma_bf16(score[i][0], queries[m + i][k], pairs[0][2 * k], pairs[0][2 * k + 1]);
                        mma_bf16(score[i][1], queries[m + i][k], pairs[1][2 * k], pairs[1][2 * k + 1]);
                    }
                }
#pragma unroll
                for (u32 i = 0; i < 2; ++i) {
                    float4* part = &shared.partial[warp][16 * (m + i) + lane / 4][lane % 4];
                    part[0] = make_float4(score[i][0][0], score[i][0][1], score[i][1][0], score[i][1][1]);
                    part[8 * 4] = make_float4(score[i][0][2], score[i][0][3], score[i][1][2], score[i][1][3]);
                }
            }
            __syncthreads();
            const bool grown = weigh(shared, softmax, present, scale, warp, lane);
            if (__syncthreads_or(grown)) {
#pragma unroll
                for (u32 m = 0; m < HEADS / 16; ++m) {
                    const float upper = shared.correction[16 * m + lane / 4];
                    const float lower = shared.correction[16 * m + lane / 4 + 8];
#pragma unroll
                    for (u32 n = 0; n < 8; ++n) {
                        out[m][n][0] *= upper;
                        out[m][n][1] *= upper;
                        out[m][n][2] *= lower;
                        out[m][n][3] *= lower;
                    }
                }
            }
            u32 weights[HEADS / 16][4];
#pragma unroll
            for (u32 m = 0; m < HEADS / 16; ++m) {
                const uint4 words = *reinterpret_cast<const uint4*>(&shared.weights[m][lane]);
                weights[m][0] = words.x;
                weights[m][2] = words.y;
                weights[m][1] = words.z;
                weights[m][3] = words.w;
            }
#pragma unroll
            for (u32 n = 0; n < 8; ++n) {
                const u32 low = transposed(pairs[0][n]);
                const u32 high = transposed(pairs[1][n]);
#pragma unroll
                for (u32 m = 0; m < HEADS / 16; ++m) {
                    mma_bf16(out[m][n], weights[m], low, high);
                }
            }
        }
    }

    if (bad != 0 && faults != nullptr) {
        atomicAdd(faults, bad);
    }
    softmax.sum += __shfl_xor_sync(0xffffffffu, softmax.sum, 1);
    softmax.sum += __shfl_xor_sync(0xffffffffu, softmax.sum, 2);
    const u32 own = 8 * warp + lane / 4;
    const bool any = __syncthreads_or(softmax.largest != negative_infinity());
    // The largest magnitude of each head in each warp's dimensions.
#pragma unroll
    for (u32 m = 0; m < HEADS / 16; ++m) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float largest = 0.0f;
#pragma unroll
            for (u32 n = 0; n < 8; ++n) {
                largest = fmaxf(largest, fmaxf(fabsf(out[m][n][2 * half]), fabsf(out[m][n][2 * half + 1])));
            }
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
            if (lane % 4 == 0) {
                shared.magnitudes[16 * m + 8 * half + lane / 4][warp] = largest;
            }
        }
    }
    __syncthreads();
    const auto unit_of = [&](u32 head, u32 upper, float& unit) {
        const float4 four = *reinterpret_cast<const float4*>(&shared.magnitudes[head][4 * upper]);
        return scale_for(fmaxf(fmaxf(four.x, four.y), fmaxf(four.z, four.w)), unit);
    };
    if (lane % 4 == 0 && own < heads) {
        float units[2];
        unit_of(own, 0, units[0]);
        unit_of(own, 1, units[1]);
        stats[own] = make_float4(softmax.largest, softmax.sum, units[0], units[1]);
    }
    if (!any) {
        return;
    }
    uint4* own_sums = partial + threadIdx.x;
#pragma unroll
    for (u32 m = 0; m < HEADS / 16; ++m) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float unit;
            const float scale = unit_of(16 * m + 8 * half + lane / 4, warp / 4, unit);
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                u32 words[4];
#pragma unroll
                for (u32 k = 0; k < 4; ++k) {
                    const float* pair = &out[m][4 * i + k][2 * half];
                    words[k] = pack_f16(pair[0] * scale, pair[1] * scale);
                }
                own_sums[((2 * m + half) * 2 + i) * THREADS] = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

}  // namespace sparse
