"""What a model amounts to: parameters, weight bytes, KV bytes; each a sum over its layer groups."""

from __future__ import annotations

import math
from typing import Any

from chunkcalc.frozen import dataclass, remembered
from chunkcalc.records import WEIGHT_BYTES, Dense, Kind, LayerGroup, Model, Moe, Parallelism, Precision
from chunkcalc.work import attention
from chunkcalc.work.linear import mlp, per_layer_embedding
from chunkcalc.work.moe import routes

LONG = 2**24  # tokens: longer than any window
MXFP4_SLICE = 256  # elements to which engines fill the slices of MXFP4 experts up


def kind(model: Model) -> Kind:
    """What sort of model it is, as far as the error of a prediction depends on it.

    Parameters
    ----------
    model : the model

    Returns
    -------
    `hybrid` with layers that keep a state instead of a cache, else `latent` with latent attention,
    else `moe` with experts, else `dense`
    """
    mixing = {group.attention.kind for group in model.layers}
    if mixing & {"delta", "mamba2"}:
        return "hybrid"
    if mixing & {"mla", "compressed"}:
        return "latent"
    return "moe" if any(group.ffn.kind == "moe" for group in model.layers) else "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParameters:
    """Parameters of one layer by part [1]; `experts_active` are those a token passes through."""

    attention: float
    dense: float = 0.0
    experts: float = 0.0
    experts_active: float = 0.0
    shared: float = 0.0
    router: float = 0.0


def layer_parameters(group: LayerGroup, hidden: int) -> LayerParameters:
    """Matrix parameters of a layer; norms and biases (below 0.1 %) are left out.

    Parameters
    ----------
    group : the kind of layer
    hidden : hidden size [1]
    """
    mixing = sum(weight.parameters for weight in attention.projections(group.attention, hidden, 1))
    mixing += attention.other_parameters(group.attention)
    ffn = group.ffn
    if not isinstance(ffn, Moe):
        dense = sum(weight.parameters for weight in mlp(ffn, hidden, 1)) if isinstance(ffn, Dense) else 0.0
        return LayerParameters(attention=mixing, dense=dense)
    matrices, width = (3 if ffn.gated else 2), ffn.latent or hidden
    one = matrices * width * ffn.intermediate
    latent = 2 * hidden * ffn.latent if ffn.latent else 0
    return LayerParameters(
        attention=mixing,
        experts=ffn.experts * one,
        experts_active=routes(ffn) * one,
        shared=matrices * hidden * ffn.shared_intermediate + latent,
        router=hidden * ffn.experts,
    )


def parameters(model: Model) -> float:
    """All parameters, embedding and head included, multi-token-prediction layers not.

    Parameters
    ----------
    model : the model

    Returns
    -------
    parameters [1]
    """
    total = 0.0
    for group in model.layers:
        part = layer_parameters(group, model.hidden)
        total += group.count * (part.attention + part.dense + part.experts + part.shared + part.router)
    return total + embedding_parameters(model) + per_layer_parameters(model)


def embedding_parameters(model: Model) -> float:
    """Embedding tables and output head [1].

    Parameters
    ----------
    model : the model
    """
    own = model.hidden * model.vocab * (1 if model.tied_embeddings else 2)
    return own + model.vocab * model.layer_count * model.per_layer_embedding


def per_layer_parameters(model: Model) -> float:
    """Matrices that add each layer's own embedding [1].

    Parameters
    ----------
    model : the model
    """
    weights = per_layer_embedding(model.per_layer_embedding, model.hidden, 1)
    return model.layer_count * sum(weight.parameters for weight in weights)


def matmul_parameters(model: Model) -> float:
    """Parameters that one token is multiplied with, without embedding and head (W_lin).

    Parameters
    ----------
    model : the model

    Returns
    -------
    active parameters [1]
    """
    total = 0.0
    for group in model.layers:
        part = layer_parameters(group, model.hidden)
        total += group.count * (part.attention + part.dense + part.experts_active + part.shared + part.router)
    return total + per_layer_parameters(model)


def active_parameters(model: Model) -> float:
    """Parameters that one token is multiplied with, output head included.

    Parameters
    ----------
    model : the model

    Returns
    -------
    active parameters [1]
    """
    return matmul_parameters(model) + model.hidden * model.vocab


def weight_bytes(model: Model, precision: Precision) -> float:
    """Memory of all weights; embedding, head and routers are 16-bit in every format.

    Parameters
    ----------
    model : the model
    precision : format of each part

    Returns
    -------
    weights [byte]
    """
    total = 2.0 * (embedding_parameters(model) + per_layer_parameters(model))
    for group in model.layers:
        part = layer_parameters(group, model.hidden)
        total += group.count * (
            part.attention * WEIGHT_BYTES[precision.attention]
            + part.dense * WEIGHT_BYTES[precision.dense]
            + part.experts * WEIGHT_BYTES[precision.experts]
            + part.shared * WEIGHT_BYTES[precision.shared]
            + 2.0 * part.router
        )
    return total


@remembered
def gpu_weight_bytes(model: Model, precision: Precision, parallelism: Parallelism) -> float:
    """Weights on one GPU: experts are spread over all GPUs of a stage, the rest over its tp ranks.

    Parameters
    ----------
    model : the model
    precision : format of each part
    parallelism : degrees

    Returns
    -------
    weights of one GPU, stages taken as equal [byte]
    """
    size = WEIGHT_BYTES[precision.experts]
    experts = sum(group.count * layer_parameters(group, model.hidden).experts for group in model.layers) * size
    rest = weight_bytes(model, precision) - experts
    if precision.experts == "mxfp4":
        parts = ((group, layer_parameters(group, model.hidden).experts) for group in model.layers)
        experts = sum(group.count * held * _padding(group, parallelism) for group, held in parts) * size
    return (experts / parallelism.stage_gpus + rest / parallelism.tp) / parallelism.pp


def _padding(group: LayerGroup, parallelism: Parallelism) -> float:
    """What engines add to MXFP4 experts: their slices are filled up to a multiple of 256 (gpt-oss: 2,880 -> 3,072).

    Logs: 13.47 and 64.38 GiB of weights on one H100 where the checkpoints hold 12.8 and 60.7.
    """
    if not isinstance(group.ffn, Moe):
        return 1.0
    whole = group.ffn.intermediate * parallelism.ep / parallelism.stage_gpus
    return MXFP4_SLICE * math.ceil(whole / MXFP4_SLICE) / whole


def kv_bytes_per_token(model: Model, kv: str, tp: int = 1) -> float:
    """Cache that grows with every token of a long context, on one of tp ranks, all layers.

    Parameters
    ----------
    model : the model
    kv : KV format
    tp : tensor parallel degree [1]

    Returns
    -------
    bytes per token [byte]
    """
    return sum(group.count * attention.growth_bytes(group.attention, kv, tp) for group in model.layers)


def fixed_bytes_per_sequence(model: Model, kv: str, tp: int = 1) -> float:
    """Cache of a long sequence that does not grow: full windows, states, on one of tp ranks.

    Parameters
    ----------
    model : the model
    kv : KV format
    tp : tensor parallel degree [1]

    Returns
    -------
    bytes per sequence [byte]
    """
    return float(sequence_bytes(model, kv, tp, LONG) - LONG * kv_bytes_per_token(model, kv, tp))


def sequence_bytes(model: Model, kv: str, tp: int, s: Any) -> Any:
    """Cache and states of one sequence of s tokens on one of tp ranks, all layers.

    Parameters
    ----------
    model : the model
    kv : KV format
    tp : tensor parallel degree [1]
    s : context [token]

    Returns
    -------
    bytes [byte]
    """
    total: Any = 0.0
    for group in model.layers:
        total = total + group.count * attention.cache_bytes(group.attention, kv, tp, s)
    return total
