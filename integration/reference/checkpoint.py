"""A checkpoint in the hub's form, of generated weights."""

import json
import pathlib

import torch
from safetensors.torch import save_file

import generator

BLOCK = 128


def tensors(config: dict, seed: int) -> dict[str, torch.Tensor]:
    """All tensors by their names on the hub, an MTP layer's among them."""
    quantised = config.get("quantization_config")
    experts_in = None
    if quantised:
        experts_in = config.get("expert_dtype") or quantised.get("expert_dtype")
    ue8m0 = bool(quantised) and quantised.get("scale_fmt") == "ue8m0"
    hidden, head, q_rank = config["hidden_size"], config["head_dim"], config["q_lora_rank"]
    heads, inner = config["num_attention_heads"], config["moe_intermediate_size"]
    groups, o_rank = config["o_groups"], config["o_lora_rank"]
    index, index_heads = config["index_head_dim"], config["index_n_heads"]
    count, chosen, n = config["n_routed_experts"], config["num_experts_per_tok"], config["hc_mult"]
    vocabulary = config["vocab_size"]
    found = {}

    def plain(name, *shape, dtype=torch.bfloat16):
        values = generator.numbers(name, seed, shape, shape[-1])
        found[name] = torch.from_numpy(values).to(dtype)

    def real(name, *shape):
        plain(name, *shape, dtype=torch.float32)

    def scaled(name, stored, shape, grid, width, exponents):
        exponent, raw = generator.scales(f"{name}.scale", seed, grid, stored, width)
        if exponents:
            codes = torch.from_numpy((exponent + 127).astype("uint8"))
            found[f"{name}.scale"] = codes.view(torch.float8_e8m0fnu)
        else:
            values = 2.0 ** exponent * (1 + raw / 256)
            found[f"{name}.scale"] = torch.from_numpy(values.astype("float32"))

    def linear(name, rows, columns):
        if not quantised:
            return plain(f"{name}.weight", rows, columns)
        codes = generator.codes_e4m3(f"{name}.weight", seed, (rows, columns))
        found[f"{name}.weight"] = torch.from_numpy(codes).view(torch.float8_e4m3fn)
        grid = (-(-rows // BLOCK), -(-columns // BLOCK))
        scaled(name, "F8_E4M3", (rows, columns), grid, columns, ue8m0)

    def expert(name, rows, columns):
        if experts_in != "fp4":
            return linear(name, rows, columns)
        codes = generator.codes_e2m1(f"{name}.weight", seed, (rows, columns // 2))
        found[f"{name}.weight"] = torch.from_numpy(codes).view(torch.int8)
        scaled(name, "FP4", (rows, columns), (rows, columns // 32), columns, True)

    def compressor(name, rate, dim, overlap):
        both = 2 * dim if overlap else dim
        plain(f"{name}.wkv.weight", both, hidden)
        plain(f"{name}.wgate.weight", both, hidden)
        real(f"{name}.ape", rate, both)
        plain(f"{name}.norm.weight", dim)

    def hyper(name, outputs, scales):
        real(f"{name}_fn", outputs, n * hidden)
        real(f"{name}_base", outputs)
        real(f"{name}_scale", scales)

    def layer(name, kind, hashed):
        for part in ("attn", "ffn"):
            hyper(f"{name}.hc_{part}", (2 + n) * n, 3)
            plain(f"{name}.{part}_norm.weight", hidden)
        attn, ffn = f"{name}.attn", f"{name}.ffn"
        linear(f"{attn}.wq_a", q_rank, hidden)
        plain(f"{attn}.q_norm.weight", q_rank)
        linear(f"{attn}.wq_b", heads * head, q_rank)
        linear(f"{attn}.wkv", head, hidden)
        plain(f"{attn}.kv_norm.weight", head)
        real(f"{attn}.attn_sink", heads)
        linear(f"{attn}.wo_a", groups * o_rank, heads * head // groups)
        linear(f"{attn}.wo_b", hidden, groups * o_rank)
        if kind:
            compressor(f"{attn}.compressor", kind, head, kind == 4)
        if kind == 4:
            compressor(f"{attn}.indexer.compressor", kind, index, True)
            linear(f"{attn}.indexer.wq_b", index_heads * index, q_rank)
            plain(f"{attn}.indexer.weights_proj.weight", index_heads, hidden)
        plain(f"{ffn}.gate.weight", count, hidden)
        if hashed:
            table = generator.experts(f"{ffn}.gate.tid2eid", seed, vocabulary, chosen, count)
            # Both widths are met.
            found[f"{ffn}.gate.tid2eid"] = torch.from_numpy(table).to(torch.int64 if ue8m0 else torch.int32)
        else:
            real(f"{ffn}.gate.bias", count)
        for e in [f"experts.{e}" for e in range(count)] + ["shared_experts"]:
            make = linear if e == "shared_experts" else expert
            make(f"{ffn}.{e}.w1", inner, hidden)
            make(f"{ffn}.{e}.w2", hidden, inner)
            make(f"{ffn}.{e}.w3", inner, hidden)

    plain("embed.weight", vocabulary, hidden)
    plain("head.weight", vocabulary, hidden)
    plain("norm.weight", hidden)
    hyper("hc_head", n, 1)
    for number, kind in enumerate(schedule(config)):
        layer(f"layers.{number}", kind, number < config["num_hash_layers"])
    plain("mtp.0.enorm.weight", hidden)
    return found


def schedule(config: dict) -> list[int]:
    """Tokens of an entry, of each layer; 0 for none."""
    layers = config["num_hidden_layers"]
    if "compress_ratios" in config:
        return config["compress_ratios"][:layers]
    words = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    return [words[word] for word in config["layer_types"]]


def write(config: dict, seed: int, folder: pathlib.Path, shards: int) -> None:
    """Writes config, shards and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    found = tensors(config, seed)
    names = sorted(found)
    per_shard = -(-len(names) // shards)
    where = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard * per_shard : (shard + 1) * per_shard]
        save_file({name: found[name].contiguous() for name in part}, folder / file)
        where |= {name: file for name in part}
    size = sum(found[name].numel() * found[name].element_size() for name in names)
    index = {"metadata": {"total_size": size}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
