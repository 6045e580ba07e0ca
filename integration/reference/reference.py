"""What transformers' deepseek_v4 makes of the generated weights, in f32 on a CPU.

    python -m venv VENV && VENV/bin/pip install -r requirements.txt
    VENV/bin/python reference.py

writes the checkpoint `models/flash` and a file of goldens for each model. CI does not
run it: tests read what it wrote, and README.md says what is in the files.
"""

import json
import pathlib
import tempfile

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DynamicCache

import checkpoint
import generator

HERE = pathlib.Path(__file__).parent
# Models and the seeds of their weights and prompts.
MODELS = {"flash": 6, "base": 3, "bf16": 10}
PROMPTS = [5, 64, 129, 260, 700]
# The prompt whose states are kept, and the one that is continued.
STATES, GREEDY, TOKENS = 260, 150, 200
# A choice that is decided by less could be decided otherwise by rounding.
NARROWEST = 1e-5


def load(folder: pathlib.Path):
    """The model by transformers' own loader, which dequantises."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {what: names for what, names in info.items() if names}
    assert not wrong, wrong
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    return model.eval()


def watch_gaps(model) -> list[float]:
    """Of each choice made from now on, how far the last chosen was above the first left out.

    Where both are as near as rounding, another order of sums chooses otherwise, and what
    follows differs for no mistake: the seed is one for which this does not happen.
    """
    gaps = []

    def note(scores, count):
        best = scores.topk(min(count + 1, scores.shape[-1]), dim=-1).values
        if best.shape[-1] > count:
            gap = best[..., count - 1] - best[..., count]
            gaps.extend(gap[best[..., count].isfinite()].tolist())

    def experts(gate, _inputs, output):
        note(gate.score_fn(output[0]) + gate.e_score_correction_bias, gate.top_k)

    def entries(indexer, inputs, output):
        position, scores = inputs[2], indexer.last_scores
        future = torch.arange(scores.shape[-1]) >= (position[..., None] + 1) // indexer.compress_rate
        note(scores.masked_fill(future, -torch.inf), indexer.index_topk)

    def scores(indexer):
        def hook(_scorer, _inputs, output):
            indexer.last_scores = output

        return hook

    for layer in model.model.layers:
        if not layer.mlp.is_hash:
            layer.mlp.gate.register_forward_hook(experts)
        indexer = getattr(layer.self_attn.compressor, "indexer", None)
        if indexer is not None:
            indexer.scorer.register_forward_hook(scores(indexer))
            indexer.register_forward_hook(entries)
    return gaps


def rows_of(length: int) -> list[int]:
    """The rows of a prompt whose logits are kept."""
    return sorted({length // 4, length // 2, 3 * length // 4, length - 1})


def watch(model, kept: dict):
    """Keeps of the last row what each layer takes in and gives, and what it chooses."""

    def state(number):
        def hook(_module, inputs, output):
            kept[f"layer.{number}.in"] = inputs[0][0, -1]
            kept[f"layer.{number}.out"] = output[0, -1]

        return hook

    def last(name, of):
        def hook(_module, _inputs, output):
            kept[name] = of(output)

        return hook

    hooks = []
    for number, layer in enumerate(model.model.layers):
        name = f"layer.{number}"
        hooks.append(layer.register_forward_hook(state(number)))
        hooks.append(layer.self_attn.register_forward_hook(last(f"{name}.attention", lambda o: o[0][0, -1])))
        hooks.append(layer.mlp.register_forward_hook(last(f"{name}.experts", lambda o: o[0, -1])))
        chosen = last(f"{name}.chosen", lambda o: o[2][-1].sort().values.to(torch.int32))
        hooks.append(layer.mlp.gate.register_forward_hook(chosen))
        indexer = getattr(layer.self_attn.compressor, "indexer", None)
        if indexer is not None:
            selected = last(f"{name}.selected", lambda o: o[0, -1].sort().values.to(torch.int32))
            hooks.append(indexer.register_forward_hook(selected))
    return hooks


@torch.no_grad()
def goldens(model, seed: int) -> dict[str, torch.Tensor]:
    vocabulary, kept = model.config.vocab_size, {}
    for length in PROMPTS:
        states = {}
        hooks = watch(model, states) if length == STATES else []
        tokens = generator.prompt(seed, length, vocabulary)
        logits = model(torch.tensor([tokens]), use_cache=True).logits[0]
        for hook in hooks:
            hook.remove()
        kept[f"prompt.{length}.logits"] = logits[rows_of(length)]
        kept |= {f"states.{name}": value for name, value in states.items()}
    kept |= greedy(model, generator.prompt(seed, GREEDY, vocabulary))
    return {name: value.clone().contiguous() for name, value in kept.items()}


def greedy(model, tokens: list[int]) -> dict[str, torch.Tensor]:
    """The tokens that a prompt is continued with, and by how much each was the best."""
    cache, chosen, margins = DynamicCache(config=model.config), [], []
    logits = model(torch.tensor([tokens]), cache=cache, use_cache=True).logits[0, -1]
    while True:
        best = logits.topk(2)
        chosen.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if len(chosen) == TOKENS:
            break
        logits = model(torch.tensor([chosen[-1:]]), cache=cache, use_cache=True).logits[0, -1]
    return {"greedy.tokens": torch.tensor(chosen, dtype=torch.int32), "greedy.margins": torch.tensor(margins)}


def main():
    # Many threads are no faster on matrices as small as these.
    torch.set_num_threads(1)
    for name, seed in MODELS.items():
        kept_here = name == "flash"
        config = HERE / "models" / (f"{name}/config.json" if kept_here else f"{name}.json")
        with tempfile.TemporaryDirectory() as folder:
            # The small one stays, for the loader to be tested on a file it did not make.
            folder = config.parent if kept_here else pathlib.Path(folder) / name
            checkpoint.write(json.loads(config.read_text()), seed, folder, shards=2)
            model = load(folder)
            gaps = watch_gaps(model)
            found = goldens(model, seed)
        save_file(found, HERE / "goldens" / f"{name}.safetensors")
        margins, tokens = found["greedy.margins"], found["greedy.tokens"]
        print(f"{name}: the nearest of {len(gaps)} choices is decided by {min(gaps):.1e}")
        print(f"{name}: tokens by {float(margins.min()):.1e}, {len(set(tokens.tolist()))} of {TOKENS} different")
        assert min(gaps) > NARROWEST, f"choose another seed for {name}"


if __name__ == "__main__":
    main()
