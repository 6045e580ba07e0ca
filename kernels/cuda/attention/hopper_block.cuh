// What the groups of a block of hopper.cuh share: its memory, and the barriers by which
// they hand over latents and come together.

#pragma once

#include "sparse.cuh"

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

}  // namespace hopper
