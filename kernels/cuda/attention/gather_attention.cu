// Attention of 8 heads of a token over its selected latents. A tile of 32
// latents is loaded once for all heads; warp w scores head w, one latent to a
// lane, with the running maximum and sum of an online softmax; then each thread
// adds two dimensions of the latents into the output of all heads. Signature and
// twin: src/dsv4/attention/gather.rs.

#include "pages.cuh"

namespace attention_tile {
constexpr u32 MAX_DIM = MAX_LATENT_DIM;
constexpr u32 ENTRIES = 32;
// Elements of a latent's row in shared memory: 16 bytes more than it has, so
// that eight lanes that read the same dimensions of eight latents touch
// different banks.
constexpr u32 STRIDE = MAX_DIM + 8;

static_assert(HEADS_PER_BLOCK * 32 == THREADS, "a warp for each head");
static_assert(MAX_DIM == 2 * THREADS, "two dimensions for each thread");
}  // namespace attention_tile

extern "C" __global__ void __launch_bounds__(attention_tile::THREADS) gather_attention(
    const bf16* __restrict__ q,
    const bf16* __restrict__ latent,
    const int* __restrict__ indices,
    const float* __restrict__ sink,
    bf16* __restrict__ out,
    LatentPages layout,
    u32 tokens,
    u32 heads,
    u32 selected,
    float scale) {
    using namespace attention_tile;
    __shared__ __align__(16) bf16 rows[ENTRIES * STRIDE];
    __shared__ __align__(16) bf16 query[HEADS_PER_BLOCK * MAX_DIM];
    __shared__ __align__(16) float probability[ENTRIES][HEADS_PER_BLOCK];
    __shared__ float correction[HEADS_PER_BLOCK];
    __shared__ float normaliser[HEADS_PER_BLOCK];
    __shared__ int slots[ENTRIES];

    const u32 token = blockIdx.y;
    const u32 first_head = blockIdx.x * HEADS_PER_BLOCK;
    if (token >= tokens || first_head >= heads) {
        return;
    }
    const u32 dim = layout.dim();
    const u32 words = dim / 8;
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    const uint4 zero = make_uint4(0, 0, 0, 0);

    const bf16* token_query = q + static_cast<u64>(token) * heads * dim;
    for (u32 i = threadIdx.x; i < HEADS_PER_BLOCK * words; i += THREADS) {
        const u32 head = first_head + i / words;
        const u32 d = i % words * 8;
        const uint4 word = head < heads ? load_eight(token_query + static_cast<u64>(head) * dim, d) : zero;
        *reinterpret_cast<uint4*>(&query[i / words * MAX_DIM + d]) = word;
    }

    float running_max = negative_infinity();
    float running_sum = 0.0f;
    float sum[HEADS_PER_BLOCK][2] = {};
    const u32 out_dim = threadIdx.x * 2;

    for (u32 first = 0; first < selected; first += ENTRIES) {
        __syncthreads();
        if (threadIdx.x < ENTRIES) {
            const u32 i = first + threadIdx.x;
            const int slot = i < selected ? indices[static_cast<u64>(token) * selected + i] : -1;
            slots[threadIdx.x] = layout.holds(slot) ? slot : -1;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < ENTRIES * words; i += THREADS) {
            const u32 entry = i / words;
            const u32 d = i % words * 8;
            const int slot = slots[entry];
            // A masked row is zero, so that its weight of zero meets no NaN.
            const uint4 word = slot >= 0 ? load_eight(layout.values(latent, slot), d) : zero;
            *reinterpret_cast<uint4*>(&rows[entry * STRIDE + d]) = word;
        }
        __syncthreads();

        float score = negative_infinity();
        if (slots[lane] >= 0) {
            float product = 0.0f;
            for (u32 d = 0; d < dim; d += 8) {
                const Eight a = unpack(load_eight(&query[warp * MAX_DIM], d));
                const Eight b = unpack(load_eight(&rows[lane * STRIDE], d));
#pragma unroll
                for (u32 e = 0; e < 8; ++e) {
                    product = fmaf(a.value[e], b.value[e], product);
                }
            }
            score = scale * product;
        }
        const float new_max = fmaxf(running_max, warp_max(score));
        // While nothing but masked entries was seen the maximum is minus infinity,
        // and the difference of two such would not be a number.
        const bool empty = new_max == negative_infinity();
        const float weight = empty ? 0.0f : expf(score - new_max);
        const float factor = empty ? 1.0f : expf(running_max - new_max);
        running_sum = running_sum * factor + warp_sum(weight);
        running_max = new_max;
        probability[lane][warp] = weight;
        if (lane == 0) {
            correction[warp] = factor;
        }
        __syncthreads();

        if (out_dim < dim) {
#pragma unroll
            for (u32 h = 0; h < HEADS_PER_BLOCK; ++h) {
                sum[h][0] *= correction[h];
                sum[h][1] *= correction[h];
            }
            for (u32 entry = 0; entry < ENTRIES; ++entry) {
                const u32 pair = *reinterpret_cast<const u32*>(&rows[entry * STRIDE + out_dim]);
                const float low = __uint_as_float(pair << 16);
                const float high = __uint_as_float(pair & 0xffff0000u);
                const float4 p0 = *reinterpret_cast<const float4*>(&probability[entry][0]);
                const float4 p1 = *reinterpret_cast<const float4*>(&probability[entry][4]);
                const float p[HEADS_PER_BLOCK] = {p0.x, p0.y, p0.z, p0.w, p1.x, p1.y, p1.z, p1.w};
#pragma unroll
                for (u32 h = 0; h < HEADS_PER_BLOCK; ++h) {
                    sum[h][0] = fmaf(p[h], low, sum[h][0]);
                    sum[h][1] = fmaf(p[h], high, sum[h][1]);
                }
            }
        }
    }

    if (lane == 0) {
        // The larger of maximum and sink is subtracted, so that neither overflows;
        // the output then takes the factor that belongs to the difference.
        const u32 head = first_head + warp;
        const float head_sink = head < heads ? sink[head] : negative_infinity();
        float inverse = 0.0f;
        if (running_max != negative_infinity()) {
            const float shift = fmaxf(running_max, head_sink);
            const float factor = expf(running_max - shift);
            inverse = factor / (running_sum * factor + expf(head_sink - shift));
        }
        normaliser[warp] = inverse;
    }
    __syncthreads();
    if (out_dim < dim) {
        for (u32 h = 0; h < HEADS_PER_BLOCK && first_head + h < heads; ++h) {
            bf16* row = out + (static_cast<u64>(token) * heads + first_head + h) * dim + out_dim;
            row[0] = to_bf16(sum[h][0] * normaliser[h]);
            row[1] = to_bf16(sum[h][1] * normaliser[h]);
        }
    }
}
