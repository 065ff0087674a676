"""One step of a deployment: its kernels, its expected time and its floor.

A step carries c prompt tokens (p of that prompt cached before) and one token, or 1 + drafts, for
each of b decodes at mean context s. The kernels fall into parts that depend on different numbers:
the token part on c + b, prompt attention on (c, p), decode attention on (b, s), the head on the
sampled rows. `StepTimer` remembers each part, so a search over c costs what really changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from chunkcalc import ops
from chunkcalc.frozen import dataclass
from chunkcalc.records import Deployment, Hardware, Kernel, LayerGroup, Overheads
from chunkcalc.time import roofline
from chunkcalc.time.roofline import Bound
from chunkcalc.time.steptimes import StepTimes
from chunkcalc.work import attention, elementwise, head, linear, link, moe
from chunkcalc.work.counts import kind

HOST_KNEE = 4.0  # how sharply a step passes from the GPU's time to the host's: see `with_host`
MOST_TIMERS = 512  # of the deployments that were asked about last


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step, timed: seconds, and what they go to.

    floor, expected : time no engine undercuts; time predicted [s]
    breakdown : expected time by class of work, adding up to `expected` [s]
    bound_by : expected time by what it is bound by: compute, memory, link or overhead [s]
    intensity : arithmetic per byte of memory traffic [FLOP/byte]
    """

    floor: float
    expected: float
    breakdown: Mapping[str, float]
    bound_by: Mapping[str, float]
    intensity: float

    @property
    def bottleneck(self) -> str:
        """What most of the time is bound by."""
        return max(self.bound_by, key=lambda name: self.bound_by[name])


def token_kernels(deployment: Deployment, group: LayerGroup, n: Any, n_all: Any, launches: Any) -> list[Kernel]:
    """Kernels of a kind of layer that depend only on how many tokens the step carries.

    Parameters
    ----------
    deployment : the replica
    group : the kind of layer
    n : tokens on this attention rank [token]
    n_all : tokens over all attention ranks [token]
    launches : layers of this kind [1]
    """
    out = linear.kernels(deployment, group, n, launches)
    if group.ffn.kind == "moe":
        out += moe.kernels(deployment, group, n, n_all, launches)
    out += elementwise.kernels(deployment, group, n, launches)
    return out + link.kernels(deployment, group, n, n_all, launches)


def added_time(
    layers: Any, decode_layer: Any, expert_layers: Any, expert_layer: Any, norm_layers: Any, norm_layer: Any, b: Any,
    sequence: Any, gateway: Any,
) -> Any:  # fmt: skip
    """What an engine adds to the kernels of a step.

    Parameters
    ----------
    layers : of the model [1]
    decode_layer : small kernels that are not counted, per layer [s]
    expert_layers : layers with experts [1]
    expert_layer : routing and sorting per such layer [s]
    norm_layers : layers that normalise queries and keys over the heads of all ranks [1]
    norm_layer : that exchange, per such layer [s]
    b : decoding requests [token]
    sequence : sampling and bookkeeping per decode [s]
    gateway : what stands between engine and client adds to every step [s]

    Returns
    -------
    time [s]
    """
    return layers * decode_layer + expert_layers * expert_layer + norm_layers * norm_layer + sequence * b + gateway


def with_host(gpu: Any, host: Any) -> Any:
    """A step while the host launches it: the GPU waits where the host is slower.

    Parameters
    ----------
    gpu : what the GPU needs [s]
    host : what the host needs to launch it [s]

    Returns
    -------
    time [s]

    Notes
    -----
    The q-norm of the two: over 39 public pairs of steps with and without captured graphs q = 4 leaves 10.9 %
    (MAPE), their sum 15.7, their maximum 11.0.
    """
    return ops.qsum(gpu, host, HOST_KNEE)


class StepTimer:
    """Times the steps of one deployment; b and c are those of one attention rank.

    `expected` is the predicted time, `floor` the time that no engine undercuts: the busiest resource
    at datasheet speed. Both are `StepTimes`.

    Parameters
    ----------
    deployment : the replica
    drafts : speculative tokens per decode and step [token]
    host : as inside the engine; without it, kernels alone as they were measured
    """

    def __init__(self, deployment: Deployment, drafts: int = 0, *, host: bool = True) -> None:
        self.deployment, self.drafts = deployment, drafts
        self._overheads = deployment.engine.overheads if host else Overheads()
        self._hardware = roofline.served(deployment.hardware, self._overheads, deployment.engine.name)
        self._unified = deployment.engine.attention == "unified"
        groups = deployment.model.layers
        self._layers = deployment.model.layer_count
        self._expert_layers = sum(group.count for group in groups if group.ffn.kind == "moe")
        spread = deployment.parallelism.tp > 1
        self._norm_layers = sum(
            group.count for group in groups if spread and getattr(group.attention, "norm_all", False)
        )
        each = self._overheads
        self._launched = self._layers * float(getattr(each, f"host_{kind(deployment.model)}"))
        self._replayed = min(self._launched, self._layers * each.host_graph)
        self.expected = StepTimes(self._rest_times, self._prefill_seconds, _expected)
        self.floor = StepTimes(self._rest_bound, self._prefill_bound, _busiest)

    @property
    def hardware(self) -> Hardware:
        """The GPU as the kernels of these steps see it."""
        return self._hardware

    def overhead(self, c: Any, b: Any) -> Any:
        """What the engine adds to the kernels of a step: small kernels, routing, bookkeeping.

        Parameters
        ----------
        c : prompt tokens [token]
        b : decoding requests [token]

        Returns
        -------
        time [s]
        """
        each = self._overheads
        return added_time(
            self._layers, each.decode_layer, self._expert_layers, each.expert_layer, self._norm_layers,
            each.norm_layer, b, each.sequence, each.gateway,
        )  # fmt: skip

    def gpu(self, c: Any, p: Any, b: Any, s: Any, prompts: Any = 1) -> Any:
        """What the GPU needs for a step, whatever its host does.

        Parameters
        ----------
        c, p, b, s, prompts : as of a step

        Returns
        -------
        time [s]
        """
        rest, prefill = self.expected.parts(c, p, b, s, prompts)
        return rest[0] + prefill

    def host(self, c: Any, b: Any) -> Any:
        """What the host needs to launch a step: nothing where one captured graph holds all of it.

        Parameters
        ----------
        c : prompt tokens [token]
        b : decoding requests [token]

        Returns
        -------
        time [s]
        """
        engine = self.deployment.engine
        beyond = ops.positive(c + b * (1 + self.drafts) - engine.captured)
        replayed = self._replayed + beyond * (self._launched - self._replayed)
        return ops.positive(c) * replayed if not engine.eager else self._launched

    @cached_property
    def uncalibrated(self) -> tuple[str, ...]:
        """Kernel forms of this deployment that run on generic constants."""
        kernels = self.kernels(1, 0, 1, 1)
        used = {kernel.form if kernel.form == "allreduce" else f"{kernel.form}.{kernel.dtype}" for kernel in kernels}
        return tuple(sorted(used & self._hardware.generic))

    def step(self, c: float, p: float, b: float, s: float, prompts: float = 1) -> Step:
        """A step with its breakdown.

        Parameters
        ----------
        c : prompt tokens [token]
        p : tokens of each of their prompts cached before [token]
        b : decoding requests [token]
        s : their mean context [token]
        prompts : prompts that share the c tokens, at least 1 [1]
        """
        breakdown: dict[str, float] = {}
        overhead = float(self.overhead(c, b))
        bound_by = {"compute": 0.0, "memory": 0.0, "link": 0.0, "overhead": overhead}
        flops = traffic = 0.0
        for kernel in self.kernels(c, p, b, s, prompts):
            time = roofline.seconds(kernel, self._hardware)
            if time > 0:
                breakdown[kernel.name] = breakdown.get(kernel.name, 0.0) + time
                bound_by[_bound_by(kernel, self._hardware)] += time
            flops += kernel.launches * kernel.flops
            traffic += kernel.launches * kernel.bytes
        expected = self.expected(c, p, b, s, prompts)
        idle = max(0.0, expected - sum(breakdown.values()) - overhead)  # the GPU waits for the host
        breakdown["engine overhead"] = overhead + idle
        bound_by["overhead"] += idle
        return Step(
            floor=self.floor(c, p, b, s, prompts),
            expected=expected,
            breakdown=breakdown,
            bound_by=bound_by,
            intensity=flops / traffic if traffic else 0.0,
        )

    def kernels(self, c: Any, p: Any, b: Any, s: Any, prompts: Any = 1) -> list[Kernel]:
        """The kernels of a step; MLA attends to the prompt in the cheaper of its two forms.

        Parameters
        ----------
        c : prompt tokens [token]
        p : tokens of each of their prompts cached before [token]
        b : decoding requests [token]
        s : their mean context [token]
        prompts : prompts that share the c tokens, at least 1 [1]
        """
        out = self._rest_kernels(c, b, s, expected=True)
        for group in self.deployment.model.layers:
            forms = self._prefill_forms(group, c, p, prompts)
            out += min(forms, key=lambda form: float(self._seconds(form)))
        return out

    def _seconds(self, kernels: Iterable[Kernel]) -> Any:
        hardware = self._hardware
        return sum(roofline.seconds(kernel, hardware) for kernel in kernels)

    def _rest_times(self, c: Any, b: Any, s: Any) -> tuple[Any, Any]:
        """Everything but attention to the prompt, on the GPU; and what the host needs."""
        gpu = self._seconds(self._rest_kernels(c, b, s, expected=True)) + self.overhead(c, b)
        return gpu, self.host(c, b)

    def _rest_bound(self, c: Any, b: Any, s: Any) -> Bound:
        return _total(self._rest_kernels(c, b, s, expected=False), self._hardware)

    def _rest_kernels(self, c: Any, b: Any, s: Any, expected: bool) -> list[Kernel]:
        deployment, drafts = self.deployment, self.drafts
        dp = deployment.parallelism.dp
        n = c + b * (1 + drafts)
        # Expected: every attention rank carries a chunk at once. Floor: only this one does.
        n_all = dp * n if expected else c + dp * b * (1 + drafts)
        unified = expected and self._unified
        out: list[Kernel] = []
        for group in deployment.model.layers:
            out += token_kernels(deployment, group, n, n_all, group.count)
            decodes = group.count * ops.positive(b)
            if unified:
                joint = decodes * ops.positive(c)
                out += attention.decode_kernels(deployment, group.attention, b, s, drafts, joint, unified=True)
                decodes = decodes - joint
            out += attention.decode_kernels(deployment, group.attention, b, s, drafts, decodes)
        # A chunk samples a token only where a prompt ends; the floor leaves that row out.
        sampled = b * (1 + drafts) + (ops.positive(c) if expected else 0)
        out += head.kernels(deployment, sampled, ops.positive(sampled))
        out += link.handover(deployment, n)
        return out + self._draft_kernels(b, s) if expected and drafts else out

    def _draft_kernels(self, b: Any, s: Any) -> list[Kernel]:
        """Each draft token costs one pass through one more layer and the head (EAGLE, MTP)."""
        deployment, launches = self.deployment, self.drafts * ops.positive(b)
        group = deployment.model.layers[-1]
        out = token_kernels(deployment, group, b, deployment.parallelism.dp * b, launches)
        out += attention.decode_kernels(deployment, group.attention, b, s, 0, launches)
        return out + head.kernels(deployment, b, launches)

    def _prefill_forms(self, group: LayerGroup, c: Any, p: Any, prompts: Any) -> list[list[Kernel]]:
        launches = group.count * ops.positive(c)
        return attention.prefill_forms(self.deployment, group.attention, c, p, prompts, launches)

    def _prefill_seconds(self, c: Any, p: Any, prompts: Any) -> Any:
        total = 0.0
        for group in self.deployment.model.layers:
            times = [self._seconds(form) for form in self._prefill_forms(group, c, p, prompts)]
            total = total + (times[0] if len(times) == 1 else ops.minimum(*times))
        return total

    def _prefill_bound(self, c: Any, p: Any, prompts: Any) -> Bound:
        """The least each resource is held by the cheaper form, resource by resource."""
        total = Bound()
        for group in self.deployment.model.layers:
            bounds = [_total(form, self._hardware) for form in self._prefill_forms(group, c, p, prompts)]
            least = bounds[0] if len(bounds) == 1 else Bound(*(ops.minimum(x, y) for x, y in zip(*bounds, strict=True)))
            total = Bound(*(x + y for x, y in zip(total, least, strict=True)))
        return total


_timers: dict[Any, StepTimer] = {}


def timer_for(deployment: Deployment, drafts: int = 0) -> StepTimer:
    """The timer of a deployment: the same one for all that take the same steps, with what it remembers.

    Parameters
    ----------
    deployment : the replica
    drafts : speculative tokens per decode and step [token]
    """
    model, hardware, engine = deployment.model, deployment.hardware, deployment.engine
    key = (
        id(model), id(hardware), deployment.parallelism, deployment.precision, engine.overheads, engine.attention,
        engine.captured, engine.eager, engine.name, deployment.narrowed, drafts,
    )  # fmt: skip
    found = _timers.pop(key, None) or StepTimer(deployment, drafts)  # it keeps the records, and with them their ids
    while len(_timers) >= MOST_TIMERS:
        del _timers[next(iter(_timers))]
    _timers[key] = found
    return found


def _expected(rest: tuple[Any, Any], prefill: Any) -> Any:
    gpu, host = rest[0] + prefill, rest[1]
    return gpu if type(host) in (float, int) and not host else with_host(gpu, host)


def _busiest(rest: Bound, prefill: Bound) -> Any:
    compute, memory, link = rest
    more_compute, more_memory, more_link = prefill
    return ops.maximum(ops.maximum(compute + more_compute, memory + more_memory), link + more_link)


def _total(kernels: list[Kernel], hardware: Any) -> Bound:
    bounds = [roofline.bound(kernel, hardware) for kernel in kernels]
    return Bound(*(sum(times) for times in zip(*bounds, strict=True))) if bounds else Bound()


def _bound_by(kernel: Kernel, hardware: Any) -> str:
    """The resource that takes most of a kernel's time; its launch counts as overhead."""
    if kernel.form in ("allreduce", "handover"):
        return "link"
    launch = hardware.efficiency[f"{kernel.form}.{kernel.dtype}"].latency
    if launch * kernel.launches > roofline.seconds(kernel, hardware) / 2:
        return "overhead"
    held = roofline.bound(kernel._replace(least_flops=kernel.flops, least_bytes=kernel.bytes), hardware)
    return "compute" if held.compute >= held.memory else "memory"
