// The splits of a token's entries put together, in their order. A block for each
// head of a token. Signature and twin: src/dsv4/attention/combine.rs.

#include "attention.cuh"

namespace combine {
constexpr u32 THREADS = LatentFp8Pages::DIM / 4;
constexpr u32 MAX_SPLITS = 128;
// Splits whose sums are loaded at once.
constexpr u32 BATCH = 16;
}  // namespace combine

extern "C" __global__ void __launch_bounds__(128) combine_attention(
    const float4* __restrict__ partial,
    const float2* __restrict__ stats,
    const float* __restrict__ sink,
    u32* __restrict__ out,
    u32 tokens,
    u32 heads,
    u32 splits) {
    using namespace combine;
    const u32 head = blockIdx.x;
    const u32 token = blockIdx.y;
    if (token >= tokens || head >= heads) {
        return;
    }
    const u32 lane = threadIdx.x % 32;
    const u32 head_blocks = (heads + sparse::HEADS - 1) / sparse::HEADS;
    const u64 stride = static_cast<u64>(head_blocks) * sparse::SUMS;
    const sparse::Sums place = attention::sums_of(head % sparse::HEADS, threadIdx.x);
    const float4* row = partial + token * splits * stride + head / sparse::HEADS * sparse::SUMS + place.word;

    // The sums are on their way while each warp finds what they weigh: lane l
    // has the weights of splits l, l + 32, ...
    float4 part[BATCH];
#pragma unroll
    for (u32 i = 0; i < BATCH; ++i) {
        part[i] = i < splits ? row[i * stride] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    const u64 first = static_cast<u64>(token) * splits * heads + head;
    float2 own[MAX_SPLITS / 32];
    float largest = negative_infinity();
#pragma unroll
    for (u32 i = 0; i < MAX_SPLITS / 32; ++i) {
        const u32 split = 32 * i + lane;
        own[i] = split < splits ? stats[first + static_cast<u64>(split) * heads]
                                : make_float2(negative_infinity(), 0.0f);
        largest = fmaxf(largest, own[i].x);
    }
    largest = warp_max(largest);
    // The larger of largest score and sink is subtracted, so that neither
    // overflows.
    const float own_sink = sink[head] * sparse::LOG2_E;
    const float shift = fmaxf(largest, own_sink);
    float total = 0.0f;
    float weights[MAX_SPLITS / 32];
#pragma unroll
    for (u32 i = 0; i < MAX_SPLITS / 32; ++i) {
        weights[i] = own[i].x == negative_infinity() ? 0.0f : exp2f(own[i].x - shift);
        total += weights[i] * own[i].y;
    }
    total = warp_sum(total);
    const float normaliser = largest == negative_infinity() ? 0.0f : 1.0f / (total + exp2f(own_sink - shift));

    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (u32 group = 0; group < MAX_SPLITS / BATCH; ++group) {
        if (group * BATCH >= splits) {
            break;
        }
        if (group > 0) {
#pragma unroll
            for (u32 i = 0; i < BATCH; ++i) {
                const u32 split = group * BATCH + i;
                part[i] = split < splits ? row[split * stride] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            const u32 split = group * BATCH + i;
            const float weight = __shfl_sync(0xffffffffu, weights[split / 32], split % 32);
            // A split without entries has left its words as they were: what is
            // there may be no number.
            const bool any = weight != 0.0f;
            sum.x = any ? fmaf(weight, part[i].x, sum.x) : sum.x;
            sum.y = any ? fmaf(weight, part[i].y, sum.y) : sum.y;
            sum.z = any ? fmaf(weight, part[i].z, sum.z) : sum.z;
            sum.w = any ? fmaf(weight, part[i].w, sum.w) : sum.w;
        }
    }
    u32* to = out + (static_cast<u64>(token) * heads + head) * (LatentFp8Pages::DIM / 2);
    to[place.low / 2] = sparse::pack_bf16(sum.x * normaliser, sum.y * normaliser);
    to[place.high / 2] = sparse::pack_bf16(sum.z * normaliser, sum.w * normaliser);
}
