// The splits of a token's entries put together, in their order. Half of a block
// for each head of a token. Signature and twin: src/dsv4/attention/combine.rs.

#include "attention.cuh"

namespace combine {
// Splits whose sums are loaded at once.
constexpr u32 BATCH = 8;

static_assert(THREADS * 8 == LatentFp8Pages::DIM, "a thread of a head has eight sums of a split");
static_assert(THREADS % 64 == 0, "the first warps have the lower dimensions, the last the upper ones");
}  // namespace combine

extern "C" __global__ void __launch_bounds__(combine::HEADS * combine::THREADS, 8) combine_attention(
    const uint4* __restrict__ partial,
    const float4* __restrict__ stats,
    const float* __restrict__ sink,
    u32* __restrict__ out,
    u32 tokens,
    u32 heads,
    u32 splits) {
    programmatic::let_next_start();
    programmatic::wait();
    using namespace combine;
    const u32 head = blockIdx.x * HEADS + threadIdx.x / THREADS;
    const u32 token = blockIdx.y;
    if (token >= tokens || head >= heads) {
        return;
    }
    const u32 lane = threadIdx.x % 32;
    const u32 at = threadIdx.x % THREADS;
    const u32 head_blocks = (heads + sparse::HEADS - 1) / sparse::HEADS;
    const u64 stride = static_cast<u64>(head_blocks) * sparse::SUMS;
    const sparse::Sums place = attention::sums_of(head % sparse::HEADS, at);
    const uint4* row = partial + token * splits * stride + head / sparse::HEADS * sparse::SUMS + place.word;

    // The sums are on their way while each warp finds what they weigh: lane l
    // has the weights of splits l, l + 32, ...
    uint4 part[BATCH];
    const auto load = [&](u32 first) {
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            part[i] = first + i < splits ? row[(first + i) * stride] : make_uint4(0, 0, 0, 0);
        }
    };
    load(0);
    const u64 first = static_cast<u64>(token) * splits * heads + head;
    float4 own[MAX_SPLITS / 32];
    float largest = negative_infinity();
#pragma unroll
    for (u32 i = 0; i < MAX_SPLITS / 32; ++i) {
        const u32 split = 32 * i + lane;
        own[i] = split < splits ? stats[first + static_cast<u64>(split) * heads]
                                : make_float4(negative_infinity(), 0.0f, 0.0f, 0.0f);
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
        // The sums of a warp have the same unit.
        weights[i] *= at < THREADS / 2 ? own[i].z : own[i].w;
    }
    total = warp_sum(total);
    const float normaliser = largest == negative_infinity() ? 0.0f : 1.0f / (total + exp2f(own_sink - shift));

    float sum[8] = {};
#pragma unroll
    for (u32 group = 0; group < MAX_SPLITS / BATCH; ++group) {
        if (group * BATCH >= splits) {
            break;
        }
        if (group > 0) {
            load(group * BATCH);
        }
#pragma unroll
        for (u32 i = 0; i < BATCH; ++i) {
            const u32 split = group * BATCH + i;
            const float weight = __shfl_sync(0xffffffffu, weights[split / 32], split % 32);
            // A split without entries has left its words as they were: what is
            // there may be no number.
            const bool any = weight != 0.0f;
            const u32 words[4] = {part[i].x, part[i].y, part[i].z, part[i].w};
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                const float2 both = sparse::unpack_f16(words[k]);
                sum[2 * k] = any ? fmaf(weight, both.x, sum[2 * k]) : sum[2 * k];
                sum[2 * k + 1] = any ? fmaf(weight, both.y, sum[2 * k + 1]) : sum[2 * k + 1];
            }
        }
    }
    u32 words[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        words[k] = sparse::pack_bf16(sum[2 * k] * normaliser, sum[2 * k + 1] * normaliser);
    }
    attention::turn(words);
    *reinterpret_cast<uint4*>(out + (static_cast<u64>(token) * heads + head) * (LatentFp8Pages::DIM / 2) + place.first / 2) =
        make_uint4(words[0], words[1], words[2], words[3]);
}
