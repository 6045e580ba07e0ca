// The slice of a row of logits that one block works on, as keys in their order.

#pragma once

#include "common.cuh"

namespace selection {
// Entries that a block takes at a time.
constexpr u32 ROUND = THREADS * EACH;
static_assert(EACH == 8, "the marks of a thread's entries are a byte");
// Rounds that are loaded ahead.
constexpr u32 BATCH = 2;

// Larger is better; zeros of both signs are equal; what is not a number is last.
__device__ __forceinline__ u32 order(float logit) {
    // Adding positive zero turns negative zero into it.
    const u32 bits = __float_as_uint(logit + 0.0f);
    const u32 flip = static_cast<u32>(static_cast<int>(bits) >> 31) | 0x80000000u;
    return logit == logit ? bits ^ flip : 0;
}

// The logits of a thread in one round, and how many of them there are.
struct Part {
    float4 four[EACH / 4];
    u32 count;

    __device__ __forceinline__ u32 key(u32 i) const {
        const float4 word = four[i / 4];
        return order(i % 4 == 0 ? word.x : i % 4 == 1 ? word.y : i % 4 == 2 ? word.z : word.w);
    }
};

// The slice of a row that a block works on.
struct Slice {
    const float* row;
    u32 begin;
    u32 end;
    // Rounds in which every thread has all its entries, and four of them may be
    // loaded at a time.
    u32 whole;

    __device__ __forceinline__ Slice(const float* row, u32 begin, u32 end)
        : row(row),
          begin(begin),
          end(end),
          whole(reinterpret_cast<u64>(row) % 16 == 0 ? (end - begin) / ROUND : 0) {}

    __device__ __forceinline__ u32 rounds() const {
        return (end - begin + ROUND - 1) / ROUND;
    }

    __device__ __forceinline__ Part load_whole(u32 round) const {
        const float* from = row + begin + round * ROUND + threadIdx.x * EACH;
        Part part;
        part.count = EACH;
#pragma unroll
        for (u32 i = 0; i < EACH / 4; ++i) {
            part.four[i] = __ldg(reinterpret_cast<const float4*>(from) + i);
        }
        return part;
    }

    __device__ __forceinline__ Part load(u32 round) const {
        if (round < whole) {
            return load_whole(round);
        }
        const u32 at = begin + round * ROUND + threadIdx.x * EACH;
        Part part;
        part.count = at < end ? min(end - at, EACH) : 0;
        const auto one = [&](u32 i) { return i < part.count ? __ldg(row + at + i) : 0.0f; };
#pragma unroll
        for (u32 i = 0; i < EACH / 4; ++i) {
            part.four[i] = make_float4(one(4 * i), one(4 * i + 1), one(4 * i + 2), one(4 * i + 3));
        }
        return part;
    }

    // Calls `body(round, part)` for the rounds from `round` up to `stop`; the
    // only round of a slice is `kept`.
    template <typename Body>
    __device__ __forceinline__ void each(const Part& kept, u32 round, u32 stop, Body body) const {
        if (rounds() == 1) {
            body(0, kept);
            return;
        }
#pragma unroll 1
        for (; round + BATCH <= min(stop, whole); round += BATCH) {
            Part parts[BATCH];
#pragma unroll
            for (u32 i = 0; i < BATCH; ++i) {
                parts[i] = load_whole(round + i);
            }
#pragma unroll
            for (u32 i = 0; i < BATCH; ++i) {
                body(round + i, parts[i]);
            }
        }
#pragma unroll 1
        for (; round < stop; ++round) {
            body(round, load(round));
        }
    }
};
}  // namespace selection
