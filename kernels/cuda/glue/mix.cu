// next[t, i] = x[t, i] + mean of attention[t, j] over j ≡ i (mod width). A thread
// for each element. Signature and twin: src/dsv4/glue/residual.rs.

#include "common.cuh"

extern "C" __global__ void __launch_bounds__(residual::THREADS) mix(
    const bf16* __restrict__ x,
    const bf16* __restrict__ attention,
    bf16* __restrict__ next,
    u32 tokens,
    u32 width,
    u32 values) {
    programmatic::let_next_start();
    programmatic::wait();
    const u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 token = blockIdx.y;
    if (column >= width || token >= tokens) {
        return;
    }
    const bf16* row = attention + static_cast<u64>(token) * values;
    float sum = 0.0f;
    u32 count = 0;
    for (u64 j = column; j < values; j += width) {
        sum += to_float(row[j]);
        ++count;
    }
    const u64 place = static_cast<u64>(token) * width + column;
    const float mean = count == 0 ? 0.0f : sum / static_cast<float>(count);
    next[place] = to_bf16(to_float(x[place]) + mean);
}
