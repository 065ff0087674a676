"""What an engine adds to the kernels of a step, and what it spares them."""

from dataclasses import replace

import pytest

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.profiles import SCALED
from chunkcalc.engines import NORM_FUSED, engine_for
from chunkcalc.records import Efficiency, Overheads
from chunkcalc.time.roofline import NARROW_EXPERTS, served
from chunkcalc.time.service import request_overhead
from chunkcalc.time.step import HOST_KNEE, StepTimer, with_host
from tests.deployments import deployment

H100 = load_hardware("h100-sxm").record


def timer(model="llama-3.1-8b", drafts=0, captured=512, gpu="h100-sxm", tp=1, **overheads):
    """A step whose engine adds these overheads and nothing else."""
    found = deployment(model, gpu, tp=tp)
    engine = replace(found.engine, captured=captured, overheads=Overheads(**overheads))
    return StepTimer(replace(found, engine=engine), drafts)


def test_the_host_launches_what_no_graph_holds():
    step = timer(host_dense=3e-4, host_graph=1e-4)
    assert step.host(0, 1) == step.host(0, 4096) == 0, "decode steps run from one graph"
    assert step.host(480, 32) == pytest.approx(32 * 1e-4), "512 tokens fit the largest graphs, layer by layer"
    assert step.host(481, 32) == step.host(8192, 0) == pytest.approx(32 * 3e-4)


def test_drafts_count_among_the_tokens_of_a_captured_step():
    step = timer(drafts=3, host_dense=3e-4, host_graph=1e-4)
    assert step.host(384, 32) == pytest.approx(32 * 1e-4)
    assert step.host(385, 32) == pytest.approx(32 * 3e-4)


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_engines_without_such_graphs_launch_every_prompt_step(engine):
    assert deployment(engine=engine).engine.captured == 0
    step = timer(captured=0, host_dense=3e-4, host_graph=1e-4)
    assert step.host(1, 0) == pytest.approx(32 * 3e-4)
    assert step.host(0, 1) == 0


def test_without_graphs_the_host_launches_decodes_too():
    found = timer(captured=0, host_dense=3e-4).deployment
    eager = StepTimer(replace(found, engine=replace(found.engine, eager=True)))
    assert eager.host(0, 1) == eager.host(100, 1) == pytest.approx(32 * 3e-4)
    assert eager.expected(0, 0, 1, 100) > StepTimer(found).expected(0, 0, 1, 100)


def test_a_replayed_layer_never_takes_more_than_a_launched_one():
    assert timer(host_dense=1e-4, host_graph=3e-4).host(100, 0) == pytest.approx(32 * 1e-4)


@pytest.mark.parametrize(
    ("model", "kind"),
    [("llama-3.1-8b", "dense"), ("qwen3-30b-a3b", "moe"), ("deepseek-v3", "latent"), ("qwen3-next-80b-a3b", "hybrid")],
)
def test_each_kind_of_model_has_a_host_of_its_own(model, kind):
    step = timer(model, captured=0, gpu="h200-sxm", tp=4, **{f"host_{kind}": 3e-4})
    assert step.host(1, 0) == pytest.approx(step.deployment.model.layer_count * 3e-4)


@pytest.mark.parametrize("c", [32, 600, 5000, 60_000])
def test_the_host_runs_beside_the_gpu(c):
    step = timer(captured=0, host_dense=1e-3)
    gpu, host = step.gpu(c, 0, 0, 1), step.host(c, 0)
    assert max(gpu, host) <= step.expected(c, 0, 0, 1) <= gpu + host
    assert step.expected(c, 0, 0, 1) <= 2 ** (1 / HOST_KNEE) * max(gpu, host) * (1 + 1e-12)


def test_a_published_pair_of_steps_with_and_without_graphs():
    # Qwen3-4B, 129 and 513 tokens: 16.6 and 16.4 ms launched by the host, 5.7 and 13.7 from graphs (host_paced.csv).
    for captured, eager in ((5.685, 16.613), (13.729, 16.371)):
        assert with_host(captured, 15.5) == pytest.approx(eager, rel=0.11)


def test_each_decode_is_sampled():
    step = timer(sequence=3e-6)
    assert step.overhead(0, 64) == pytest.approx(64 * 3e-6)
    assert step.overhead(1000, 64) == pytest.approx(64 * 3e-6)


def test_experts_are_routed_in_their_layers_only():
    dense, sparse = (timer(name, gpu="h200-sxm", expert_layer=2e-5) for name in ("llama-3.1-8b", "deepseek-v3"))
    assert dense.overhead(100, 1) == 0
    assert sparse.overhead(0, 1) == pytest.approx(58 * 2e-5), "three of 61 layers are dense"


def test_latent_attention_costs_time_once_per_request_and_none_per_step():
    latent, plain = (timer(name, gpu="h200-sxm", latent_request=1e-3) for name in ("deepseek-v3", "qwen3-30b-a3b"))
    assert latent.overhead(1, 16) == 0
    assert request_overhead(latent.deployment, 1000) == pytest.approx(61 * 1e-3)
    assert request_overhead(plain.deployment, 1000) == 0


def test_a_norm_over_all_heads_costs_only_where_ranks_share_them():
    alone, spread = (timer("minimax-m2", gpu="h200-sxm", tp=tp, norm_layer=3e-5) for tp in (1, 4))
    layers = alone.deployment.model.layer_count
    assert alone.overhead(0, 1) == 0
    assert spread.overhead(0, 1) == pytest.approx(layers * 3e-5)
    assert timer("qwen3-32b", tp=4, norm_layer=3e-5).overhead(0, 1) == 0, "it normalises each head by itself"


def test_what_the_gpu_waits_is_the_engine_s():
    step = timer("qwen3-30b-a3b", captured=0, host_moe=1.4e-3)
    found = step.step(100, 0, 0, 1)
    assert sum(found.breakdown.values()) == pytest.approx(found.expected) == pytest.approx(step.expected(100, 0, 0, 1))
    assert found.breakdown["engine overhead"] > found.expected / 2
    assert found.bottleneck == "overhead"
    long = step.step(60_000, 0, 0, 1)
    assert long.breakdown["engine overhead"] < 0.01 * long.expected


def test_kernels_alone_have_no_host():
    found = deployment()
    kernels = StepTimer(found, host=False)
    assert kernels.overhead(1000, 64) == 0
    assert kernels.expected(1000, 0, 64, 2000) == pytest.approx(sum(kernels.step(1000, 0, 64, 2000).breakdown.values()))
    assert StepTimer(found).expected(1000, 0, 64, 2000) > kernels.expected(1000, 0, 64, 2000)


def test_a_request_pays_once_and_for_each_prompt_token():
    found = deployment()
    engine = replace(found.engine, overheads=Overheads(request=0.01, prompt_token=1e-5))
    assert request_overhead(replace(found, engine=engine), 4000) == pytest.approx(0.05)


ALONE = Efficiency(compute=0.8, memory=0.6, latency=1e-5, activations=2.0)
KEYS = ("gemm.fp8", "moe.fp8", "moe.nvfp4", "decode_attention.bf16", "prefill_attention.bf16", "elementwise.bf16")
MEASURED = replace(H100, efficiency=dict.fromkeys(KEYS, ALONE))


def inside(key, **overheads):
    """The constants of a kernel inside the step of an engine with these overheads."""
    return served(MEASURED, Overheads(**overheads)).efficiency[key]


def test_without_overheads_a_gpu_is_as_it_was_measured():
    assert served(MEASURED, Overheads()) is MEASURED


def test_captured_launches_leave_a_share_of_their_fixed_time():
    for key in KEYS:
        wanted = 1e-5 if key.startswith("moe") else 0.6e-5
        assert inside(key, launches=0.6).latency == pytest.approx(wanted), key


def test_experts_in_4_bit_run_as_one_kernel():
    assert {key for key in KEYS if key in NARROW_EXPERTS} == {"moe.nvfp4"}
    assert inside("moe.nvfp4", narrow_expert_launches=0.3).latency == pytest.approx(0.3e-5)
    assert inside("moe.fp8", narrow_expert_launches=0.3).latency == ALONE.latency


def test_what_slows_some_kernels_leaves_the_others_alone():
    slower = inside("moe.fp8", experts=1.25)
    assert (slower.compute, slower.memory) == pytest.approx((0.64, 0.48))
    assert inside("gemm.fp8", experts=1.25) == ALONE
    assert inside("decode_attention.bf16", cache=0.5).memory == pytest.approx(0.3)
    assert inside("prefill_attention.bf16", cache=0.5) == ALONE
    assert inside("gemm.fp8", quantising=0.0).activations == 0
    assert inside("prefill_attention.bf16", quantising=0.0) == ALONE
    assert [inside(key, arithmetic=2.0).compute for key in KEYS] == pytest.approx([0.4] * len(KEYS))


def test_no_kernel_becomes_faster_than_the_datasheet():
    for key in KEYS:
        found = inside(key, experts=0.5, arithmetic=0.5, cache=3.0)
        assert found.compute <= 1
        assert found.memory <= 1


def test_newer_vllm_normalises_over_the_ranks_in_one_kernel():
    before, after = (engine_for("vllm", H100, version) for version in ("0.17.0", NORM_FUSED))
    assert H100.overheads["vllm"].norm_layer > 0
    assert before.overheads == H100.overheads["vllm"]
    assert after.overheads == before.overheads._replace(norm_layer=0.0)
    for name in ("sglang", "trtllm"):
        assert engine_for(name, H100).overheads.norm_layer == 0


def test_overheads_are_those_of_the_architecture_in_seconds():
    hopper, blackwell, ultra = (load_hardware(name).record.overheads["vllm"] for name in ("h100-sxm", "b200", "b300"))
    assert blackwell == ultra
    assert hopper.launches != blackwell.launches
    assert hopper.decode_layer == blackwell.decode_layer
    for name in {key.rsplit("_", 1)[0] for key in SCALED}:
        most = 1.0 if name in ("handover", "reshard") else 0.1
        assert 0 <= getattr(hopper, name) < most, f"{name} is in seconds"
