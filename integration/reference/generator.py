"""Weights and prompts by a seed, the same bytes in Python and in Rust.

A number of a tensor is a hash of the tensor's name, the seed and the number's place, so
no order matters and no state is carried. Each is made in the form in which it is stored
(a bf16 value, a code of e4m3, a byte of two e2m1 codes, a scale), so neither language
has to round. Rust's side is `integration/tests/model/generator.rs`.
"""

import re

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def bytes_of(name: str, seed: int, count: int) -> np.ndarray:
    """`count` bytes: the high bytes of splitmix64 over FNV-1a of the name."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & MASK
    key = (key + seed * GOLDEN) & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(56)).astype(np.uint8)


# How large the numbers of a tensor are: the first pattern that its name matches.
# ("gain", g): a matrix whose outputs are about 2^g times its inputs.
# ("spread", e): numbers between -2^e and 2^e.
RECIPES = [
    (r"(^|[._])norm\.weight$", ("norm",)),
    (r"tid2eid$", ("experts",)),
    (r"embed\.weight$", ("spread", 0)),
    (r"head\.weight$", ("gain", 1)),
    (r"attn_sink$", ("spread", 2)),
    (r"\.ape$", ("spread", 1)),
    (r"gate\.bias$", ("spread", -1)),
    (r"hc_\w+_fn$", ("spread", -4)),
    (r"hc_\w+_base$", ("spread", 2)),
    (r"hc_\w+_scale$", ("scale",)),
    (r"\.wgate\.", ("gain", 1)),
    (r"\.w[13]\.", ("gain", 2)),
    (r"\.w2\.", ("gain", -3)),
    (r"\.wo_b\.", ("gain", 1)),
    (r"", ("gain", 0)),
]

# Of a format, log2 of about the mean size of its numbers before any scale.
UNIT = {"BF16": -1, "F32": -1, "F8_E4M3": 7, "FP4": 2}


def exponent(name: str, stored: str, width: int) -> int:
    """The exponent that gives a matrix of `width` columns its gain."""
    kind, *value = recipe(name)
    if kind == "spread":
        return value[0]
    return value[0] - (width.bit_length() - 1) // 2 - UNIT[stored]


def recipe(name: str):
    # A scale is as large as its weight needs.
    name = re.sub(r"\.scale$", ".weight", name)
    return next(recipe for pattern, recipe in RECIPES if re.search(pattern, name))


def numbers(name: str, seed: int, shape, width: int) -> np.ndarray:
    """A tensor that is stored as bf16 or f32, in f32; bf16 holds it exactly."""
    raw = bytes_of(name, seed, int(np.prod(shape))).astype(np.int32)
    kind = recipe(name)[0]
    if kind == "norm":
        values = 1.0 + (raw // 8 - 16) / 64
    elif kind == "scale":
        values = 1.0 + raw / 256
    else:
        values = (2 * raw - 255) / 256 * 2.0 ** exponent(name, "BF16", width)
    return values.astype(np.float32).reshape(shape)


def codes_e4m3(name: str, seed: int, shape) -> np.ndarray:
    """Codes of e4m3, all but the two that are no numbers."""
    raw = bytes_of(name, seed, int(np.prod(shape)))
    return np.where(raw & 0x7F == 0x7F, raw - 1, raw).astype(np.uint8).reshape(shape)


def codes_e2m1(name: str, seed: int, shape) -> np.ndarray:
    """Bytes of two codes."""
    return bytes_of(name, seed, int(np.prod(shape))).reshape(shape)


def scales(name: str, seed: int, shape, stored: str, width: int):
    """The scales of a weight that is stored as `stored`: the exponents of ue8m0."""
    raw = bytes_of(name, seed, int(np.prod(shape))).astype(np.int32)
    return (exponent(name, stored, width) + raw % 3 - 1).reshape(shape), raw.reshape(shape)


def experts(name: str, seed: int, tokens: int, chosen: int, count: int) -> np.ndarray:
    """For each token as many experts, all different: `count` is a power of two."""
    raw = bytes_of(name, seed, 2 * tokens).astype(np.int64).reshape(tokens, 2)
    first, step = raw[:, :1], 2 * raw[:, 1:] + 1
    return (first + step * np.arange(chosen)) % count


def prompt(seed: int, length: int, vocabulary: int) -> list[int]:
    """Tokens of a prompt."""
    raw = bytes_of(f"prompt of {length}", seed, 2 * length).astype(np.int64)
    return [int(v) for v in (raw[0::2] * 256 + raw[1::2]) % vocabulary]
