// The part of one block of sparse.cuh as Hopper computes it, with products of
// warpgroups: 64 heads and one split of the entries, 32 entries at a time.
//
// Each of the two warpgroups owns half of the dimensions: it copies them, turns
// them into bf16 in shared memory, computes its half of the scores and, later,
// its half of the sums. Only the scores are exchanged; then both have the whole
// softmax, in the registers where the second product wants it. While the tensor
// cores work on that product the threads prepare the next 32 latents.

#pragma once

#include "sparse.cuh"
#include "wgmma.cuh"

namespace hopper {

constexpr u32 HEADS = sparse::HEADS;
constexpr u32 THREADS = sparse::THREADS;
constexpr u32 GROUP_THREADS = THREADS / 2;
constexpr u32 DIM = sparse::DIM;
constexpr u32 STEP = 32;
constexpr u32 STAGES = 3;
// A panel is 64 dimensions, 128 bytes, of each row; its scale is its own.
constexpr u32 PANELS = DIM / 64;
constexpr u32 OWN_PANELS = PANELS / 2;
constexpr u32 QUERY_PANEL = HEADS * 128;
constexpr u32 LATENT_PANEL = STEP * 128;
// How far a score may exceed the one that weights are relative to, in powers of
// two, before they are made relative to it.
constexpr float SLACK = 8.0f;

static_assert(GROUP_THREADS == 4 * STEP, "four threads of a warpgroup to an entry");

struct Shared {
    // Queries and latents as the products read them.
    char queries[PANELS * QUERY_PANEL];
    char latents[2][PANELS * LATENT_PANEL];
    // What was copied, each word for the thread that copied it.
    uint4 raw[STAGES][OWN_PANELS][THREADS];
    uint4 rotated[STAGES][GROUP_THREADS];
    u32 scales[STAGES][THREADS];
    // Scores of each warpgroup, of a step and of the one before: a group may be
    // a step ahead of the other.
    float4 scores[2][2][4][GROUP_THREADS];
    sparse::Places places;
};

static_assert(sizeof(Shared) == 230464, "what the host asks for; a block of sm_90 has 227 KiB");

__device__ __forceinline__ float power_of_two(float exponent) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

__device__ __forceinline__ void store_shared(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// Waits for the threads of a warpgroup.
__device__ __forceinline__ void group_barrier(u32 group) {
    asm volatile("bar.sync %0, %1;" : : "r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

// Where a thread works: lanes 0 to 3 and 4 to 7 of eight have two entries, whose
// rows have different parity, so that the words that they write lie in different
// banks.
struct Seat {
    u32 group;
    u32 entry;
    u32 part;

    __device__ __forceinline__ Seat()
        // The same in all lanes, and the compiler is to know it.
        : group(__shfl_sync(0xffffffffu, threadIdx.x / GROUP_THREADS, 0)), entry(threadIdx.x % GROUP_THREADS / 4), part(threadIdx.x % 4) {}
};

// Starts the copies of a step: this thread's words of an entry, 16 bytes of each
// panel and, of the rotated one, 32.
template <typename Source>
__device__ __forceinline__ void fetch(Shared& shared, const sparse::Entries<Source>& all, const Seat& seat, u32 step) {
    if (all.begin + step * STEP < all.end) {
        const u32 stage = step % STAGES;
        const sparse::Place place = all.place(step * STEP + seat.entry);
        const bool valid = place.values != nullptr;
        const char* values = valid ? place.values : all.window.pool;
        const char* own = values + seat.group * OWN_PANELS * LatentFp8Pages::GROUP + seat.part * 16;
        uint4* raw = &shared.raw[stage][0][threadIdx.x];
#pragma unroll
        for (u32 i = 0; i < 3; ++i) {
            copy_async(raw + i * THREADS, own + i * LatentFp8Pages::GROUP, valid);
        }
        if (seat.group == 0) {
            copy_async(raw + 3 * THREADS, own + 3 * LatentFp8Pages::GROUP, valid);
        } else {
            const char* rotated = values + LatentFp8Pages::NOPE + seat.part * 32;
            copy_async(raw + 3 * THREADS, rotated, valid);
            copy_async(&shared.rotated[stage][threadIdx.x % GROUP_THREADS], rotated + 16, valid);
        }
        const char* scales = (valid ? place.scales : all.window.pool) + seat.group * 4;
        sparse::copy_word_async(&shared.scales[stage][threadIdx.x], scales, valid);
    }
    copy_commit();
}

// Turns what this thread has copied of a step into bf16.
__device__ __forceinline__ void prepare(Shared& shared, const Seat& seat, u32 step) {
    const u32 stage = step % STAGES;
    const u32 row =
        shared_address(shared.latents[step % 2]) + seat.group * OWN_PANELS * LATENT_PANEL + seat.entry * 128;
    const u32 first = row + ((2 * seat.part) ^ seat.entry % 8) * 16;
    const u32 second = row + ((2 * seat.part + 1) ^ seat.entry % 8) * 16;
    const uint4* raw = &shared.raw[stage][0][threadIdx.x];
    const u32 scales = shared.scales[stage][threadIdx.x];
#pragma unroll
    for (u32 i = 0; i < OWN_PANELS; ++i) {
        if (i < 3 || seat.group == 0) {
            u32 pairs[8];
            sparse::dequantise(pairs, raw[i * THREADS], scales >> 8 * i & 0xffu);
            store_shared(first + i * LATENT_PANEL, pairs[0], pairs[1], pairs[2], pairs[3]);
            store_shared(second + i * LATENT_PANEL, pairs[4], pairs[5], pairs[6], pairs[7]);
        } else {
            const uint4 low = raw[3 * THREADS];
            const uint4 high = shared.rotated[stage][threadIdx.x % GROUP_THREADS];
            store_shared(first + i * LATENT_PANEL, low.x, low.y, low.z, low.w);
            store_shared(second + i * LATENT_PANEL, high.x, high.y, high.z, high.w);
        }
    }
}

// Starts to copy the queries of 64 heads, zero for heads that there are not.
__device__ __forceinline__ void fetch_queries(Shared& shared, const bf16* q, u32 heads) {
    const u32 chunk = threadIdx.x % (DIM / 8);
    const u32 first = threadIdx.x / (DIM / 8);
    constexpr u32 ROWS = THREADS / (DIM / 8);
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

// As sparse::sums_of.
__device__ __forceinline__ sparse::Sums sums_of(u32 head, u32 at) {
    const u32 pair = at % 4;
    const u32 tiles = at / 4 % 16;
    const u32 group = at / 64;
    const u32 thread = group * GROUP_THREADS + head / 16 * 32 + head % 8 * 4 + pair;
    const u32 low = group * (DIM / 2) + tiles * 16 + pair * 2;
    return {(head / 8 % 2 * 16 + tiles) * THREADS + thread, low, low + 8};
}

// As sparse::attend.
template <typename Source>
__device__ __forceinline__ void attend(
    Shared& shared,
    const bf16* q,
    const sparse::Window& window,
    const Source& source,
    float4* partial,
    float2* stats,
    u32* faults,
    u32 heads,
    u32 split,
    u32 splits,
    float scale) {
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x % GROUP_THREADS / 32;
    const Seat seat;
    // The softmax is one of powers of two.
    scale *= sparse::LOG2_E;
    const u32 count = window.count + source.count;
    const u32 each = (count + splits * STEP - 1) / (splits * STEP) * STEP;
    const u32 begin = min(split * each, count);
    const u32 end = min(begin + each, count);
    const u32 steps = (end - begin + STEP - 1) / STEP;
    sparse::Entries<Source> all = {shared.places, window, source, begin, end};

    float sums[128];
#pragma unroll
    for (u32 i = 0; i < 128; ++i) {
        sums[i] = 0.0f;
    }
    // Of rows lane / 4 and lane / 4 + 8 of the warp's 16 heads: the score that
    // weights are relative to, and their sum.
    float largest[2] = {negative_infinity(), negative_infinity()};
    float total[2] = {};
    u32 turn = 0;
    u32 bad = 0;
    if (steps > 0) {
        bad = all.look_up(begin);
        fetch_queries(shared, q, heads);
        __syncthreads();
#pragma unroll
        for (u32 step = 0; step < STAGES - 1; ++step) {
            // The queries belong to the first group of copies.
            fetch(shared, all, seat, step);
        }
        copy_wait<STAGES - 2>();
        prepare(shared, seat, 0);
        publish_to_products();
        __syncthreads();
    }
    const u64 queries =
        swizzled_matrix(shared_address(shared.queries) + seat.group * OWN_PANELS * QUERY_PANEL, 16, 1024);
    const u32 own_latents = shared_address(shared.latents[0]) + seat.group * OWN_PANELS * LATENT_PANEL;
    for (u32 step = 0; step < steps; ++step) {
        if (step % (sparse::AHEAD / STEP) == 0 && begin + step * STEP + sparse::AHEAD < end) {
            // No warp still reads the half that is overwritten.
            __syncthreads();
            bad += all.look_up(begin + step * STEP + sparse::AHEAD);
            __syncthreads();
        }
        const u32 present = all.present(step * STEP);
        u32 weights[STEP / 16][4];
        if (present != 0) {
            const u32 latents = own_latents + step % 2 * (PANELS * LATENT_PANEL);
            const u64 keys = swizzled_matrix(latents, 16, 1024);
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
            // Both groups add the same two halves: the same bits.
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                shared.scores[turn][seat.group][i][threadIdx.x % GROUP_THREADS] =
                    make_float4(scores[4 * i], scores[4 * i + 1], scores[4 * i + 2], scores[4 * i + 3]);
            }
            __syncthreads();
            float highest[2] = {negative_infinity(), negative_infinity()};
            const u32 mask = present >> lane % 4 * 2;
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const float4 other = shared.scores[turn][1 - seat.group][i][threadIdx.x % GROUP_THREADS];
                const float others[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
                for (u32 j = 0; j < 4; ++j) {
                    const float score = (scores[4 * i + j] + others[j]) * scale;
                    scores[4 * i + j] = mask >> (8 * i + j % 2) & 1 ? score : negative_infinity();
                    highest[j / 2] = fmaxf(highest[j / 2], scores[4 * i + j]);
                }
            }
            turn = 1 - turn;
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
                for (u32 i = 0; i < 128; ++i) {
                    sums[i] *= correction[i / 2 % 2];
                }
            }
            const u64 values = swizzled_matrix(latents, LATENT_PANEL, 1024);
            products_begin();
#pragma unroll
            for (u32 k = 0; k < STEP / 16; ++k) {
                product_64_256(sums, weights[k], values + k * 2048 / 16);
            }
            products_commit();
        }
        fetch(shared, all, seat, step + STAGES - 1);
        if (step + 1 < steps) {
            copy_wait<STAGES - 2>();
            // The products that read this memory ended before this step's did
            // begin; no other group's read it.
            prepare(shared, seat, step + 1);
            publish_to_products();
            group_barrier(seat.group);
        }
    }
    products_wait();
    copy_wait<0>();

    if (bad != 0 && faults != nullptr) {
        atomicAdd(faults, bad);
    }
#pragma unroll
    for (u32 row = 0; row < 2; ++row) {
        total[row] += __shfl_xor_sync(0xffffffffu, total[row], 1);
        total[row] += __shfl_xor_sync(0xffffffffu, total[row], 2);
        const u32 head = 16 * warp + lane / 4 + 8 * row;
        if (seat.group == 0 && lane % 4 == 0 && head < heads) {
            stats[head] = make_float2(largest[row], total[row]);
        }
    }
    // The same for all threads: an entry that takes part does so for all heads.
    if (largest[0] == negative_infinity()) {
        return;
    }
    float4* own_sums = partial + threadIdx.x;
#pragma unroll
    for (u32 row = 0; row < 2; ++row) {
#pragma unroll
        for (u32 i = 0; i < 16; ++i) {
            own_sums[(row * 16 + i) * THREADS] = make_float4(
                sums[8 * i + 2 * row], sums[8 * i + 2 * row + 1], sums[8 * i + 4 + 2 * row], sums[8 * i + 5 + 2 * row]);
        }
    }
}

}  // namespace hopper
