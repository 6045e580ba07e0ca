// The part of one block of sparse.cuh as Hopper computes it, with products of
// warpgroups: 64 heads and one split of the entries, 32 entries at a time.
//
// Of the block's four warpgroups two compute, and each of them has another that
// prepares its latents: reads them, turns them into bf16 and writes them where
// the products find them, up to three steps ahead. A computing group owns half of
// the dimensions, of which it computes its half of the scores and, later, its
// half of the sums. Only the scores are exchanged; then both have the whole
// softmax, in the registers where the second product wants it.

#pragma once

#include "hopper_prepare.cuh"
#include "wgmma.cuh"

namespace hopper {

// How far a score may exceed the one that weights are relative to, in powers of
// two, before they are made relative to it.
constexpr float SLACK = 8.0f;

__device__ __forceinline__ float power_of_two(float exponent) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

// Starts to copy the queries of 64 heads, zero for heads that there are not.
__device__ __forceinline__ void fetch_queries(Shared& shared, const bf16* q, u32 heads) {
    const u32 chunk = threadIdx.x % (DIM / 8);
    const u32 first = threadIdx.x / (DIM / 8);
    constexpr u32 ROWS = PAIR_THREADS / (DIM / 8);
    char* to = shared.queries + chunk / 8 * QUERY_PANEL + first * 128;
    const bf16* from = q + chunk * 8;
#pragma unroll
    for (u32 i = 0; i < HEADS / ROWS; ++i) {
        const u32 head = first + ROWS * i;
        const bool valid = head < heads;
        copy_async(
            to + ROWS * i * 128 + ((chunk ^ first ^ ROWS * i) % 8) * 16, from + (valid ? head : 0) * DIM, valid);
    }
}

// As sparse::sums_of, but word i of the four of a thread holds dimensions 8 i + 2 p
// and the next of 32, p the thread's number modulo 4, until they are turned.
__device__ __forceinline__ sparse::Sums sums_of(u32 head, u32 at) {
    const u32 pair = at % 4;
    const u32 tiles = at / 4 % 8;
    const u32 group = at / 32;
    const u32 thread = group * GROUP_THREADS + head / 16 * 32 + head % 8 * 4 + pair;
    return {(head / 8 % 2 * 8 + tiles) * PAIR_THREADS + thread, group * (DIM / 2) + tiles * 32 + pair * 8};
}

// Exchanges words between four neighbouring threads: word i of thread l becomes
// word l of thread i.
__device__ __forceinline__ void turn(u32 (&words)[4]) {
    const bool odd = threadIdx.x & 1;
    const bool high = threadIdx.x & 2;
#pragma unroll
    for (u32 i = 0; i < 4; i += 2) {
        const u32 other = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[i + 1], 1);
        words[i] = odd ? other : words[i];
        words[i + 1] = odd ? words[i + 1] : other;
    }
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        const u32 other = __shfl_xor_sync(0xffffffffu, high ? words[i] : words[i + 2], 2);
        words[i] = high ? other : words[i];
        words[i + 2] = high ? words[i + 2] : other;
    }
}

// What the threads of a computing group do.
__device__ __forceinline__ void compute(
    Shared& shared,
    const bf16* q,
    uint4* partial,
    float4* stats,
    u32 heads,
    float scale,
    u32 group,
    u32 thread,
    u32 lane) {
    // Two quarters of the dimensions.
    float sums[2][64];
#pragma unroll
    for (u32 i = 0; i < 64; ++i) {
        sums[0][i] = 0.0f;
        sums[1][i] = 0.0f;
    }
    // Of rows lane / 4 and lane / 4 + 8 of the warp's 16 heads: the score that
    // weights are relative to, and their sum.
    float largest[2] = {negative_infinity(), negative_infinity()};
    float total[2] = {};
    u32 turn = 0;
    fetch_queries(shared, q, heads);
    copy_commit();
    copy_wait<0>();
    publish_to_products();
    come_and_wait(COMPUTING);
    const u64 queries =
        swizzled_matrix(shared_address(shared.queries) + group * OWN_PANELS * QUERY_PANEL, 16, sparse::EIGHT_ROWS);
    const u32 own_latents = shared_address(shared.latents[0]) + group * OWN_PANELS * LATENT_PANEL;
    u32 buffer = 0;
    u32 before = BUFFERS;
    while (true) {
        come_and_wait(filled(group, buffer));
        const u32 present = shared.present[group][buffer];
        if (present == 0) {
            break;
        }
        const u32 latents = own_latents + buffer * (PANELS * LATENT_PANEL);
        const u64 keys = swizzled_matrix(latents, 16, sparse::EIGHT_ROWS);
        float scores[16];
        products_begin();
#pragma unroll
        for (u32 k = 0; k < DIM / 2 / 16; ++k) {
            product_64_32(
                scores,
                queries + (k / 4 * QUERY_PANEL + k % 4 * 32) / 16,
                keys + (k / 4 * LATENT_PANEL + k % 4 * 32) / 16,
                k > 0);
        }
        products_commit();
        products_wait();
        // So have those over the latents of the step before.
        if (before < BUFFERS) {
            come(emptied(group, before));
        }
        // Both groups add the same two halves: the same bits.
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            shared.scores[turn][group][i][thread] =
                make_float4(scores[4 * i], scores[4 * i + 1], scores[4 * i + 2], scores[4 * i + 3]);
        }
        come_and_wait(COMPUTING);
        float highest[2] = {negative_infinity(), negative_infinity()};
        const u32 mask = present >> lane % 4 * 2;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            const float4 other = shared.scores[turn][1 - group][i][thread];
            const float others[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                const float score = (scores[4 * i + j] + others[j]) * scale;
                scores[4 * i + j] = mask >> (8 * i + j % 2) & 1 ? score : negative_infinity();
                highest[j / 2] = fmaxf(highest[j / 2], scores[4 * i + j]);
            }
        }
        turn = 1 - turn;
        u32 weights[ENTRIES / 16][4];
        float correction[2];
#pragma unroll
        for (u32 row = 0; row < 2; ++row) {
            highest[row] = fmaxf(highest[row], __shfl_xor_sync(0xffffffffu, highest[row], 1));
            highest[row] = fmaxf(highest[row], __shfl_xor_sync(0xffffffffu, highest[row], 2));
            // An entry takes part, so the highest score is a number. The one
            // before may be minus infinity, whose power is zero.
            if (!(highest[row] > largest[row] + SLACK)) {
                highest[row] = largest[row];
            }
            correction[row] = power_of_two(largest[row] - highest[row]);
        }
        const bool grown = highest[0] > largest[0] || highest[1] > largest[1];
        float added[2] = {};
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            scores[i] = power_of_two(scores[i] - highest[i / 2 % 2]);
            added[i / 2 % 2] += scores[i];
        }
#pragma unroll
        for (u32 row = 0; row < 2; ++row) {
            total[row] = total[row] * correction[row] + added[row];
            largest[row] = highest[row];
        }
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            weights[i / 4][i % 4] = sparse::pack_bf16(scores[2 * i], scores[2 * i + 1]);
        }
        if (__any_sync(0xffffffffu, grown)) {
#pragma unroll
            for (u32 i = 0; i < 64; ++i) {
                sums[0][i] *= correction[i / 2 % 2];
                sums[1][i] *= correction[i / 2 % 2];
            }
        }
        const u64 values = swizzled_matrix(latents, LATENT_PANEL, sparse::EIGHT_ROWS);
        products_begin();
#pragma unroll
        for (u32 k = 0; k < ENTRIES / 16; ++k) {
            product_64_128(sums[0], weights[k], values + k * 2048 / 16);
            product_64_128(sums[1], weights[k], values + (k * 2048 + OWN_PANELS / 2 * LATENT_PANEL) / 16);
        }
        products_commit();
        before = buffer;
        buffer = buffer + 1 < BUFFERS ? buffer + 1 : 0;
    }
    products_wait();
    if (before < BUFFERS) {
        come(emptied(group, before));
    }

#pragma unroll
    for (u32 row = 0; row < 2; ++row) {
        total[row] += __shfl_xor_sync(0xffffffffu, total[row], 1);
        total[row] += __shfl_xor_sync(0xffffffffu, total[row], 2);
        float highest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 64; i += 4) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                highest = fmaxf(highest, fabsf(sums[half][i + 2 * row]));
                highest = fmaxf(highest, fabsf(sums[half][i + 2 * row + 1]));
            }
        }
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 2));
        float unit;
        const float scale = sparse::scale_for(highest, unit);
        const u32 head = 16 * (thread / 32) + lane / 4 + 8 * row;
        if (lane % 4 == 0 && head < heads) {
            float* own = reinterpret_cast<float*>(stats + head);
            if (group == 0) {
                *reinterpret_cast<float2*>(own) = make_float2(largest[row], total[row]);
            }
            own[2 + group] = unit;
        }
        // The same for all threads: an entry that takes part does so for all heads.
        if (largest[row] == negative_infinity()) {
            continue;
        }
        uint4* own_sums = partial + row * 8 * PAIR_THREADS + threadIdx.x;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            const float* from = &sums[i / 4][i % 4 * 16 + 2 * row];
            own_sums[i * PAIR_THREADS] = make_uint4(
                sparse::pack_f16(from[0] * scale, from[1] * scale),
                sparse::pack_f16(from[4] * scale, from[5] * scale),
                sparse::pack_f16(from[8] * scale, from[9] * scale),
                sparse::pack_f16(from[12] * scale, from[13] * scale));
        }
    }
}

// As sparse::attend.
template <typename Source>
__device__ __forceinline__ void attend(
    Shared& shared,
    const bf16* q,
    const sparse::Window& window,
    const Source& source,
    uint4* partial,
    float4* stats,
    u32* faults,
    u32 heads,
    u32 split,
    u32 splits,
    float scale) {
    const u32 lane = threadIdx.x % 32;
    const u32 thread = threadIdx.x % GROUP_THREADS;
    // The same in all lanes, and the compiler is to know it.
    const u32 role = __shfl_sync(0xffffffffu, threadIdx.x / GROUP_THREADS, 0);
    const u32 group = role % 2;
    // The softmax is one of powers of two.
    scale *= sparse::LOG2_E;
    const u32 count = window.count + source.count;
    const u32 each = (count + splits * ENTRIES - 1) / (splits * ENTRIES) * ENTRIES;
    const u32 begin = min(split * each, count);
    const u32 end = min(begin + each, count);
    if (role >= 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
        sparse::Entries<Source> all = {shared.places, window, source, begin, end};
        const u32 bad = prepare(shared, all, group, thread);
        if (bad != 0 && faults != nullptr) {
            atomicAdd(faults, bad);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
        compute(shared, q, partial, stats, heads, scale, group, thread, lane);
    }
}

}  // namespace hopper
