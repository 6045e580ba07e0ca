// RMS norm of rows. A block for each token holds its row in registers, so that
// it is read once. Signature and twin: src/dsv4/glue/norm.rs.

#include "common.cuh"

namespace rms {
// Words of eight values that a thread holds.
constexpr u32 WORDS = MAX_NORM_WIDTH / (THREADS * 8);

static_assert(MAX_NORM_WIDTH == THREADS * WORDS * 8, "the words of the threads");
}  // namespace rms

extern "C" __global__ void __launch_bounds__(rms::THREADS) rms_norm(
    const bf16* __restrict__ x,
    const float* __restrict__ norm,
    bf16* __restrict__ out,
    u32 tokens,
    u32 width,
    u32 stride,
    u32 first,
    float epsilon) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace rms;
    __shared__ float part[THREADS / 32];
    const u32 token = blockIdx.x;
    if (token >= tokens) {
        return;
    }
    const bf16* row = x + static_cast<u64>(token) * stride + first;
    uint4 word[WORDS];
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
        const u32 element = 8 * (threadIdx.x + w * THREADS);
        word[w] = element < width ? load_eight(row, element) : make_uint4(0, 0, 0, 0);
    }
    float squares = 0.0f;
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
        const Eight eight = unpack(word[w]);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            squares = fmaf(eight.value[i], eight.value[i], squares);
        }
    }
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) {
        part[threadIdx.x / 32] = squares;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < THREADS / 32; ++i) {
        sum += part[i];
    }
    const float inverse = 1.0f / sqrtf(sum / static_cast<float>(width) + epsilon);
    bf16* to = out + static_cast<u64>(token) * width;
#pragma unroll
    for (u32 w = 0; w < WORDS; ++w) {
        const u32 element = 8 * (threadIdx.x + w * THREADS);
        if (element < width) {
            const Eight eight = unpack(word[w]);
            const float4 low = *reinterpret_cast<const float4*>(norm + element);
            const float4 high = *reinterpret_cast<const float4*>(norm + element + 4);
            const float weight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            u32 packed[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const bf16 a = to_bf16(eight.value[2 * i] * inverse * weight[2 * i]);
                const bf16 b = to_bf16(eight.value[2 * i + 1] * inverse * weight[2 * i + 1]);
                packed[i] = static_cast<u32>(b.bits) << 16 | a.bits;
            }
            *reinterpret_cast<uint4*>(to + element) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        }
    }
}
