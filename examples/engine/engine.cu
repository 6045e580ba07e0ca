// The kernels of the mini engine, for a GPU. Their declarations and CPU twins are in
// kernels.rs. A thread touches nothing outside of its buffers, whatever is in memory:
// token ids, positions and page numbers are data, and are clamped.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short bf16;

static __device__ float wide(bf16 value) { return __uint_as_float((u32)value << 16); }

static __device__ bf16 narrow(float value) {
    u32 bits = __float_as_uint(value);
    return (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The sum over the threads of a block, known to all of them.
static __device__ float sum_of_block(float value) {
    __shared__ float part[32];
    for (u32 lane = 16; lane; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (u32 warp = 0; warp < blockDim.x / 32; ++warp) value += part[warp];
    return value;
}

extern "C" __global__ void embed(const u32* ids, const bf16* table, float* x, u32 rows, u32 hidden, u32 vocab) {
    const u32 row = blockIdx.x, id = min(ids[row], vocab - 1);
    for (u32 i = threadIdx.x; i < hidden; i += blockDim.x)
        x[(u64)row * hidden + i] = wide(table[(u64)id * hidden + i]);
}

extern "C" __global__ void rms_norm(const float* x, const float* weight, bf16* out, u32 rows, u32 hidden) {
    const float* from = x + (u64)blockIdx.x * hidden;
    float squares = 0;
    for (u32 i = threadIdx.x; i < hidden; i += blockDim.x) squares += from[i] * from[i];
    const float inverse = 1.0f / sqrtf(sum_of_block(squares) / hidden + 1e-6f);
    for (u32 i = threadIdx.x; i < hidden; i += blockDim.x)
        out[(u64)blockIdx.x * hidden + i] = narrow(from[i] * inverse * weight[i]);
}

// Rows of qkv are the heads of the query, of the key and of the value. A pair of
// neighbours is turned by an angle of the position.
extern "C" __global__ void rope_and_store(
    const bf16* qkv, const u32* positions, const u32* pages, const float* angles, bf16* q, bf16* keys, bf16* values,
    u32 rows, u32 heads, u32 kv_heads, u32 width, u32 row_pages, u32 cache_pages) {
    const u32 row = blockIdx.x, all = (heads + 2 * kv_heads) * width;
    const u32 position = min(positions[row], row_pages * PAGE - 1);
    const u32 page = min(pages[(u64)row * row_pages + position / PAGE], cache_pages - 1);
    const u64 slot = ((u64)page * PAGE + position % PAGE) * kv_heads * width;
    const bf16* from = qkv + (u64)row * all;
    for (u32 i = 2 * threadIdx.x; i < all; i += 2 * blockDim.x) {
        const u32 head = i / width;
        if (head >= heads + kv_heads) {
            const u32 at = i - (heads + kv_heads) * width;
            values[slot + at] = from[i];
            values[slot + at + 1] = from[i + 1];
            continue;
        }
        const float* angle = angles + ((u64)position * width / 2 + i % width / 2) * 2;
        const float a = wide(from[i]), b = wide(from[i + 1]);
        bf16* to = head < heads ? q + (u64)row * heads * width + i : keys + slot + i - heads * width;
        to[0] = narrow(a * angle[0] - b * angle[1]);
        to[1] = narrow(a * angle[1] + b * angle[0]);
    }
}

// A block for a row and a head.
extern "C" __global__ void attention(
    const bf16* q, const bf16* keys, const bf16* values, const u32* positions, const u32* pages, bf16* out,
    u32 rows, u32 heads, u32 kv_heads, u32 width, u32 row_pages, u32 cache_pages) {
    __shared__ float score[CONTEXT];
    const u32 row = blockIdx.x, head = blockIdx.y, kv = head / (heads / kv_heads);
    const u32 count = min(positions[row], row_pages * PAGE - 1) + 1;
    const bf16* query = q + ((u64)row * heads + head) * width;
    const float scale = 1.0f / sqrtf((float)width);
    float sum = 0;
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) {
        const u32 page = min(pages[(u64)row * row_pages + at / PAGE], cache_pages - 1);
        const bf16* key = keys + (((u64)page * PAGE + at % PAGE) * kv_heads + kv) * width;
        float dot = 0;
        for (u32 i = 0; i < width; ++i) dot += wide(query[i]) * wide(key[i]);
        score[at] = dot * scale;
    }
    __syncthreads();
    float most = score[0];
    for (u32 at = 1; at < count; ++at) most = fmaxf(most, score[at]);
    for (u32 at = threadIdx.x; at < count; at += blockDim.x) sum += expf(score[at] - most);
    sum = sum_of_block(sum);
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
        float value = 0;
        for (u32 at = 0; at < count; ++at) {
            const u32 page = min(pages[(u64)row * row_pages + at / PAGE], cache_pages - 1);
            const u64 slot = (((u64)page * PAGE + at % PAGE) * kv_heads + kv) * width;
            value += expf(score[at] - most) * wide(values[slot + i]);
        }
        out[((u64)row * heads + head) * width + i] = narrow(value / sum);
    }
}

extern "C" __global__ void silu_mul(const bf16* gate_up, bf16* out, u32 rows, u32 inner) {
    for (u32 i = threadIdx.x; i < inner; i += blockDim.x) {
        const bf16* from = gate_up + (u64)blockIdx.x * 2 * inner + i;
        const float gate = wide(from[0]);
        out[(u64)blockIdx.x * inner + i] = narrow(gate / (1.0f + expf(-gate)) * wide(from[inner]));
    }
}

extern "C" __global__ void add(float* x, const bf16* a, const bf16* b, u32 len) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) x[i] += wide(a[i]) + (b ? wide(b[i]) : 0.0f);
}

// The first of the largest.
extern "C" __global__ void argmax(const float* logits, u32* next, u32 rows, u32 vocab) {
    __shared__ float value[THREADS];
    __shared__ u32 place[THREADS];
    const float* from = logits + (u64)blockIdx.x * vocab;
    float most = from[0];
    u32 best = 0;
    for (u32 i = threadIdx.x; i < vocab; i += blockDim.x)
        if (from[i] > most || (from[i] == most && i < best)) most = from[i], best = i;
    value[threadIdx.x] = most;
    place[threadIdx.x] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 i = 1; i < blockDim.x; ++i)
            if (value[i] > most || (value[i] == most && place[i] < best)) most = value[i], best = place[i];
        next[blockIdx.x] = best;
    }
}
