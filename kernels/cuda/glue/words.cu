// Poison and a counter, on 32-bit words. Signatures and twins:
// src/dsv4/glue/words.rs.

#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) fill_words(u32* __restrict__ data, u32 len, u32 value) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] = value;
    }
}

extern "C" __global__ void __launch_bounds__(256) add_one(u32* __restrict__ data, u32 len) {
    const u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < len) {
        data[i] += 1;
    }
}
