// Poison, a counter, a comparison and a late copy, on 32-bit words. Signatures and twins:
// src/dsv4/glue/words.rs.

#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) fill_words(u32* __restrict__ data, u32 len, u32 value) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] = value;
    }
}

extern "C" __global__ void __launch_bounds__(256) add_one(u32* __restrict__ data, u32 len) {
    programmatic::wait();
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] += 1;
    }
}

// What follows may start before any block has begun to copy.
extern "C" __global__ void __launch_bounds__(256) copy_late(
    const u64* __restrict__ table,
    u32 count,
    u32 nanoseconds) {
    programmatic::let_next_start();
    const auto now = [] {
        u64 time;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
        return time;
    };
    for (const u64 start = now(); now() - start < nanoseconds;) {
    }
    for (u32 entry = 0; entry < count; ++entry) {
        u32* const to = reinterpret_cast<u32*>(table[3 * entry]);
        const u32* const from = reinterpret_cast<const u32*>(table[3 * entry + 1]);
        const u64 len = table[3 * entry + 2];
        for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < len;
             i += static_cast<u64>(gridDim.x) * blockDim.x) {
            to[i] = from[i];
        }
    }
}

// A thread's verdict is a bit of its warp's vote, so that equal words, which all
// are as a rule, cost no atomic operation.
extern "C" __global__ void __launch_bounds__(256) count_differences(
    const u32* __restrict__ left,
    const u32* __restrict__ right,
    u32* __restrict__ found,
    u32 len) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    const u32 vote = __ballot_sync(0xffffffffu, i < len && left[i] != right[i]);
    if (threadIdx.x % 32 == 0 && vote != 0) {
        atomicAdd(found, static_cast<u32>(__popc(vote)));
    }
}
