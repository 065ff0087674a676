"""What a step must do, against brute-force sums and published figures."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc.catalog.lookup import load_model
from chunkcalc.records import Compressed, Delta, Gqa, Indexer, Mamba2, Mla
from chunkcalc.work import attention, counts, elementwise, head, linear, link, moe, pairs
from tests.deployments import MODELS, deployment, deployments

TOKENS = st.integers(1, 400)
CACHED = st.integers(0, 800)
SPAN = st.integers(1, 300)


@given(TOKENS, CACHED)
def test_causal_pairs_are_the_sum_over_queries(c, p):
    assert pairs.causal_pairs(c, p) == sum(p + i for i in range(1, c + 1))


@given(TOKENS, CACHED, SPAN)
def test_window_pairs_are_the_sum_over_queries(c, p, w):
    assert pairs.window_pairs(c, p, w) == sum(min(p + i, w) for i in range(1, c + 1))


@given(TOKENS, CACHED, SPAN)
def test_chunked_pairs_are_the_sum_over_queries(c, p, block):
    assert pairs.chunked_pairs(c, p, block) == sum((p + i - 1) % block + 1 for i in range(1, c + 1))


KINDS = [
    Gqa(heads=8, kv_heads=2, head_dim=64),
    Gqa(heads=8, kv_heads=2, head_dim=64, window=100),
    Gqa(heads=8, kv_heads=2, head_dim=64, chunk=64),
    Mla(heads=8, q_lora=64, kv_lora=32, nope=16, rope=8, v_head_dim=16),
    Mla(heads=8, q_lora=64, kv_lora=32, nope=16, rope=8, v_head_dim=16, top_k=50, indexer=Indexer(heads=2, dim=8)),
    Delta(key_heads=2, key_dim=16, value_heads=4, value_dim=16),
    Mamba2(heads=4, head_dim=16, state=8),
    Compressed(heads=4, head_dim=32, q_lora=16, o_lora=8, o_groups=2, window=16, ratio=128),
    Compressed(
        heads=4, head_dim=32, q_lora=16, o_lora=8, o_groups=2, window=16, ratio=4, top_k=20,
        indexer=Indexer(heads=2, dim=8),
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
@given(prompt=st.integers(1, 2000), c=st.integers(1, 2000))
def test_attention_over_a_prompt_does_not_depend_on_the_chunk(kind, prompt, c):
    cut = sum(attention.pairs(kind, min(c, prompt - p), p) for p in range(0, prompt, c))
    assert cut == pytest.approx(attention.pairs(kind, prompt, 0))


@pytest.mark.parametrize("name", MODELS)
def test_linear_flops_are_two_per_active_parameter(name):
    found = deployment(name, "h200-sxm")
    total = 0.0
    for group in found.model.layers:
        kernels = linear.kernels(found, group, 1, group.count)
        kernels += moe.kernels(found, group, 1, 1, group.count) if group.ffn.kind == "moe" else []
        if group.attention.kind == "mla":
            forms = attention.prefill_forms(found, group.attention, 1, 0, 1, group.count)
            kernels += [kernel for kernel in forms[0] if kernel.name == "kv expansion"]
        total += sum(kernel.launches * kernel.flops for kernel in kernels)
    # Short convolutions are parameters but no products.
    assert total == pytest.approx(2 * counts.matmul_parameters(found.model), rel=2e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_large_step_reads_all_weights_once(name):
    found = deployment(name, "h200-sxm")
    total = 0.0
    for group in found.model.layers:
        kernels = linear.kernels(found, group, 10**6, group.count)
        kernels += moe.kernels(found, group, 10**6, 10**6, group.count) if group.ffn.kind == "moe" else []
        forms = attention.prefill_forms(found, group.attention, 1, 0, 1, group.count)
        kernels += [kernel for kernel in forms[0] if kernel.name == "kv expansion"]
        weights = (kernel.bytes if kernel.form == "moe" else kernel.least_bytes for kernel in kernels)
        total += sum(kernel.launches * size for kernel, size in zip(kernels, weights, strict=True))
    embeddings = 2 * counts.embedding_parameters(found.model)
    # Short convolutions are weights but no products.
    assert total == pytest.approx(counts.weight_bytes(found.model, found.precision) - embeddings, rel=2e-3)


def test_deepseek_expands_cheaper_than_it_absorbs_above_171_tokens():
    found = deployment("deepseek-v3", "h200-sxm", tp=8)
    layer = found.model.layers[1].attention

    def flops(c, absorbed):
        return sum(kernel.flops for kernel in attention.prefill_forms(found, layer, c, 10**7, 1, 1)[absorbed])

    assert flops(170, absorbed=True) < flops(170, absorbed=False)
    assert flops(173, absorbed=True) > flops(173, absorbed=False)


@pytest.mark.parametrize(("c", "share"), [(512, 0.90), (2048, 0.215), (8192, 0.043)])
def test_deepseek_re_expansion_of_a_32k_prompt(c, share):
    model = load_model("deepseek-v3").record
    mla = model.layers[0].attention
    per_token = 2 * mla.kv_lora * mla.heads * (mla.nope + mla.v_head_dim) * model.layer_count
    again = sum(range(0, 32768, c)) * per_token
    assert again / (2 * counts.matmul_parameters(model) * 32768) == pytest.approx(share, rel=0.05)


@given(E=st.integers(2, 512), n=st.integers(1, 5000), data=st.data())
def test_distinct_experts_stay_between_one_draw_and_all(E, n, data):
    k = data.draw(st.integers(1, E))
    found = moe.distinct_experts(E, k, n)
    assert k * (1 - 1e-9) <= found <= E
    assert found <= n * k * (1 + 1e-9)
    assert moe.distinct_experts(E, k, n + 1) >= found
    assert moe.least_experts(E, k, n) <= found * (1 + 1e-9)


def test_distinct_experts_match_a_simulated_draw():
    rng = random.Random(0)
    draws = [len({e for _ in range(20) for e in rng.sample(range(128), 8)}) for _ in range(400)]
    assert moe.distinct_experts(128, 8, 20) == pytest.approx(sum(draws) / len(draws), rel=0.01)


def test_kv_heads_are_replicated_beyond_their_number():
    kind = Gqa(heads=64, kv_heads=8, head_dim=128)
    assert [attention.growth_bytes(kind, "bf16", tp) for tp in (1, 8, 16)] == [4096, 512, 512]
    latent = Mla(heads=128, q_lora=1536, kv_lora=512, nope=128, rope=64, v_head_dim=128)
    assert attention.growth_bytes(latent, "bf16", 8) == attention.growth_bytes(latent, "bf16", 1) == 1152
    assert attention.growth_bytes(Gqa(heads=8, kv_heads=8, head_dim=64, shares_kv=True), "bf16", 1) == 0


@given(found=deployments(), n=st.integers(1, 9000))
def test_tensor_parallelism_never_loses_arithmetic(found, n):
    whole = deployment(found.model.id, "h200-sxm")
    for group in found.model.layers:
        part = sum(kernel.flops for kernel in linear.kernels(found, group, n, 1))
        assert part * found.parallelism.tp >= sum(kernel.flops for kernel in linear.kernels(whole, group, n, 1)) * 0.999


def test_the_head_counts_sampled_rows_only():
    found = deployment()
    kernel = head.kernels(found, 3)[0]
    assert kernel.flops == 2 * 3 * 128256 * 4096
    assert kernel.least_bytes == 2 * 128256 * 4096


def test_links_carry_what_the_layout_needs():
    dense = deployment("llama-3.1-70b", tp=4)
    (reduce,) = link.kernels(dense, dense.model.layers[0], 100, 100, 80)
    assert (reduce.link_bytes, reduce.launches, reduce.group) == (2 * 100 * 8192, 160, 4)
    alone = deployment("llama-3.1-70b")
    assert link.kernels(alone, alone.model.layers[0], 100, 100, 80) == []
    spread = deployment("deepseek-v3", "h200-sxm", dp=8)
    (exchange,) = link.kernels(spread, spread.model.layers[1], 100, 800, 58)
    assert (exchange.link_bytes, exchange.launches, exchange.group) == (2 * 800 * 7168, 58, 8)
    staged = deployment("llama-3.1-70b", pp=4)
    (hand,) = link.handover(staged, 100)
    assert (hand.link_bytes, hand.launches) == (2 * 100 * 8192, 3)
    assert link.handover(alone, 100) == []


def test_elementwise_work_can_be_fused_away():
    found = deployment()
    kernels = elementwise.kernels(found, found.model.layers[0], 100, 32)
    assert sum(kernel.launches for kernel in kernels) == 4 * 32
    assert all(kernel.least_bytes == kernel.least_flops == 0 for kernel in kernels)
