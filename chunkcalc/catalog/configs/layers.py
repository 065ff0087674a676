"""The layers of a configuration: what kind each is, and equal ones grouped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from chunkcalc.catalog.configs.attention import attention, mla, window
from chunkcalc.catalog.configs.families import Family
from chunkcalc.catalog.configs.feedforward import Ffn, dense, feedforward, moe
from chunkcalc.catalog.configs.keys import MOST_LAYERS, Config
from chunkcalc.records import Absent, Attention, Dense, Gqa, LayerGroup

# Spellings of `layer_types` and of older patterns, one letter per layer in Nemotron-H's.
_KINDS = {
    "full_attention": "full", "attention": "full", "*": "full", "indexed_attention": "full",
    "sliding_attention": "sliding", "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "M": "linear",
    "compressed_sparse_attention": "sparse", "heavily_compressed_attention": "heavy",
    "mlp": "mlp", "-": "mlp", "moe": "moe", "E": "moe",
}  # fmt: skip


def layer_groups(config: Config, family: Family) -> tuple[LayerGroup, ...]:
    """The groups of equal layers, in the order of their first layer."""
    if config.model_type == "longcat_flash":
        return _longcat(config, family)
    if config.model_type == "nemotron-nas":
        return _nemotron_nas(config)
    kinds = _kinds(config, family)
    layers, count = [], len(kinds)
    for index, kind in enumerate(kinds):
        own = config.layer(index)
        layers.append((attention(own, family, index, kind, count), feedforward(own, family, index, kind, count)))
    return _grouped(layers)


def _grouped(layers: Iterable[tuple[Attention, Ffn]]) -> tuple[LayerGroup, ...]:
    return tuple(LayerGroup(count=count, attention=mixing, ffn=ffn) for (mixing, ffn), count in Counter(layers).items())


def _kinds(config: Config, family: Family) -> list[str]:
    """What mixes tokens in each layer: full, sliding, chunked, linear, ..., or mlp and moe alone."""
    written = config.names("layer_types", "layers_block_type")
    pattern = config.get("hybrid_override_pattern")
    if written is None and isinstance(pattern, str):
        written = list(pattern)
    if written is not None and config.get("num_hidden_layers") is not None:
        count = config.whole("num_hidden_layers")
        if len(written) != count:
            config.refuse("layer_types", f"has {len(written)} entries for {count} layers")
    if written is None:
        return _implied_kinds(config, family)
    for name in written:
        if name not in _KINDS:
            config.refuse("layer_types", f"has the unknown entry {name!r:.40}")
    return [_KINDS[name] for name in written]


def _implied_kinds(config: Config, family: Family) -> list[str]:
    """Kinds from intervals and patterns, where no list is written."""
    count = config.whole("num_hidden_layers", "n_layer", "num_layers")
    if count > MOST_LAYERS:
        config.refuse("num_hidden_layers", f"is {count}")
    interval = config.maybe("full_attention_interval", "layer_group_size")
    if family.linear and interval:
        return ["full" if (index + 1) % interval == 0 else "linear" for index in range(count)]
    table = config.get("linear_attn_config")
    if family.linear and isinstance(table, Mapping):
        full = table.get("full_attn_layers")
        if not isinstance(full, list):
            config.refuse("linear_attn_config.full_attn_layers", "is not a list")
        return ["full" if index + 1 in full else "linear" for index in range(count)]
    if family.linear:
        config.refuse("layer_types", "is missing")
    ratios = config.get("compress_ratios")
    if family.attention == "compressed":
        if not isinstance(ratios, list):
            config.refuse("layer_types or compress_ratios", "is missing")
        return [{0: "sliding", 4: "sparse"}.get(ratio, "heavy") for ratio in ratios[:count]]
    chunk, every = config.maybe("attention_chunk_size"), config.maybe("no_rope_layer_interval")
    if chunk and every:
        return ["full" if (index + 1) % every == 0 else "chunked" for index in range(count)]
    repeat = config.maybe("sliding_window_pattern", "_sliding_window_pattern")
    if repeat and window(config):
        return ["full" if (index + 1) % repeat == 0 else "sliding" for index in range(count)]
    return ["sliding" if family.windowed and window(config) else "full"] * count


def _longcat(config: Config, family: Family) -> tuple[LayerGroup, ...]:
    """Each block is two attentions, two dense MLPs and one mixture beside them."""
    blocks = config.whole("num_layers", "num_hidden_layers")
    return (
        LayerGroup(count=2 * blocks, attention=mla(config, family, 0), ffn=dense(config, family)),
        LayerGroup(count=blocks, attention=Absent(), ffn=moe(config, family)),
    )


def _nemotron_nas(config: Config) -> tuple[LayerGroup, ...]:
    """Layers found by architecture search: attention in some, MLPs of several widths."""
    blocks = config.get("block_configs")
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        config.refuse("block_configs", "is not a list of layers")
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    layers = []
    for block in blocks[:MOST_LAYERS]:
        mixer, ffn = block.get("attention") or {}, block.get("ffn") or {}
        mixing: Attention = Absent()
        if not (mixer.get("no_op") or mixer.get("replace_with_linear")):
            group = mixer.get("n_heads_in_group") or 1
            mixing = Gqa(heads=heads, kv_heads=heads // int(group), head_dim=hidden // heads)
        part: Ffn = Absent()
        if not ffn.get("no_op"):
            # Widths are two thirds of a multiple of the hidden size, rounded up to 256.
            width = int(2 * float(ffn.get("ffn_mult") or 0) * hidden / 3)
            part = Dense(intermediate=max(256, -(-width // 256) * 256))
        layers.append((mixing, part))
    return _grouped(layers)
