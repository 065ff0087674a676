"""What the letters of the equations stand for in one answer."""

from __future__ import annotations

from chunkcalc.answer.judged import outlook
from chunkcalc.answer.records import Answer
from chunkcalc.derivation import symbolic, term_by_term
from chunkcalc.records import KV_BYTES, WEIGHT_BYTES, Gqa, Kernel, Moe
from chunkcalc.textbook import equations
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.time import roofline
from chunkcalc.time.step import timer_for
from chunkcalc.work import counts

ATTENTION = frozenset(("prefill_attention", "mla_prefill", "mla_absorb", "mla_sparse"))  # forms whose work is pairs
WHY_NOT = {
    "E3": "its attention is of several kinds: see E3b", "E3b": "every layer has full attention: see E3",
    "E10": "give --tpot", "E11": "give a --ttft that the whole prompt in one step keeps by the textbook",
    "E12": "it needs both limits, and a --ttft that the textbook can meet", "C1": "no layer sees the whole context",
    **dict.fromkeys(("C2a", "C2b", "C2"), "it holds for dense models with full attention below the ridge"),
    "C3": "the model has no experts", "C5": "a single GPU sends none",
    "C6": "nothing decodes, or prompts go first", "C7a": "no layer has a window",
    "C7": "no layer has a window", "C9": "give --draft-tokens",
}  # fmt: skip


class Letters:
    """The letters of one answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer, deployment = answer, answer.case.deployment
        self.model, self.workload, self.parallelism = deployment.model, answer.workload, deployment.parallelism
        self.forms = ClosedForms(deployment, answer.workload)
        timer = self.timer = timer_for(deployment, self.workload.draft_tokens)
        self.hardware = timer.hardware
        self.service = outlook(deployment, self.workload, answer.slo, timer).expected
        self.longest = self.service.prefill.longest(answer.chunk)
        self.kernels = [kernel for kernel in timer.kernels(*self.longest) if kernel.launches]
        self._shared = self._of_the_textbook()

    def _of_the_textbook(self) -> dict[str, float]:
        answer, forms, c = self.answer, self.forms, self.answer.chunk
        flops = equations.step_flops(c, forms.b, forms.psi)
        known = {
            "c": c, "b": forms.b, "s": self.workload.context, "Psi": forms.psi, "s_Psi": forms.weights / forms.psi,
            "s_kv": KV_BYTES[answer.case.deployment.precision.kv], "one": forms.sequence, "flops": flops,
            "weight_traffic": forms.weights,
            "kv_traffic": forms.kv, "I_star": forms.ridge, "P": forms.P, "B": forms.B,
            "t_compute": equations.compute_time(flops, forms.P), "t_memory": forms.t_memory, "t_step": forms.step(c),
            "s_p": forms.tokens, "k": equations.chunk_count(forms.tokens, c), "tpot": answer.slo.tpot,
            "ttft": answer.slo.ttft,
        }  # fmt: skip
        return {name: value for name, value in known.items() if value is not None}

    @property
    def full(self) -> Gqa | None:
        """The attention of a model that has full attention of one kind in every layer."""
        kinds = {group.attention for group in self.model.layers}
        kind = next(iter(kinds))
        if len(kinds) > 1 or not isinstance(kind, Gqa):
            return None
        cut = kind.window or kind.chunk or kind.top_k or kind.shares_kv or kind.v_head_dim not in (None, kind.head_dim)
        return None if cut else kind

    @property
    def experts(self) -> Moe | None:
        """The first mixture of experts."""
        return next((group.ffn for group in self.model.layers if isinstance(group.ffn, Moe)), None)

    @property
    def cache_per_token(self) -> float:
        """KV cache per token of context on all GPUs together, each row counted once [byte]."""
        return counts.kv_bytes_per_token(self.model, self.answer.case.deployment.precision.kv)

    @property
    def mixed(self) -> bool:
        """Whether decodes ride along with prompt chunks."""
        return self.service.mixed

    @property
    def prompts(self) -> float:
        """Prompts that share the longest step [1]."""
        return float(self.longest[4])

    @property
    def whole_context(self) -> bool:
        """Whether some layer attends to the whole context."""
        kinds = [group.attention for group in self.model.layers]
        cuts = ("window", "chunk", "top_k")
        return any(kind.kind in ("gqa", "mla") and not any(getattr(kind, cut, None) for cut in cuts) for kind in kinds)

    def textbook_keys(self) -> list[str]:
        """The published equations that this question has numbers for."""
        cache = "E3b" if self.full is None else "E3"
        out = ["E1", "E2", cache, "E4", "E5", "E6", "E7a", "E7b", "E7", "E8", "E9a", "E9"]
        out += ["E10"] if "tpot" in self._shared else []
        out += ["E11"] if self._shared.get("ttft", 0.0) >= self.whole_prompt else []
        return out + (["E12"] if {"E10", "E11"} <= set(out) else [])

    @property
    def whole_prompt(self) -> float:
        """TTFT of a prompt in one step by the textbook, below which no chunk brings it [s]."""
        return self.forms.ttft(self.forms.tokens)

    def correction_keys(self) -> list[str]:
        """The corrections that have a part in this deployment."""
        dense = self.full is not None and self.experts is None and self._attention_terms()["g"] < 0
        windowed = self.window is not None
        present = {
            "C1": self.whole_context, "C2a": dense, "C2b": dense, "C2": dense, "C3": self.experts is not None,
            "C4": True, "C5": any(kernel.form == "allreduce" for kernel in self.kernels),
            "C6": self.mixed and self.workload.batch > 0 and self.workload.output > 1, "C7a": windowed, "C7": windowed,
            "C8": True, "C9": self.workload.draft_tokens > 0, "C10": self._launching()["host"] > 0,
        }  # fmt: skip
        return [key for key, holds in present.items() if holds]

    def of(self, key: str) -> dict[str, float]:
        """The letters of an equation by name."""
        own = {
            "E3": self._cache, "E9a": self._bound, "E9": self._bound, "E12": self._ends, "C1": self._pairs,
            "C2a": self._attention, "C2b": self._attention, "C2": self._attention_terms, "C3": self._routing,
            "C4": self._product, "C5": self._message, "C6": self._balance, "C7a": self._windowed,
            "C7": self._windowed, "C8": self._host, "C9": self._drafts, "C10": self._launching,
        }.get(key)  # fmt: skip
        values = self._shared | (own() if own else {})
        return {name: values[name] for name in symbolic.EQUATIONS[key].letters}

    def _cache(self) -> dict[str, float]:
        kind = self.full
        assert kind is not None
        return {"layers": self.model.layer_count, "kv_heads": kind.kv_heads, "head_dim": kind.head_dim}

    def _bound(self) -> dict[str, float]:
        """A chunk carries no more than the prompt."""
        c = min(self.answer.chunk, self.forms.tokens)
        return {"c": c, "t_step": self.forms.step(c)}

    def _ends(self) -> dict[str, float]:
        return {name: float(symbolic.value(key, self.of(key))) for name, key in (("c_min", "E11"), ("c_max", "E10"))}

    def _pairs(self) -> dict[str, float]:
        """One prompt's share of the longest step."""
        return {"c": float(self.longest[0]) / self.prompts, "p": float(self.longest[1])}

    def _attention(self) -> dict[str, float]:
        kind, model = self.full, self.model
        assert kind is not None
        b = self.forms.b if self.mixed else 0.0
        linear, head = counts.matmul_parameters(model), model.vocab * model.hidden
        weights = linear * WEIGHT_BYTES[self.answer.case.deployment.precision.dense] + head * WEIGHT_BYTES["bf16"]
        pair = 4.0 * kind.heads * kind.head_dim * model.layer_count
        return {"W_lin": linear, "weight_traffic": weights / self.parallelism.dp, "head_flops": 2 * head * b, "a": pair,
                "kappa": self.cache_per_token, "p": float(self.longest[1]), "b": b}  # fmt: skip

    def _attention_terms(self) -> dict[str, float]:
        found = self._shared | self._attention()
        both = {"h": "C2a", "g": "C2b"}
        return {**found, **{name: float(symbolic.value(key, found)) for name, key in both.items()}}

    def _routing(self) -> dict[str, float]:
        moe = self.experts
        assert moe is not None
        tokens = self.longest[0] + self.longest[2] * (1 + self.workload.draft_tokens)
        return {"E": moe.experts, "k": moe.top_k, "n": self.parallelism.dp * tokens}

    def largest_product(self) -> Kernel:
        """The product that takes most of the step."""
        products = [kernel for kernel in self.kernels if kernel.form in term_by_term.PRODUCTS]
        return max(products, key=lambda kernel: float(roofline.seconds(kernel, self.hardware)))

    def _product(self) -> dict[str, float]:
        kernel = self.largest_product()
        x, y = (term_by_term.side(kernel, self.hardware, name) for name in ("compute", "memory"))
        return {"x": x, "y": y, "q": self.hardware.efficiency[f"{kernel.form}.{kernel.dtype}"].knee}

    def messages(self) -> list[Kernel]:
        """The messages between the GPUs of a layer, the largest first."""
        found = [kernel for kernel in self.kernels if kernel.form == "allreduce"]
        return sorted(found, key=lambda kernel: -float(kernel.launches * kernel.link_bytes))

    def _message(self) -> dict[str, float]:
        kernel = self.messages()[0]
        fit = roofline.allreduce_fit(self.hardware, kernel.group)
        return {"message": kernel.link_bytes, "latency": fit.latency, "link": fit.bandwidth, "ramp": fit.ramp}

    @property
    def window(self) -> int | None:
        """The first window, or number of selected keys, of the model's layers [token]."""
        kinds = [group.attention for group in self.model.layers]
        found = (getattr(kind, "window", None) or getattr(kind, "top_k", None) for kind in kinds)
        return next((size for size in found if size), None)

    def _windowed(self) -> dict[str, float]:
        found = {**self._pairs(), "w": float(self.window or 0)}
        return {**found, "n_g": float(symbolic.value("C7a", found))}

    def _host(self) -> dict[str, float]:
        each, groups = self.answer.case.deployment.engine.overheads, self.model.layers
        experts = sum(group.count for group in groups if group.ffn.kind == "moe")
        wide = sum(group.count for group in groups if getattr(group.attention, "norm_all", False))
        b = self.longest[2]
        return {"layers": self.model.layer_count, "decode_layer": each.decode_layer,
                "expert_layers": experts, "expert_layer": each.expert_layer, "b": b, "sequence": each.sequence,
                "norm_layers": wide if self.parallelism.tp > 1 else 0, "norm_layer": each.norm_layer,
                "gateway": each.gateway}  # fmt: skip

    def _launching(self) -> dict[str, float]:
        c, _, b, *_ = self.longest
        return {"gpu": float(self.timer.gpu(*self.longest)), "host": float(self.timer.host(c, b))}

    def _drafts(self) -> dict[str, float]:
        return {"gamma": self.workload.draft_tokens, "chance": self.workload.draft_acceptance}

    def _balance(self) -> dict[str, float]:
        b = self.workload.batch / (self.parallelism.dp * self.parallelism.pp)
        return {"b": b, "A": self.service.accepted, "s_eff": self.answer.prompt_tokens, "o": self.workload.output}
