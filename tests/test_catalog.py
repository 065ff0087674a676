"""The shipped profiles hold together, and names lead where they should."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from chunkcalc import solve
from chunkcalc.catalog import lookup, schema
from chunkcalc.catalog.lookup import gpus, load_hardware, load_model, models
from chunkcalc.catalog.precision import precision_for
from chunkcalc.catalog.profiles import MAX_BYTES, data_folder
from chunkcalc.errors import ChunkcalcError
from chunkcalc.work import counts

MODEL_FILES = sorted(data_folder("models").glob("*.toml"))
GPU_FILES = [path for path in sorted(data_folder("hardware_profiles").glob("*.toml")) if path.stem != "generic"]


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: path.stem)
def test_model_files_are_valid_and_named_after_their_id(path):
    data = tomllib.loads(path.read_text())
    validated = schema.model(data, str(path))
    assert validated.id == path.stem
    assert validated == load_model(path.stem).record


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.stem)
def test_gpu_files_are_valid_and_named_after_their_id(path):
    data = tomllib.loads(path.read_text())
    schema.check_hardware(data, str(path))
    assert data["id"] == path.stem
    assert load_hardware(path.stem).record.id == path.stem


# Published totals that our count misses by more than 1 %, each for a known reason.
EXPLAINED = {
    "gemma-4-e2b": (0.10, "the published figure holds audio and vision towers"),
    "gemma-4-e4b": (0.07, "the published figure holds audio and vision towers"),
    "muse-glimmer-30b": (0.08, "a rounded name that holds the vision tower"),
    "mistral-large-4": (0.06, "a rounded name; some layers drop projections"),
    "ernie-4.5-21b-a3b": (0.04, "a rounded name"),
    "gemma-4-26b-a4b": (0.04, "a rounded name"),
    "kimi-linear-48b-a3b": (0.03, "a rounded name"),
    "deepseek-v4-pro": (0.02, "a rounded figure"),
    "kimi-k2": (0.02, "a rounded figure"),
    "kimi-k2-0905": (0.02, "a rounded figure"),
    "kimi-k2.5": (0.02, "a rounded figure"),
    "kimi-k2.6": (0.02, "a rounded figure"),
    "glm-5.3-flash": (0.03, "the published figure holds the layer of multi-token prediction"),
    "granite-4.1-30b": (0.05, "a rounded name"),
    "lfm2.5-350m": (0.02, "a rounded name"),
    "lfm2.5-8b-a1b": (0.03, "the published figure is that of half the vocabulary"),
    "opt-125m": (0.02, "learned positions are not counted"),
    "qwen3.5-0.8b": (0.06, "a rounded name"),
    "qwen3.5-2b": (0.06, "a rounded name"),
    "granite-4.1-8b": (0.05, "a rounded name"),
    "llama-4-scout": (0.02, "the published figure holds the vision tower"),
    "ministral-3-8b": (0.02, "a rounded figure"),
    "mistral-medium-3.5-128b": (0.03, "the published figure holds the vision tower"),
    "qwen3.5-4b": (0.06, "a rounded name"),
    "qwen3-1.7b": (0.02, "a rounded name"),
}
ACTIVE_IS_ROUNDED = {"granite-4.0-h-tiny"}  # "1B" for 1.3


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.id)
def test_parameters_are_the_published_ones(model):
    tolerance, _ = EXPLAINED.get(model.id, (0.01, ""))
    if model.published_params:
        assert counts.parameters(model) == pytest.approx(model.published_params, rel=tolerance)
    if model.published_active_params and model.id not in ACTIVE_IS_ROUNDED:
        embedding = model.hidden * model.vocab
        counted = [counts.matmul_parameters(model) + n * embedding for n in (0, 1, 2)]
        assert min(abs(value / model.published_active_params - 1) for value in counted) < 0.10


def test_only_a_handful_needs_an_explanation():
    off = {m.id for m in models() if m.published_params and abs(counts.parameters(m) / m.published_params - 1) > 0.01}
    assert off == set(EXPLAINED)


# KV bytes per token (16-bit) and fixed bytes per sequence, computed apart from this code.
CACHES = {
    line.split()[0]: tuple(map(int, line.split()[1:]))
    for line in (Path(__file__).parent / "kv_caches.txt").read_text().splitlines()
    if line and not line.startswith("#")
}


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.id)
def test_kv_cache_per_token_and_sequence(model):
    per_token, fixed = CACHES[model.id]
    assert counts.kv_bytes_per_token(model, "bf16") == per_token
    assert counts.fixed_bytes_per_sequence(model, "bf16") == fixed


# Parts that published 4- and 8-bit checkpoints leave 16-bit (hf_quant_config.json, config.json, model cards).
LEFT_16_BIT = [
    ("deepseek-v3", "mxfp4", {"attention"}), ("kimi-k2", "int4", {"attention", "dense", "shared"}),
    ("kimi-k2", "mxfp4", {"attention", "dense", "shared"}), ("kimi-k2", "nvfp4", {"attention"}),
    ("kimi-k2.5", "int4", {"attention", "dense", "shared"}), ("kimi-k2.5", "nvfp4", {"attention"}),
    ("kimi-k2.6", "nvfp4", {"attention", "dense", "shared"}),
    ("glm-5.3-flash", "fp8", {"attention"}),
    ("qwen3.8-2.4t-a95b", "nvfp4", {"attention", "shared"}), ("qwen3.8-2.4t-a95b", "fp8", {"attention", "shared"}),
    ("minimax-m2", "nvfp4", {"attention"}), ("qwen3.5-397b-a17b", "nvfp4", {"attention", "shared"}),
    ("qwen3.5-397b-a17b", "mxfp4", {"attention", "shared"}), ("qwen3.5-122b-a10b", "nvfp4", {"attention", "shared"}),
    ("qwen3-235b-a22b", "nvfp4", set()), ("gemma-4-31b", "nvfp4", {"attention"}),
    ("gemma-4-26b-a4b", "nvfp4", {"attention", "shared"}), ("glm-5", "nvfp4", {"attention"}),
    ("glm-5.2", "nvfp4", {"attention", "dense", "shared"}), ("command-a-plus", "fp8", {"attention"}),
    ("command-a-plus", "nvfp4", {"attention"}), ("llama-3.3-70b", "fp8", set()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "weights", "parts"), LEFT_16_BIT)
def test_what_published_checkpoints_leave_16_bit(name, weights, parts):
    precision = precision_for(load_model(name).record, weights)
    assert {part for part in ("attention", "dense", "experts", "shared") if getattr(precision, part) == "bf16"} == parts


def test_command_a_plus_weighs_what_its_fp8_checkpoint_weighs():
    # 212.6 billion weights of 8 bits, 6.2 billion of 16 with a vision tower of 0.4 that we leave out.
    model = load_model("command-a-plus").record
    assert counts.weight_bytes(model, precision_for(model, "fp8")) == pytest.approx(212.6e9 + 2 * 5.8e9, rel=0.005)


def test_the_positions_are_those_of_the_checkpoint():
    # Checkpoints of one shape that hold more tokens than the first of it.
    lengths = {
        "moonshotai/Kimi-K2-Instruct": 131072, "moonshotai/Kimi-K2-Instruct-0905": 262144,
        "moonshotai/Kimi-K2-Thinking": 262144, "moonshotai/Kimi-K2.6": 262144, "Qwen/Qwen3-30B-A3B": 40960,
        "Qwen/Qwen3-30B-A3B-Instruct-2507": 262144, "Qwen/Qwen3-4B-Instruct-2507": 262144,
        "Qwen/Qwen3-235B-A22B-Thinking-2507": 262144, "zai-org/GLM-4.5": 131072, "zai-org/GLM-4.7": 202752,
    }  # fmt: skip
    assert {name: load_model(name).record.max_position for name in lengths} == lengths


def test_qwen_3_8_weighs_what_its_checkpoints_weigh():
    # 4892.4 GB of 16 bit, 2496.2 of 8 and 1447.3 of 4, each with a layer of multi-token prediction that we leave out:
    # experts, shared ones, router, attention, and the projection of its input.
    model = load_model("qwen3.8-2.4t-a95b").record
    experts, rest = 512 * 3 * 8192 * 2048, 3 * 8192 * 2048 + 512 * 8192 + 3 * 8192 * 16384 + 8192 * 2048 + 2 * 8192**2
    for weights, size, expert in (("bf16", 4892.4e9, 2), ("fp8_block", 2496.2e9, 1), ("nvfp4", 1447.3e9, 0.5625)):
        ours = counts.weight_bytes(model, precision_for(model, weights)) + expert * experts + 2 * rest
        assert ours == pytest.approx(size, rel=0.002), weights


def test_gpt_oss_weighs_what_its_checkpoint_weighs():
    model = load_model("gpt-oss-120b").record
    assert counts.weight_bytes(model, precision_for(model)) == pytest.approx(65.2e9, rel=0.005)


def test_names_are_unique_across_the_catalogue():
    for records in (list(models()), list(gpus())):
        names = [name for record in records for name in lookup.names(record)]
        assert len(names) == len(set(names))


def numeric_keys(data):
    """Top-level keys of a profile under which a number stands."""

    def has_number(value):
        if isinstance(value, dict):
            return any(map(has_number, value.values()))
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    return {key for key, value in data.items() if has_number(value)}


@pytest.mark.parametrize("path", GPU_FILES, ids=lambda path: path.stem)
def test_every_number_of_a_gpu_has_a_source(path):
    data = tomllib.loads(path.read_text())
    assert numeric_keys(data) <= set(data["sources"])
    assert set(data["sources"]) <= set(data)


# fp8 runs at twice the bf16 rate unless the source says otherwise.
FP8_RATES = {
    "gaudi3": 1, "tpu-v5p": 1, "tpu-v6e": 1, "trainium1": 1, "inferentia2": 1, "trainium2": 1.95, "trainium3": 3.75,
    "rubin": 4.375, "ascend-950dt": 1.89, "b100": 1.944,
}  # fmt: skip
RIDGES = {"h20": (30, 50), "tpu-v6e": (500, 600)}  # an export part with little arithmetic; a TPU with little bandwidth


def test_known_traps_of_the_datasheets():
    gpu = {
        name: load_hardware(name).record for name in ("mi355x", "b300", "gaudi3", "a10g", "a10", "h100-pcie", "b200")
    }
    assert gpu["mi355x"].peak["fp4"] == pytest.approx(10.066e15), "10.1 PF is dense"
    assert gpu["b300"].peak["int8"] == pytest.approx(153.5e12), "int8 was cut on Ultra"
    assert gpu["b300"].peak["fp4"] == pytest.approx(14e15)
    assert gpu["gaudi3"].peak["bf16"] == pytest.approx(1.677e15), "at the shipping clock"
    assert (gpu["a10g"].peak["bf16"], gpu["a10"].peak["bf16"]) == (70e12, 125e12)
    assert gpu["h100-pcie"].bandwidth == 2.0e12
    assert gpu["b200"].bandwidth == 7.7e12
    for name in ("v100-sxm2-16gb", "t4", "a100-sxm4-80gb"):
        assert "fp8" not in load_hardware(name).record.peak
    assert "fp4" not in load_hardware("h200-sxm").record.peak


@pytest.mark.parametrize("gpu", list(gpus()), ids=lambda gpu: gpu.id)
def test_datasheet_figures_are_dense_and_plausible(gpu):
    assert all(0 < fit.compute <= 1 and 0 < fit.memory <= 1 for fit in gpu.efficiency.values())
    if "bf16" not in gpu.peak:
        assert gpu.confidence == "C"
        return
    low, high = RIDGES.get(gpu.id, (50, 500))
    assert low < gpu.peak["bf16"] / gpu.bandwidth < high, "a ridge outside its band is a sparse or mistyped figure"
    if "fp8" in gpu.peak:
        assert gpu.peak["fp8"] == pytest.approx(FP8_RATES.get(gpu.id, 2) * gpu.peak["bf16"], rel=0.02)
    assert all(fit.bandwidth <= gpu.link.bandwidth for fit in gpu.allreduce.values())


GPU_NAMES = [
    ("h100", "h100-sxm", None), ("H100", "h100-sxm", None), ("NVIDIA-H100-80GB-HBM3", "h100-sxm", None),
    ("NVIDIA-H100-80GB-HBM3-SHARED", "h100-sxm", None), ("H100-80GB-HBM3", "h100-sxm", None),
    ("NVIDIA-H100-SXM5-80GB", "h100-sxm", None), ("nvidia-h100-mega-80gb", "h100-sxm", None),
    ("nvidia-tesla-a100", "a100-sxm4-40gb", None), ("nvidia-a100-80gb", "a100-sxm4-80gb", None),
    ("A100-SXM4-40GB", "a100-sxm4-40gb", None), ("NVIDIA-A100-80GB-PCIe", "a100-pcie-80gb", None),
    ("Tesla-T4", "t4", None), ("NVIDIA-GeForce-RTX-4090", "rtx-4090", None), ("nvidia-b200", "b200", None),
    ("AMD_Instinct_MI300X_OAM", "mi300x", None), ("74a5", "mi325x", None), ("H100_NVLINK_80GB", "h100-sxm", None),
    ("p5.48xlarge", "h100-sxm", 8), ("p4d.24xlarge", "a100-sxm4-40gb", 8), ("g6e.12xlarge", "l40s", 4),
    ("a3-highgpu-4g", "h100-sxm", 4), ("a2-ultragpu-2g", "a100-sxm4-80gb", 2), ("g2-standard-24", "l4", 2),
    ("Standard_NC48ads_A100_v4", "a100-pcie-80gb", 2), ("Standard_ND96isr_MI300X_v5", "mi300x", 8),
    ("a4x-highgpu-4g", "gb200", 4), ("tpu-v6e-slice", "tpu-v6e", None), ("trn2.48xlarge", "trainium2", 16),
    ("g6e.8xlarge", "l40s", None),
    ("p4de.24xlarge", "a100-sxm4-80gb", 8), ("Standard_NC8as_T4_v3", "t4", None), ("g5", "a10g", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "identifier", "devices"), GPU_NAMES)
def test_gpu_names(name, identifier, devices):
    found = load_hardware(name)
    assert (found.record.id, found.devices) == (identifier, devices)


def test_a_mig_slice_is_a_smaller_device():
    whole = load_hardware("a100-sxm4-80gb").record
    part = load_hardware("NVIDIA-A100-SXM4-80GB-MIG-2g.20gb").record
    assert part.peak["bf16"] == pytest.approx(whole.peak["bf16"] * 2 / 7)
    assert part.memory == pytest.approx(20e9)
    assert part.bandwidth == pytest.approx(whole.bandwidth * 20e9 / whole.memory)
    assert part.sms == 30
    assert part.link.gpus_per_node == 1


def benchmark():
    spec = importlib.util.spec_from_file_location("catalogue", Path(__file__).parent.parent / "benchmarks/catalogue.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MATRIX = benchmark()
PAIRS = [(m, load_hardware("b300").record) for m in models()]
PAIRS += [(load_model("llama-3.1-8b").record, gpu) for gpu in gpus() if "bf16" in gpu.peak]


@pytest.mark.parametrize(("model", "gpu"), PAIRS, ids=lambda record: record.id)
def test_every_model_and_every_gpu_gives_a_sound_answer(model, gpu):
    # All pairs: benchmarks/catalogue.py.
    assert MATRIX.sound(solve(**MATRIX.question(model, gpu), with_remedies=False))


def test_opening_a_profile_by_id_reads_one_file(monkeypatch):
    opened = []
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, *a, **k: opened.append(self.name) or read(self, *a, **k))
    lookup._shipped.cache_clear()
    load_model("qwen3-32b")
    assert opened == ["qwen3-32b.toml"]


def test_likeness_is_said():
    assert "by likeness" in load_hardware("NVIDIA-H200-SXM6").how


MODEL_NAMES = [
    ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", "bf16"), ("Llama-3.1-8B-Instruct", "llama-3.1-8b", "bf16"),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b", "bf16"), ("llama-3.3-70b", "llama-3.3-70b", "bf16"),
    ("deepseek-ai/DeepSeek-R1", "deepseek-v3", "fp8_block"), ("deepseek-r1", "deepseek-v3", "fp8_block"),
    ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-v3", "nvfp4"), ("openai/gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
    ("minimax-m2.5", "minimax-m2", "fp8_block"), ("kimi-k2.5", "kimi-k2.5", "int4_g32"),
    ("moonshotai/Kimi-K2-Thinking", "kimi-k2.5", "int4_g32"), ("moonshotai/Kimi-K2-Instruct", "kimi-k2", "fp8_block"),
    ("qwen3-coder", "qwen3-coder-480b-a35b", "bf16"), ("Qwen/Qwen3-32B-FP8", "qwen3-32b", "fp8_block"),
    ("Qwen/Qwen3-32B-AWQ", "qwen3-32b", "int4"),
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b", "fp8"),
    ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b", "int4"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", "qwen2.5-72b", "int4"),
    ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", "qwen2.5-72b", "int8"),
    ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3-235b-a22b-2507", "fp8_block"),
    ("unsloth/gemma-3-27b-it", "gemma-3-27b", "bf16"), ("zai-org/GLM-4.7-FP8", "glm-4.6", "fp8_block"),
    ("minimax-m2.7", "minimax-m2", "fp8_block"), ("glm-4.6", "glm-4.6", "bf16"), ("glm-5.1", "glm-5", "bf16"),
    ("qwen2-72b", "qwen2.5-72b", "bf16"), ("CohereLabs/command-a-plus-05-2026-w4a4", "command-a-plus", "nvfp4"),
    ("mistralai/Ministral-3-14B-Instruct-2512", "ministral-3-14b", "fp8"), ("Qwen/Qwen3.6-27B", "qwen3.5-27b", "bf16"),
    ("moonshotai/Kimi-K2.7-Code", "kimi-k2.6", "int4_g32"), ("nvidia/Kimi-K2.6-NVFP4", "kimi-k2.6", "nvfp4"),
    ("Qwen/Qwen3-Coder-Next-FP8", "qwen3-next-80b-a3b", "fp8_block"), ("zai-org/GLM-5.3", "glm-5.2", "fp8_block"),
    ("mistralai/Mistral-Small-4-119B-2603", "mistral-small-4-119b", "fp8"),
    ("mistralai/Mistral-Small-4-119B-2603-NVFP4", "mistral-small-4-119b", "nvfp4"),
    ("unsloth/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-2507", "bf16"),
    ("facebook/opt-125m", "opt-125m", "bf16"),
    ("Qwen/Qwen2.5-VL-7B-Instruct-AWQ", "qwen2.5-vl-7b", "int4"),
    ("zai-org/GLM-5.3-Flash", "glm-5.3-flash", "fp8_block"),
    ("nvidia/Qwen3-VL-235B-A22B-Instruct-NVFP4", "qwen3-vl-235b-a22b", "nvfp4"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "identifier", "weights"), MODEL_NAMES)
def test_model_names(name, identifier, weights):
    model = load_model(name).record
    assert (model.id, model.weights) == (identifier, weights)


def test_every_shipped_alias_leads_to_its_model():
    for model in models():
        for alias in (*model.aliases, model.aliases[0] + "-FP8" if model.aliases else model.id):
            assert load_model(alias).record.id == model.id


def test_unknown_names_show_the_three_nearest():
    with pytest.raises(ChunkcalcError, match=r"did you mean llama-3\.1-70b, .*, .*models list"):
        load_model("lama-3.1-70b")
    with pytest.raises(ChunkcalcError, match="did you mean h200-sxm, "):
        load_hardware("h200x")
    for odd in ("", "generic", "../models/generic", "\x00", "a" * 5000):
        with pytest.raises(ChunkcalcError):
            load_model(odd)


@pytest.fixture
def profile(tmp_path):
    """Write a changed copy of a shipped profile and return its path."""

    def write(folder, name, change):
        text = (data_folder(folder) / f"{name}.toml").read_text()
        path = tmp_path / "mine.toml"
        path.write_text(change(text))
        return str(path)

    return write


def test_a_path_leads_to_a_users_profile(profile):
    path = profile("models", "llama-3.1-8b", lambda text: text.replace('id = "llama-3.1-8b"', 'id = "mine"'))
    assert load_model(path).record.id == "mine"
    path = profile("hardware_profiles", "l4", lambda text: text.replace('id = "l4"', 'id = "mine"'))
    assert load_hardware(path).record.id == "mine"


@pytest.mark.parametrize(
    ("folder", "name", "old", "new", "complaint"),
    [
        ("models", "llama-3.1-8b", "hidden = 4096", "hidden = -4096", "'hidden' is -4096"),
        ("models", "llama-3.1-8b", "hidden = 4096", "", "missing key 'hidden'"),
        ("models", "llama-3.1-8b", "hidden =", "hiden =", "unknown key 'hiden'"),
        ("models", "llama-3.1-8b", "heads = 32", "heads = nan", "heads"),
        ("models", "llama-3.1-8b", 'kind = "gqa"', 'kind = "gqq"', "kind"),
        ("models", "llama-3.1-8b", "[[layers]]", "[[layers", "not valid TOML"),
        ("hardware_profiles", "l4", "mib = 22888", "mib = 0", "'memory.mib' is 0"),
        ("hardware_profiles", "l4", "bf16 = 1.21e14", "bf16 = inf", "'peak.bf16' is inf"),
        ("hardware_profiles", "l4", "[peak]", "[peaks]", "unknown key 'peaks'"),
    ],
)  # fmt: skip
def test_invalid_profiles_are_refused_by_key(profile, folder, name, old, new, complaint):
    path = profile(folder, name, lambda text: text.replace(old, new))
    load = load_model if folder == "models" else load_hardware
    with pytest.raises(ChunkcalcError) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_unreadable_and_oversized_files_are_refused(tmp_path):
    with pytest.raises(ChunkcalcError, match="cannot read"):
        load_model(str(tmp_path / "none.toml"))
    with pytest.raises(ChunkcalcError, match="cannot read"):
        (tmp_path / "folder.toml").mkdir()
        load_model(str(tmp_path / "folder.toml"))
    (tmp_path / "big.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ChunkcalcError, match="larger than 16 MiB"):
        load_model(str(tmp_path / "big.toml"))
    (tmp_path / "latin.toml").write_bytes(b'id = "\xff"')
    with pytest.raises(ChunkcalcError, match="not valid TOML"):
        load_model(str(tmp_path / "latin.toml"))


def test_another_links_bandwidth_scales_the_measured_allreduces():
    gpu = load_hardware("l40s").record
    slow = lookup.with_link(gpu, gpu.link.bandwidth / 2, None)
    assert slow.allreduce[2].bandwidth == gpu.allreduce[2].bandwidth / 2
    assert slow.allreduce[2].latency == gpu.allreduce[2].latency
    assert slow.link.bandwidth == gpu.link.bandwidth / 2


def test_a_link_with_its_latency_is_what_a_transfer_was_measured_to_reach():
    gpu = load_hardware("l40s").record
    measured = lookup.with_link(gpu, 16e9, 20e-6)
    for n, fit in measured.allreduce.items():
        message = 1e6
        assert fit.latency + message / fit.bandwidth == pytest.approx(20e-6 + 2 * (n - 1) / n * message / 16e9)
