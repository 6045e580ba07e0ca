// Poison, a counter and a late copy, on 32-bit words. Signatures and twins:
// src/dsv4/testing/words.rs.

#include "common.cuh"

extern "C" __global__ void __launch_bounds__(words::THREADS) fill_words(u32* __restrict__ data, u32 len, u32 value) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] = value;
    }
}

extern "C" __global__ void __launch_bounds__(words::THREADS) add_one(u32* __restrict__ data, u32 len) {
    programmatic::wait();
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] += 1;
    }
}

// What follows may start before any block has begun to copy.
extern "C" __global__ void __launch_bounds__(words::THREADS) copy_late(
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
        u32* const to = reinterpret_cast<u32*>(table[words::COPY_WORDS * entry]);
        const u32* const from = reinterpret_cast<const u32*>(table[words::COPY_WORDS * entry + 1]);
        const u64 len = table[words::COPY_WORDS * entry + 2];
        for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < len;
             i += static_cast<u64>(gridDim.x) * blockDim.x) {
            to[i] = from[i];
        }
    }
}
