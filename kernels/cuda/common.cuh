// Types and small functions that all kernels share. No header of the toolkit is
// needed: a machine that has NVRTC alone can compile every kernel.

#pragma once

// The constants that the host shares, by namespace.
#include "host.cuh"

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

static_assert(sizeof(u32) == 4 && sizeof(u64) == 8, "the host's sizes");

// Programmatic dependent launch, from compute capability 9.0 on. A kernel whose
// signature says `#[waits]` calls `wait` in every thread before it touches
// memory; launched otherwise, it has nothing to wait for.
namespace programmatic {
// What the kernel follows has ended, and what it wrote is seen.
__device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may take up what room there is. It waits for all of this one.
// Only kernels that are soon over say so: the blocks that wait take room from
// those of other streams.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
}  // namespace programmatic

// A bf16 number: the upper half of an f32.
struct bf16 {
    u16 bits;
};

__device__ __forceinline__ float to_float(bf16 value) {
    return __uint_as_float(static_cast<u32>(value.bits) << 16);
}

// Round to nearest, ties to even.
__device__ __forceinline__ bf16 to_bf16(float value) {
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

__device__ __forceinline__ float negative_infinity() {
    return __int_as_float(0xff800000);
}

// Eight bf16 values, loaded as one 16-byte word, as floats.
struct Eight {
    float value[8];
};

__device__ __forceinline__ Eight unpack(uint4 word) {
    const u32 words[4] = {word.x, word.y, word.z, word.w};
    Eight result;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        result.value[2 * i] = __uint_as_float(words[i] << 16);
        result.value[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
    return result;
}

__device__ __forceinline__ uint4 load_eight(const bf16* row, u32 element) {
    return *reinterpret_cast<const uint4*>(row + element);
}

// The sum over a warp, in every lane. The order of the additions is fixed.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
}

// The length of a token's sequence, clamped to what the buffers hold.
__device__ __forceinline__ u32 sequence_length(const int* lens, u32 token, u32 max_entries) {
    const int len = lens[token];
    return len <= 0 ? 0u : min(static_cast<u32>(len), max_entries);
}
