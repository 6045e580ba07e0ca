// What the blocks of a cluster that selects from a row share, and how they wait for
// each other and add up.

#pragma once

#include "common.cuh"

namespace selection {
constexpr u32 WARPS = THREADS / 32;
// Rounds that are marked together.
constexpr u32 MARKED = 8;
// Architectures without clusters leave a row to its first block.
#if __CUDA_ARCH__ >= 900
constexpr u32 CLUSTER = BLOCKS_PER_ROW;
#define SELECTION_CLUSTER __cluster_dims__(selection::BLOCKS_PER_ROW, 1, 1)
#else
constexpr u32 CLUSTER = 1;
#define SELECTION_CLUSTER
#endif

// A key has three digits, of 11, 11 and 10 bits.
constexpr u32 PASSES = 3;
constexpr u32 BINS = 2048;
constexpr u32 BIN_GROUP = 64;
constexpr u32 ALL = 0xffffffffu;

// The digit that holds the k-th best key; what is above it and what has it, in
// all blocks and in those before this one.
struct Tally {
    u32 digit;
    u32 above;
    u32 above_before;
    u32 equal;
    u32 equal_before;
};

struct Shared {
    // Counts of each pass, so that another block may still read those of the
    // last one: of each digit, and of each BIN_GROUP of digits. What a pass does not
    // count goes to the place after the digits.
    u32 histogram[PASSES][BINS + 4];
    u32 groups[PASSES][BINS / BIN_GROUP];
    Tally found;
    u32 totals[2][WARPS];
    // A byte for each thread and round: entries above the threshold, and equal
    // to it.
    unsigned char better[MARKED * THREADS];
    unsigned char same[MARKED * THREADS];
    // Entries that were selected, in order.
    u32 selected[MAX_K];
};

// All blocks of the cluster, if there is more than this one; each sees
// afterwards what the others wrote before.
__device__ __forceinline__ void barrier(bool alone) {
#if __CUDA_ARCH__ >= 900
    if (!alone) {
        asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
        return;
    }
#endif
    __syncthreads();
}

// A barrier in two halves for memory that is no longer read: after the second
// half all blocks have come to the first.
__device__ __forceinline__ void leave_begin(bool alone) {
#if __CUDA_ARCH__ >= 900
    if (!alone) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
#endif
}
__device__ __forceinline__ void leave_end(bool alone) {
#if __CUDA_ARCH__ >= 900
    if (!alone) {
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    }
#endif
}

// Two neighbouring counts in the shared memory of a block of the cluster.
__device__ __forceinline__ uint2 read_block(const u32* counts, u32 block) {
#if __CUDA_ARCH__ >= 900
    uint2 word;
    u32 address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(address)
        : "r"(static_cast<u32>(__cvta_generic_to_shared(counts))), "r"(block));
    asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
                 : "=r"(word.x), "=r"(word.y)
                 : "r"(address)
                 : "memory");
    return word;
#else
    return *reinterpret_cast<const uint2*>(counts);
#endif
}

// The sum over the lanes up to this one.
__device__ __forceinline__ u32 sum_upto(u32 value) {
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = __shfl_up_sync(ALL, value, distance);
        value += threadIdx.x % 32 >= distance ? other : 0;
    }
    return value;
}

// The sum over the threads before this one, and, in `total`, over all. Two calls
// with the same `slot` need a barrier between them.
__device__ __forceinline__ u32 sum_before(Shared& shared, u32 slot, u32 mine, u32& total) {
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const u32 upto = sum_upto(mine);
    if (lane == 31) {
        shared.totals[slot][warp] = upto;
    }
    __syncthreads();
    const u32 sum = lane < WARPS ? shared.totals[slot][lane] : 0;
    total = __reduce_add_sync(ALL, sum);
    return __reduce_add_sync(ALL, lane < warp ? sum : 0) + upto - mine;
}
}  // namespace selection
