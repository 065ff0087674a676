"""What each letter of the equations stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Quantity(NamedTuple):
    """A letter of the equations.

    symbol : as text
    tex : as LaTeX
    unit : as docstrings write it
    meaning : in words
    """

    symbol: str
    tex: str
    unit: str
    meaning: str


# By the name that the code gives it.
NOMENCLATURE: Mapping[str, Quantity] = {
    "c": Quantity("c", "c", "token", "chunk: prompt tokens of a step on one attention rank"),
    "p": Quantity("p", "p", "token", "prompt tokens in the KV cache before the chunk"),
    "b": Quantity("b", "b", "token", "decoding requests of the step, one token each"),
    "s": Quantity("s", "s", "token", "mean context of the decodes"),
    "s_p": Quantity("s_p", "s_p", "token", "prompt"),
    "o": Quantity("o", "o", "token", "output of a request"),
    "k": Quantity("k", "k", "1", "chunks of a prompt (E8); experts per token (C3)"),
    "Psi": Quantity("Ψ", r"\Psi", "1", "parameters of the model"),
    "s_Psi": Quantity("s_Ψ", r"s_\Psi", "byte", "bytes per parameter"),
    "s_kv": Quantity("s_kv", r"s_{kv}", "byte", "bytes per element of the KV cache"),
    "layers": Quantity("L", "L", "1", "layers"),
    "kv_heads": Quantity("n_kv", r"n_{kv}", "1", "KV heads"),
    "head_dim": Quantity("d_h", r"d_h", "1", "head dimension"),
    "flops": Quantity("F", "F", "FLOP", "arithmetic of the step (E1)"),
    "weight_traffic": Quantity("M_w", r"M_w", "byte", "weights read by the step (E2)"),
    "kv_traffic": Quantity("M_kv", r"M_{kv}", "byte", "KV cache read by the decodes (E3)"),
    "one": Quantity("M_1", "M_1", "byte", "cache of one sequence at the mean context"),
    "I_star": Quantity("I*", r"I^{*}", "FLOP/byte", "ridge point (E5)"),
    "P": Quantity("P", "P", "FLOP/s", "peak arithmetic of the unit"),
    "B": Quantity("B", "B", "byte/s", "memory bandwidth of the unit"),
    "t_compute": Quantity("t_c", r"t_c", "s", "time of the arithmetic (E7a)"),
    "t_memory": Quantity("t_m", r"t_m", "s", "time of the traffic (E7b)"),
    "t_step": Quantity("t", "t", "s", "time of the step (E7)"),
    "tpot": Quantity("TPOT", r"\mathrm{TPOT}", "s", "limit of the time per output token"),
    "ttft": Quantity("TTFT", r"\mathrm{TTFT}", "s", "limit of the time to first token"),
    "c_min": Quantity("c_min", r"c_{\min}", "token", "smallest chunk within TTFT (E11)"),
    "c_max": Quantity("c_max", r"c_{\max}", "token", "largest chunk within TPOT (E10)"),
    "W_lin": Quantity("W", "W", "1", "matmul parameters touched per token, without embedding and head"),
    "head_flops": Quantity("F_h", r"F_h", "FLOP", "arithmetic of the output head"),
    "a": Quantity("a", "a", "FLOP", "attention arithmetic per query and key, all layers"),
    "kappa": Quantity("κ", r"\kappa", "byte", "KV cache per token of context, all layers"),
    "h": Quantity("h", "h", "FLOP", "arithmetic of a first prompt token beyond the ridge (C2a)"),
    "g": Quantity("g", "g", "FLOP", "arithmetic of the decodes beyond the ridge (C2b)"),
    "E": Quantity("E", "E", "1", "experts of a layer"),
    "n": Quantity("n", "n", "token", "tokens of the step"),
    "x": Quantity("x", "x", "s", "a kernel's arithmetic at the fraction of peak it reaches"),
    "y": Quantity("y", "y", "s", "its traffic at the fraction of bandwidth it reaches"),
    "q": Quantity("q", "q", "1", "knee exponent that joins the two"),
    "message": Quantity("m", "m", "byte", "message of an all-reduce"),
    "latency": Quantity("α", r"\alpha", "s", "latency of an all-reduce"),
    "link": Quantity("B_l", r"B_l", "byte/s", "bandwidth that an all-reduce reaches"),
    "ramp": Quantity("ρ", r"\rho", "s", "time that builds up over the first megabyte of a message"),
    "w": Quantity("w", "w", "token", "keys that a query sees at most"),
    "n_g": Quantity("n_g", "n_g", "token", "queries of a chunk that see fewer keys than that (C7a)"),
    "decode_layer": Quantity("τ_l", r"\tau_l", "s", "small kernels that are not counted, per layer"),
    "expert_layers": Quantity("L_x", "L_x", "1", "layers with experts"),
    "expert_layer": Quantity("τ_x", r"\tau_x", "s", "routing per layer with experts"),
    "norm_layers": Quantity("L_n", "L_n", "1", "layers whose norm runs over all ranks"),
    "norm_layer": Quantity("τ_n", r"\tau_n", "s", "that norm's exchange per layer"),
    "sequence": Quantity("τ_b", r"\tau_b", "s", "sampling and bookkeeping per decode"),
    "gateway": Quantity("τ_g", r"\tau_g", "s", "what stands between engine and client adds to a step"),
    "gpu": Quantity("t_g", "t_g", "s", "what the GPU needs for a step"),
    "host": Quantity("t_h", "t_h", "s", "what the host needs to launch it"),
    "gamma": Quantity("γ", r"\gamma", "token", "draft tokens per step"),
    "chance": Quantity("a_d", "a_d", "1", "chance that a draft token holds"),
    "A": Quantity("A", "A", "token", "tokens that a decode yields per step"),
    "s_eff": Quantity("s_e", r"s_e", "token", "prompt tokens that are not cached"),
}
