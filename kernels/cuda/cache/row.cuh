// One row of a cache on its way into a pool: norm, rotation of the last 64
// dimensions, and the store in each of the three formats. A row has four
// consecutive elements to a thread: 128 threads hold a latent, a warp holds an
// index key.

#pragma once

#include "fp8.cuh"
#include "hadamard.cuh"
#include "pages.cuh"
#include "rope.cuh"

namespace row {
constexpr u32 LATENT_THREADS = LatentFp8Pages::DIM / 4;
constexpr u32 KEY_DIM = hadamard::DIM;
constexpr u32 KEY_THREADS = KEY_DIM / 4;

static_assert(KEY_THREADS == 32, "a warp holds a key");
}  // namespace row

__device__ __forceinline__ void count_fault(u32* faults) {
    atomicAdd(faults, 1u);
}

// Four consecutive bf16 values.
__device__ __forceinline__ void load_four(const bf16* from, float (&value)[4]) {
    const uint2 word = *reinterpret_cast<const uint2*>(from);
    value[0] = __uint_as_float(word.x << 16);
    value[1] = __uint_as_float(word.x & 0xffff0000u);
    value[2] = __uint_as_float(word.y << 16);
    value[3] = __uint_as_float(word.y & 0xffff0000u);
}

__device__ __forceinline__ u32 two_bf16(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

__device__ __forceinline__ void store_four(void* to, const float (&value)[4]) {
    *static_cast<uint2*>(to) = make_uint2(two_bf16(value[0], value[1]), two_bf16(value[2], value[3]));
}

__device__ __forceinline__ float absmax_of(const float (&value)[4]) {
    return fmaxf(fmaxf(fabsf(value[0]), fabsf(value[1])), fmaxf(fabsf(value[2]), fabsf(value[3])));
}

// The sum over the first THREADS threads of the block, which all call it, in
// every one of them, in a fixed order. Once in a kernel.
template <u32 THREADS>
__device__ __forceinline__ float row_sum(float value) {
    value = warp_sum(value);
    if constexpr (THREADS > 32) {
        __shared__ float part[THREADS / 32];
        if (threadIdx.x % 32 == 0) {
            part[threadIdx.x / 32] = value;
        }
        // A barrier of its own: the block may have more threads.
        asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
        value = part[0];
#pragma unroll
        for (u32 i = 1; i < THREADS / 32; ++i) {
            value += part[i];
        }
    }
    return value;
}

// RMS norm of a row and rotation of its last 64 dimensions.
template <u32 THREADS>
__device__ __forceinline__ void norm_and_rotate(
    float (&value)[4], const float (&weight)[4], const Angles& angles, float epsilon) {
    constexpr u32 DIM = 4 * THREADS;
    constexpr u32 FIRST_ROTATED = (DIM - rope::DIM) / 4;
    const u32 thread = threadIdx.x;
    const bool rotated = thread >= FIRST_ROTATED;
    // Asked for before the sum, so that both are under way together.
    const float4 turn = rotated ? angles.two(2 * (thread - FIRST_ROTATED)) : make_float4(1, 0, 1, 0);
    float squares = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        squares = fmaf(value[i], value[i], squares);
    }
    squares = row_sum<THREADS>(squares);
    const float inverse = 1.0f / sqrtf(squares / static_cast<float>(DIM) + epsilon);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        value[i] *= inverse * weight[i];
    }
    if (rotated) {
        rotate(value, turn);
    }
}

// Where a row goes. Slot 0 belongs to nobody, and a slot that the pool does not
// have is counted, by one block of a row; neither is stored. The same for all
// threads of a row.
__device__ __forceinline__ bool stores(const PageLayout& layout, int slot, u32* faults, bool counts = true) {
    if (slot == 0) {
        return false;
    }
    if (!layout.holds(slot)) {
        if (counts && threadIdx.x == 0) {
            count_fault(faults);
        }
        return false;
    }
    return true;
}

// A latent: 448 e4m3 values with a UE8M0 scale for each 64, and 64 bf16 values.
__device__ __forceinline__ void store_latent_row(
    const float (&value)[4], char* pool, const LatentFp8Pages& layout, int slot) {
    constexpr u32 QUANTISED = LatentFp8Pages::NOPE / 4;
    constexpr u32 GROUP = LatentFp8Pages::GROUP / 4;
    const u32 thread = threadIdx.x;
    char* values = layout.values(pool, slot);
    unsigned char* scales = layout.scales<unsigned char>(static_cast<void*>(pool), slot);
    float absmax = absmax_of(value);
#pragma unroll
    for (u32 distance = 1; distance < GROUP; distance *= 2) {
        absmax = fmaxf(absmax, __shfl_xor_sync(0xffffffffu, absmax, distance));
    }
    if (thread < QUANTISED) {
        const u32 scale = ue8m0_scale(absmax);
        const float inverse = ue8m0_inverse(scale);
        *reinterpret_cast<u32*>(values + 4 * thread) =
            to_e4m3(value[0] * inverse, value[1] * inverse, value[2] * inverse, value[3] * inverse);
        if (thread % GROUP == 0) {
            scales[thread / GROUP] = static_cast<unsigned char>(scale);
        }
    } else {
        store_four(values + LatentFp8Pages::NOPE + 8 * (thread - QUANTISED), value);
        if (thread == QUANTISED) {
            scales[QUANTISED / GROUP] = 0;
        }
    }
}

// An index key, bf16.
__device__ __forceinline__ void store_key_row(
    const float (&value)[4], char* pool, const IndexKeyPages& layout, int slot) {
    store_four(layout.values(pool, slot) + 8 * threadIdx.x, value);
}

// An index key, e4m3 with one f32 scale.
__device__ __forceinline__ void store_key_row(
    const float (&value)[4], char* pool, const IndexKeyFp8Pages& layout, int slot) {
    const float scale = e4m3_scale(warp_max(absmax_of(value)));
    *reinterpret_cast<u32*>(layout.values(pool, slot) + 4 * threadIdx.x) = to_e4m3(
        __fdiv_rn(value[0], scale), __fdiv_rn(value[1], scale), __fdiv_rn(value[2], scale),
        __fdiv_rn(value[3], scale));
    if (threadIdx.x == 0) {
        *layout.scales<float>(static_cast<void*>(pool), slot) = scale;
    }
}

// The last step of each pool: a latent goes as it is, a key is transformed first.
__device__ __forceinline__ void finish_row(
    float (&value)[4], char* pool, const LatentFp8Pages& layout, int slot) {
    store_latent_row(value, pool, layout, slot);
}

template <typename Pages>
__device__ __forceinline__ void finish_row(float (&value)[4], char* pool, const Pages& layout, int slot) {
    hadamard_transform(value);
    store_key_row(value, pool, layout, slot);
}
