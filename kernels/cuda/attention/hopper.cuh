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

#include "sparse.cuh"
#include "wgmma.cuh"

namespace hopper {

constexpr u32 HEADS = sparse::HEADS;
constexpr u32 GROUP_THREADS = 128;
// The threads of both computing groups, and of both preparing ones.
constexpr u32 PAIR_THREADS = 2 * GROUP_THREADS;
constexpr u32 DIM = sparse::DIM;
// Entries of a step.
constexpr u32 ENTRIES = 32;
// Steps whose latents are in shared memory.
constexpr u32 BUFFERS = 3;
// A panel is 64 dimensions, 128 bytes, of each row; its scale is its own.
constexpr u32 PANELS = DIM / 64;
constexpr u32 OWN_PANELS = PANELS / 2;
constexpr u32 QUERY_PANEL = HEADS * 128;
constexpr u32 LATENT_PANEL = ENTRIES * 128;
// How far a score may exceed the one that weights are relative to, in powers of
// two, before they are made relative to it.
constexpr float SLACK = 8.0f;

static_assert(THREADS == 2 * PAIR_THREADS, "two groups compute and two prepare");
static_assert(GROUP_THREADS == 4 * ENTRIES, "four threads of a warpgroup to an entry");
static_assert(PAIR_THREADS == sparse::AHEAD, "a preparing thread for each place");

struct Shared {
    // Queries and latents as the products read them.
    char queries[PANELS * QUERY_PANEL];
    char latents[BUFFERS][PANELS * LATENT_PANEL];
    // Which entries of a step take part, for each group.
    u32 present[2][BUFFERS];
    // Scores of each computing group, of a step and of the one before: a group
    // may be a step ahead of the other.
    float4 scores[2][2][4][GROUP_THREADS];
    sparse::Places places;
};

static_assert(sizeof(Shared) == SHARED_BYTES, "what the host asks for; a block of sm_90 has 227 KiB");

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

// Barriers of some of the threads, by number: one for each pair of groups, and
// two for each buffer of each computing group and the one that prepares for it.
constexpr u32 COMPUTING = 1;
constexpr u32 PREPARING = 2;

__device__ __forceinline__ u32 filled(u32 group, u32 buffer) {
    return 3 + group * BUFFERS + buffer;
}

__device__ __forceinline__ u32 emptied(u32 group, u32 buffer) {
    return 3 + (2 + group) * BUFFERS + buffer;
}

static_assert(3 + 4 * BUFFERS <= 16, "a block has 16 barriers");

// Waits until 256 threads have come to the barrier.
__device__ __forceinline__ void come_and_wait(u32 barrier) {
    asm volatile("bar.sync %0, %1;" : : "r"(barrier), "n"(PAIR_THREADS) : "memory");
}

__device__ __forceinline__ void come(u32 barrier) {
    asm volatile("bar.arrive %0, %1;" : : "r"(barrier), "n"(PAIR_THREADS) : "memory");
}

// 16 bytes, or zero when not `valid`; then nothing is read.
__device__ __forceinline__ uint4 load_once(const char* from, bool valid) {
    uint4 word;
    asm volatile(
        "{ .reg .pred valid; setp.ne.u32 valid, %5, 0; "
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
        "@valid ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(word.x), "=&r"(word.y), "=&r"(word.z), "=&r"(word.w)
        : "l"(from), "r"(static_cast<u32>(valid)));
    return word;
}

// What a preparing thread does: of an entry, 16 bytes of each panel of its group
// and, of the rotated one, 32. Threads 0 to 3 and 4 to 7 of eight have two
// entries, whose rows have different parity, so that the words that they write
// lie in different banks.
template <typename Source>
struct Preparer {
    Shared& shared;
    sparse::Entries<Source>& all;
    u32 group;
    u32 entry;
    u32 part;
    // Of the next step: where it is, and what was read of it.
    sparse::Place place;
    uint4 raw[OWN_PANELS];
    uint4 rotated;
    u32 scales;

    __device__ __forceinline__ bool valid() const { return place.values != nullptr; }

    __device__ __forceinline__ void find(u32 step) {
        place = {nullptr, nullptr};
        if (all.begin + step * ENTRIES < all.end) {
            place = all.place(step * ENTRIES + entry);
        }
    }

    // A masked entry is zero, so that its weight of zero meets no NaN.
    __device__ __forceinline__ void read(u32 panel) {
        if (panel < 3 || group == 0) {
            const u32 offset = (group * OWN_PANELS + panel) * LatentFp8Pages::GROUP + part * 16;
            raw[panel] = load_once(place.values + offset, valid());
        } else {
            const u32 offset = LatentFp8Pages::NOPE + part * 32;
            raw[panel] = load_once(place.values + offset, valid());
            rotated = load_once(place.values + offset + 16, valid());
        }
    }

    __device__ __forceinline__ void read_scales() {
        scales = valid() ? reinterpret_cast<const u32*>(place.scales)[group] : 0;
    }

    // Writes what was read, and reads step `next` on the way.
    __device__ __forceinline__ void write(u32 next, u32 buffer) {
        const u32 row = shared_address(shared.latents[buffer]) + group * OWN_PANELS * LATENT_PANEL + entry * 128;
        const u32 first = row + ((2 * part) ^ entry % 8) * 16;
        const u32 second = row + ((2 * part + 1) ^ entry % 8) * 16;
        const u32 own_scales = scales;
        find(next);
        read_scales();
#pragma unroll
        for (u32 i = 0; i < OWN_PANELS; ++i) {
            u32 words[8];
            if (i < 3 || group == 0) {
                sparse::dequantise(words, raw[i], own_scales >> 8 * i & 0xffu);
            } else {
                const u32 both[8] = {
                    raw[i].x, raw[i].y, raw[i].z, raw[i].w, rotated.x, rotated.y, rotated.z, rotated.w};
#pragma unroll
                for (u32 j = 0; j < 8; ++j) {
                    words[j] = both[j];
                }
            }
            read(i);
            store_shared(first + i * LATENT_PANEL, words[0], words[1], words[2], words[3]);
            store_shared(second + i * LATENT_PANEL, words[4], words[5], words[6], words[7]);
        }
    }
};

// What the threads of a preparing group do: hand over each step in which an entry
// takes part, and then an empty one. Returns how many entries no pool has.
template <typename Source>
__device__ __forceinline__ u32 prepare(Shared& shared, sparse::Entries<Source>& all, u32 group, u32 thread) {
    const u32 steps = (all.end - all.begin + ENTRIES - 1) / ENTRIES;
    u32 known = 0;
    u32 bad = 0;
    // The first step from `step` on in which an entry takes part.
    const auto next = [&](u32 step) {
        for (; step < steps; ++step) {
            if (step * ENTRIES >= known) {
                // No thread still looks at what is overwritten.
                come_and_wait(PREPARING);
                bad += all.look_up(all.begin + known, thread + group * GROUP_THREADS);
                known += sparse::AHEAD;
                come_and_wait(PREPARING);
            }
            if (all.present(step * ENTRIES) != 0) {
                break;
            }
        }
        return step;
    };
    u32 step = next(0);
    Preparer<Source> own = {shared, all, group, thread / 4, thread % 4};
    own.find(step);
    own.read_scales();
#pragma unroll
    for (u32 i = 0; i < OWN_PANELS; ++i) {
        own.read(i);
    }
    u32 handed = 0;
    u32 buffer = 0;
    while (true) {
        if (handed >= BUFFERS) {
            come_and_wait(emptied(group, buffer));
        }
        const u32 present = step < steps ? all.present(step * ENTRIES) : 0;
        if (thread == 0) {
            shared.present[group][buffer] = present;
        }
        if (step >= steps) {
            come(filled(group, buffer));
            break;
        }
        step = next(step + 1);
        own.write(step, buffer);
        publish_to_products();
        come(filled(group, buffer));
        ++handed;
        buffer = buffer + 1 < BUFFERS ? buffer + 1 : 0;
    }
    // All that was handed over comes back before the block ends.
    for (u32 left = min(handed, BUFFERS - 1); left > 0; --left) {
        come_and_wait(emptied(group, (handed - left) % BUFFERS));
    }
    return bad;
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
