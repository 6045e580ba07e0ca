"""The layers of `streamweir decode`, made of PyTorch's operators.

The same sizes and the same kinds of layers: latents, compressor and indexer on a
side stream each, attention on the main one, captured into one graph.
Latents and index keys are bf16 here, for no operator reads the packed formats.
Prints microseconds per layer with the overlap off and on, to be put beside
`streamweir decode --profile`.
"""

import argparse

import torch
import torch.nn.functional as F

HIDDEN, Q_LORA, HEADS, DIM = 4096, 1024, 64, 512
INDEX_HEADS, INDEX_DIM, TOP_K = 64, 128, 512
GROUPS, O_LORA, WINDOW = 8, 1024, 128
REPLAYS, WARM_UP = 21, 5


def weight(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * shape[0] ** -0.5


def kind(layer):
    if layer < 2:
        return "window"
    return "c4" if layer % 2 == 0 else "c128"


class Layer:
    def __init__(self, number, rows, context):
        self.kind = kind(number)
        self.qkv = weight(HIDDEN, Q_LORA + DIM)
        self.q_b = weight(Q_LORA, HEADS * DIM)
        self.o_a = weight(GROUPS, HEADS * DIM // GROUPS, O_LORA)
        self.o_b = weight(GROUPS * O_LORA, HIDDEN)
        self.sink = torch.zeros(1, HEADS, 1, device="cuda", dtype=torch.bfloat16)
        self.window = weight(rows, WINDOW, DIM) * rows**0.5
        self.slot = torch.arange(rows, device="cuda")
        group = {"window": 0, "c4": 4, "c128": 128}[self.kind]
        if group:
            values = 4 * DIM if group == 4 else 2 * DIM
            self.compressor = weight(HIDDEN, values)
            self.ring = torch.zeros(rows, group, values, device="cuda", dtype=torch.bfloat16)
            self.entries = weight(rows, context // group, DIM) * rows**0.5
        if group == 4:
            self.index_compressor = weight(HIDDEN, 4 * INDEX_DIM)
            self.index_ring = torch.zeros(rows, 4, 4 * INDEX_DIM, device="cuda", dtype=torch.bfloat16)
            self.head_weights = weight(HIDDEN, INDEX_HEADS)
            self.index_q_b = weight(Q_LORA, INDEX_HEADS * INDEX_DIM)
            self.keys = weight(rows, context // 4, INDEX_DIM) * rows**0.5

    def store_window(self, qkv):
        latent = F.rms_norm(qkv[:, Q_LORA:], (DIM,))
        self.window[self.slot, 0] = latent

    def compress(self, h):
        values = h @ self.compressor
        self.ring[self.slot, 0] = values
        kv, score = self.ring.chunk(2, dim=-1)
        entry = (score.softmax(1) * kv).sum(1)[:, :DIM]
        self.entries[self.slot, 0] = F.rms_norm(entry, (DIM,))

    def index_keys(self, h):
        self.index_ring[self.slot, 0] = h @ self.index_compressor
        kv, score = self.index_ring.chunk(2, dim=-1)
        key = (score.softmax(1) * kv).sum(1)[:, :INDEX_DIM]
        self.keys[self.slot, 0] = F.rms_norm(key, (INDEX_DIM,))

    def select(self, h, q_lora):
        queries = (q_lora @ self.index_q_b).view(-1, INDEX_HEADS, INDEX_DIM)
        logits = torch.bmm(queries, self.keys.transpose(1, 2)).relu_()
        scores = torch.einsum("thn,th->tn", logits, h @ self.head_weights)
        return scores.topk(min(TOP_K, scores.shape[1]), dim=-1)[1]

    def attend(self, q, selected):
        latents = self.window
        if self.kind == "c4":
            picked = torch.gather(self.entries, 1, selected[:, :, None].expand(-1, -1, DIM))
            latents = torch.cat([latents, picked], 1)
        elif self.kind == "c128":
            latents = torch.cat([latents, self.entries], 1)
        scores = torch.bmm(q, latents.transpose(1, 2)) * DIM**-0.5
        sink = self.sink.expand(q.shape[0], -1, -1)
        probabilities = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
        return torch.bmm(probabilities, latents)

    def __call__(self, x, side, keep):
        main = torch.cuda.current_stream()
        h = F.rms_norm(x, (HIDDEN,))
        qkv = h @ self.qkv
        q_lora = F.rms_norm(qkv[:, :Q_LORA], (Q_LORA,))
        streams = side if side else [main] * 3
        if side:
            for stream in side:
                stream.wait_stream(main)
        selected = None
        with torch.cuda.stream(streams[0]):
            self.store_window(qkv)
        if self.kind != "window":
            with torch.cuda.stream(streams[1]):
                self.compress(h)
        if self.kind == "c4":
            with torch.cuda.stream(streams[2]):
                self.index_keys(h)
                selected = self.select(h, q_lora)
        q = F.rms_norm((q_lora @ self.q_b).view(-1, HEADS, DIM), (DIM,))
        if side:
            for stream in side:
                main.wait_stream(stream)
        # What crosses streams is kept: the caching allocator must not hand it out.
        keep += [h, qkv, q_lora, selected, q]
        o = self.attend(q, selected).view(-1, GROUPS, HEADS * DIM // GROUPS).transpose(0, 1)
        low = torch.bmm(o, self.o_a).transpose(0, 1).reshape(-1, GROUPS * O_LORA)
        return x + low @ self.o_b


def microseconds(layers, x, side):
    def step():
        keep, state = [], x
        for layer in layers:
            state = layer(state, side, keep)
        return state, keep

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = step()
    times = []
    for replay in range(WARM_UP + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if replay >= WARM_UP:
            times.append(begin.elapsed_time(end) * 1e3)
    del held
    return sorted(times)[len(times) // 2] / len(layers)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--contexts", type=int, nargs="+", default=[16384, 65536])
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, {options.layers} layers")
    print("| batch | context | off, us per layer | on | ratio |")
    print("| --- | --- | --- | --- | --- |")
    side = [torch.cuda.Stream() for _ in range(3)]
    for context in options.contexts:
        for rows in options.buckets:
            torch.manual_seed(1)
            layers = [Layer(number, rows, context) for number in range(options.layers)]
            x = weight(rows, HIDDEN) * rows**0.5
            off, on = (microseconds(layers, x, streams) for streams in (None, side))
            print(f"| {rows} | {context} | {off:.1f} | {on:.1f} | {off / on:.3f} |", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
