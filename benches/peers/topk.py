"""torch.topk at the sizes of benches/gpu_kernels, timed in the same way.

    python3 topk.py

64 calls over rotating inputs in one CUDA graph; the median of 25 replays.
"""

import torch

LAUNCHES, REPLAYS, WARM_UP = 64, 25, 5
BEYOND_CACHE = 192 << 20


def microseconds(rows: int, entries: int, k: int) -> float:
    sets = min(max(BEYOND_CACHE // (4 * rows * entries), 4), 64)
    inputs = [torch.rand(rows, entries, device="cuda") * 2 - 1 for _ in range(sets)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for values in inputs:
            torch.topk(values, k, dim=-1)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in range(LAUNCHES):
            torch.topk(inputs[launch % sets], k, dim=-1)
    times = []
    for _ in range(WARM_UP + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / LAUNCHES)
    return sorted(times[WARM_UP:])[REPLAYS // 2]


def main() -> None:
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print("| kernel | sizes | time, us |")
    print("| --- | --- | --- |")
    for rows, entries, k in [(1, 16384, 512), (32, 16384, 512), (32, 16384, 1024), (1, 262144, 512)]:
        print(f"| torch.topk | {k} of {rows} x {entries} | {microseconds(rows, entries, k):.2f} |")


if __name__ == "__main__":
    main()
