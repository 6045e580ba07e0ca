// Scores of paged keys on the tensor cores: what the kernels over bf16 and over
// fp8 keys share.
//
// The keys are read once and nothing else is large, so the time is that of
// streaming them. Each warp works alone: it keeps the queries of a token, 64
// heads of at most 128 dimensions, in registers and streams keys past them, 32
// entries after 32. A lane needs, of every key, the same 16-byte words for all
// products, because the dimensions may be summed in any order as long as
// queries and keys agree on it. So it copies just these words to its own place in
// shared memory, some steps ahead, and reads back what it has copied itself:
// no barrier, no bank conflict, no rearrangement.
//
// The entries of all tokens, in tiles of 32, are shared out evenly to the warps
// of the grid by the lengths found on the device. A grid of any size gives the
// same bits: an entry's logit is made by one warp in one order.

#pragma once

#include "mma.cuh"
#include "pages.cuh"

namespace index_logits {
// Heads whose queries a warp holds; more take another pass over the keys.
constexpr u32 HELD_HEADS = 64;
// Steps whose copies are under way, and the words that a lane copies for each.
constexpr u32 STAGES = 6;
constexpr u32 COPIES = 4;

// Of one row, a lane holds words of two 16-bit values for 8 products of 16
// dimensions.
constexpr u32 PRODUCTS = MAX_DIM / 16;
using Row = u32[2 * PRODUCTS];

struct Bf16 {
    using Layout = IndexKeyPages;
    static constexpr bool SCALED = false;
    // 16-byte words of a lane for one row.
    static constexpr u32 WORDS = 4;

    static __device__ __forceinline__ void unpack(Row& row, const uint4 (&words)[WORDS]) {
#pragma unroll
        for (u32 i = 0; i < WORDS; ++i) {
            row[4 * i] = words[i].x;
            row[4 * i + 1] = words[i].y;
            row[4 * i + 2] = words[i].z;
            row[4 * i + 3] = words[i].w;
        }
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        mma_bf16(d, a, b0, b1);
    }
};

// e4m3 values are f16 values: the product is exact, and one way serves every
// architecture.
struct Fp8 {
    using Layout = IndexKeyFp8Pages;
    static constexpr bool SCALED = true;
    static constexpr u32 WORDS = 2;

    static __device__ __forceinline__ u32 widen(u32 word, bool upper) {
        u32 halves;
        const u16 pair = static_cast<u16>(upper ? word >> 16 : word);
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
        return halves;
    }

    static __device__ __forceinline__ void unpack(Row& row, const uint4 (&words)[WORDS]) {
#pragma unroll
        for (u32 i = 0; i < WORDS; ++i) {
            const u32 four[4] = {words[i].x, words[i].y, words[i].z, words[i].w};
#pragma unroll
            for (u32 j = 0; j < 4; ++j) {
                row[8 * i + 2 * j] = widen(four[j], false);
                row[8 * i + 2 * j + 1] = widen(four[j], true);
            }
        }
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        mma_f16(d, a, b0, b1);
    }
};

// Calls `body(token, first, end)` for the tiles that this warp owns when all
// tokens' tiles, `count(token)` each, are shared out evenly.
template <typename Count, typename Body>
__device__ __forceinline__ void share(u32 tokens, Count count, Body body) {
    constexpr u32 ALL = 0xffffffffu;
    const u32 lane = threadIdx.x % 32;
    const auto of = [&](u32 token) { return token < tokens ? count(token) : 0u; };
    u32 total = 0;
#pragma unroll 1
    for (u32 first = 0; first < tokens; first += 32) {
        total += __reduce_add_sync(ALL, of(first + lane));
    }
    const u32 warps = gridDim.x * WARPS;
    const u32 warp = blockIdx.x * WARPS + threadIdx.x / 32;
    const u32 each = total / warps;
    const u32 rest = total % warps;
    const u32 begin = warp * each + min(warp, rest);
    const u32 end = begin + each + (warp < rest ? 1 : 0);

    u32 before = 0;
#pragma unroll 1
    for (u32 first = 0; first < tokens && before < end; first += 32) {
        const u32 mine = of(first + lane);
        u32 upto = mine;
#pragma unroll
        for (u32 distance = 1; distance < 32; distance *= 2) {
            const u32 other = __shfl_up_sync(ALL, upto, distance);
            upto += lane >= distance ? other : 0;
        }
        const u32 start = before + upto - mine;
        u32 hits = __ballot_sync(ALL, max(start, begin) < min(start + mine, end));
        while (hits != 0) {
            const int source = __ffs(static_cast<int>(hits)) - 1;
            hits &= hits - 1;
            const u32 at = __shfl_sync(ALL, start, source);
            const u32 tiles = __shfl_sync(ALL, mine, source);
            body(first + source, max(at, begin) - at, min(at + tiles, end) - at);
        }
        before += __shfl_sync(ALL, upto, 31);
    }
}

// Walks over the tiles of one token's keys. The page of the next tile is looked
// up while this one is at work.
struct Cursor {
    const int* table;
    u32 column;
    u32 within;
    int page;

    __device__ __forceinline__ Cursor(const int* table, const PageLayout& layout, u32 tile)
        : table(table),
          column(tile * TILE / layout.tokens_per_page),
          within(tile * TILE % layout.tokens_per_page),
          page(table[column]) {}

    // Where the tile's first key and scale stand, in bytes.
    __device__ __forceinline__ u64 values(const PageLayout& layout) const {
        return base(layout) + static_cast<u64>(within) * layout.value_bytes;
    }
    __device__ __forceinline__ u64 scales(const PageLayout& layout) const {
        return base(layout) + layout.scale_offset + static_cast<u64>(within) * layout.scale_bytes;
    }

    __device__ __forceinline__ void next(const PageLayout& layout, bool last) {
        within += TILE;
        if (within >= layout.tokens_per_page) {
            within = 0;
            ++column;
            if (!last) {
                page = table[column];
            }
        }
    }

  private:
    __device__ __forceinline__ u64 base(const PageLayout& layout) const {
        const bool known = page >= 0 && static_cast<u32>(page) < layout.pages;
        return static_cast<u64>(known ? page : 0) * layout.page_bytes;
    }
};

// The queries of HELD_HEADS heads and their weights, as fragments of four tiles of 16
// heads; zero where there is no such head or dimension.
template <typename Keys>
struct Queries {
    u32 fragment[HELD_HEADS / 16][PRODUCTS][4];
    float weight[HELD_HEADS / 16][2];

    // As they lie in memory, on their way.
    struct Words {
        uint4 word[HELD_HEADS / 16][2][Keys::WORDS];
        float weight[HELD_HEADS / 16][2];

        __device__ __forceinline__ Words(
            const char* q, const float* weights, u32 heads, u32 first_head, u32 row_bytes) {
            const u32 lane = threadIdx.x % 32;
#pragma unroll
            for (u32 tile = 0; tile < HELD_HEADS / 16; ++tile) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const u32 head = first_head + tile * 16 + half * 8 + lane / 4;
#pragma unroll
                    for (u32 i = 0; i < Keys::WORDS; ++i) {
                        const u32 at = i * 64 + lane % 4 * 16;
                        const char* from = q + static_cast<u64>(head) * row_bytes + at;
                        word[tile][half][i] = head < heads && at < row_bytes
                            ? __ldg(reinterpret_cast<const uint4*>(from))
                            : make_uint4(0, 0, 0, 0);
                    }
                    weight[tile][half] = head < heads ? __ldg(weights + head) : 0.0f;
                }
            }
        }
    };

    __device__ __forceinline__ Queries(const Words& words, u32 row_bytes) {
        // Rows are whole 16-byte words, so this is zero; the compiler does not
        // know it.
        const u32 zero = Keys::SCALED ? 0 : row_bytes & 1;
#pragma unroll
        for (u32 tile = 0; tile < HELD_HEADS / 16; ++tile) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                Row row;
                Keys::unpack(row, words.word[tile][half]);
                // A product wants its four words in neighbouring registers, and
                // a 16-byte load leaves others side by side. As results of an
                // operation, a widening or this one, words are made in their
                // places once; mere copies are made again before every product.
#pragma unroll
                for (u32 i = 0; i < 2 * PRODUCTS; ++i) {
                    fragment[tile][i / 2][i % 2 * 2 + half] = row[i] ^ zero;
                }
                weight[tile][half] = words.weight[tile][half];
            }
        }
    }

    // The sums over these heads for the two entries of this lane out of eight,
    // heads of other lanes excluded.
    __device__ __forceinline__ void score(float& even, float& odd, const Row& key) const {
        float d[HELD_HEADS / 16][4] = {};
#pragma unroll
        for (u32 product = 0; product < PRODUCTS; ++product) {
#pragma unroll
            for (u32 tile = 0; tile < HELD_HEADS / 16; ++tile) {
                Keys::multiply(d[tile], fragment[tile][product], key[2 * product], key[2 * product + 1]);
            }
        }
        even = odd = 0.0f;
#pragma unroll
        for (u32 tile = 0; tile < HELD_HEADS / 16; ++tile) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                even = fmaf(weight[tile][half], fmaxf(d[tile][2 * half], 0.0f), even);
                odd = fmaf(weight[tile][half], fmaxf(d[tile][2 * half + 1], 0.0f), odd);
            }
        }
    }
};

// Adds the eight values over the eight lanes of the same lane % 4; the sum of
// value i is returned in the lane with lane / 4 == i.
__device__ __forceinline__ float scatter_sum(float (&value)[8]) {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (u32 half = 4; half > 0; half /= 2) {
        const bool upper = lane / 4 & half;
#pragma unroll
        for (u32 i = 0; i < half; ++i) {
            const float give = upper ? value[i] : value[i + half];
            const float keep = upper ? value[i + half] : value[i];
            value[i] = keep + __shfl_xor_sync(0xffffffffu, give, 4 * half);
        }
    }
    return value[0];
}

template <typename Keys>
__device__ __forceinline__ void run(
    const void* __restrict__ q,
    const float* __restrict__ weights,
    const void* __restrict__ keys,
    const int* __restrict__ page_table,
    const int* __restrict__ lens,
    float* __restrict__ logits,
    const typename Keys::Layout& layout,
    u32 tokens,
    u32 heads,
    u32 table_stride,
    u32 max_entries) {
    // Eight entries are a group; a step is what COPIES words of a lane hold.
    constexpr u32 GROUPS = COPIES / Keys::WORDS;
    constexpr u32 STEPS = TILE / 8 / GROUPS;
    __shared__ uint4 ring[WARPS][STAGES][COPIES][32];

    const u32 lane = threadIdx.x % 32;
    uint4* const mine = &ring[threadIdx.x / 32][0][0][lane];
    const u32 row_bytes = layout.value_bytes;
    const auto live = [&](u32 token) {
        return (sequence_length(lens, token, max_entries) + TILE - 1) / TILE;
    };

    share(tokens, live, [&](u32 token, u32 first, u32 end) {
        const u32 len = sequence_length(lens, token, max_entries);
        const int* table = page_table + static_cast<u64>(token) * table_stride;
        float* out = logits + static_cast<u64>(token) * max_entries;
        // The entry of a tile whose logit this lane writes: see scatter_sum.
        const u32 owned = lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;

        for (u32 head = 0; head < heads; head += HELD_HEADS) {
            Cursor ahead(table, layout, first);
            const typename Queries<Keys>::Words words(
                static_cast<const char*>(q) + static_cast<u64>(token) * heads * row_bytes,
                weights + static_cast<u64>(token) * heads,
                heads,
                head,
                row_bytes);
            const char* source = nullptr;
            u32 copied = 0;
            u32 into = 0;
            const u32 steps = (end - first) * STEPS;
            const auto copy = [&] {
                if (copied < steps) {
                    if (copied % STEPS == 0) {
                        source = static_cast<const char*>(keys) + ahead.values(layout) + lane / 4 * row_bytes + lane % 4 * 16;
                        ahead.next(layout, copied + STEPS >= steps);
                    }
#pragma unroll
                    for (u32 i = 0; i < COPIES; ++i) {
                        const u32 offset = i % Keys::WORDS * 64;
                        const bool valid = offset + lane % 4 * 16 < row_bytes;
                        const char* from = source + i / Keys::WORDS * 8 * row_bytes + offset;
                        copy_async(mine + (into * COPIES + i) * 32, valid ? from : keys, valid);
                    }
                    source += GROUPS * 8 * row_bytes;
                    into = into + 1 == STAGES ? 0 : into + 1;
                    ++copied;
                }
                copy_commit();
            };
#pragma unroll 1
            for (u32 i = 0; i + 1 < STAGES; ++i) {
                copy();
            }
            const Queries<Keys> queries(words, row_bytes);

            Cursor behind(table, layout, first);
            const auto scale_here = [&] {
                return __ldg(reinterpret_cast<const float*>(static_cast<const char*>(keys) + behind.scales(layout)) + owned);
            };
            float next_scale = 1.0f;
            if constexpr (Keys::SCALED) {
                next_scale = scale_here();
            }
            u32 from = 0;
            for (u32 tile = first; tile < end; ++tile) {
                const float scale = next_scale;
                if constexpr (Keys::SCALED) {
                    behind.next(layout, tile + 1 == end);
                    if (tile + 1 < end) {
                        next_scale = scale_here();
                    }
                }
                float value[8];
#pragma unroll
                for (u32 step = 0; step < STEPS; ++step) {
                    copy_wait<STAGES - 2>();
                    uint4 group_words[GROUPS][Keys::WORDS];
#pragma unroll
                    for (u32 i = 0; i < COPIES; ++i) {
                        group_words[i / Keys::WORDS][i % Keys::WORDS] = mine[(from * COPIES + i) * 32];
                    }
                    from = from + 1 == STAGES ? 0 : from + 1;
                    // Into the place that the step before has read.
                    copy();
#pragma unroll
                    for (u32 group = 0; group < GROUPS; ++group) {
                        Row key;
                        Keys::unpack(key, group_words[group]);
                        const u32 at = 2 * (step * GROUPS + group);
                        queries.score(value[at], value[at + 1], key);
                    }
                }
                float sum = scale * scatter_sum(value);
                const u32 entry = tile * TILE + owned;
                if (entry < max_entries) {
                    if (head > 0) {
                        sum += out[entry];
                    }
                    out[entry] = entry < len ? sum : negative_infinity();
                }
            }
        }
    });

    const u32 all = (max_entries + TILE - 1) / TILE;
    share(tokens, [&](u32 token) { return all - live(token); }, [&](u32 token, u32 first, u32 end) {
        const u32 skip = live(token);
        float* out = logits + static_cast<u64>(token) * max_entries;
        const u32 stop = min((skip + end) * TILE, max_entries);
        for (u32 entry = (skip + first) * TILE + lane; entry < stop; entry += 32) {
            out[entry] = negative_infinity();
        }
    });
}
}  // namespace index_logits
