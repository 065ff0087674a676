"""The shipped profiles hold together, and names lead where they should."""

import tomllib

import pytest

from chunkcalc import catalog, counts, schema
from chunkcalc.catalog import data_folder, gpus, load_hardware, load_model, models
from chunkcalc.errors import ChunkcalcError
from chunkcalc.precision import precision_for

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


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.id)
def test_parameters_are_the_published_ones(model):
    assert counts.parameters(model) == pytest.approx(model.published_params, rel=0.01)
    if model.published_active_params:
        embedding = model.hidden * model.vocab
        counted = [counts.matmul_parameters(model) + n * embedding for n in (0, 1, 2)]
        assert min(abs(value / model.published_active_params - 1) for value in counted) < 0.10


@pytest.mark.parametrize(
    ("name", "per_token", "fixed"),
    [
        ("llama-3.1-8b", 131_072, 0), ("llama-3.1-70b", 327_680, 0), ("llama-3.1-405b", 516_096, 0),
        ("qwen3-32b", 262_144, 0), ("qwen3-30b-a3b", 98_304, 0), ("qwen3-235b-a22b", 192_512, 0),
        ("mixtral-8x7b", 131_072, 0), ("gpt-oss-120b", 36_864, 4_718_592), ("deepseek-v3", 70_272, 0),
        ("gemma-3-27b", 81_920, 436_207_616), ("mistral-small-24b", 163_840, 0),
    ],
)  # fmt: skip
def test_kv_cache_per_token_and_sequence(name, per_token, fixed):
    model = load_model(name).record
    assert counts.kv_bytes_per_token(model, "bf16") == per_token
    assert counts.fixed_bytes_per_sequence(model, "bf16") == fixed
    assert counts.kv_bytes_per_token(model, "fp8") == per_token / 2


def test_gpt_oss_weighs_what_its_checkpoint_weighs():
    model = load_model("gpt-oss-120b").record
    assert counts.weight_bytes(model, precision_for(model)) == pytest.approx(65.2e9, rel=0.005)


def test_names_are_unique_across_the_catalogue():
    for records in (list(models()), list(gpus())):
        names = [name for record in records for name in catalog._names(record)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("gpu", list(gpus()), ids=lambda gpu: gpu.id)
def test_datasheet_figures_are_dense_and_plausible(gpu):
    assert 50 < gpu.peak["bf16"] / gpu.bandwidth < 500, "a ridge outside this band is a sparse or mistyped figure"
    if "fp8" in gpu.peak:
        assert gpu.peak["fp8"] == pytest.approx(2 * gpu.peak["bf16"], rel=0.02)
    assert all(0 < fit.compute <= 1 and 0 < fit.memory <= 1 for fit in gpu.efficiency.values())
    assert all(fit.bandwidth <= gpu.link.bandwidth for fit in gpu.allreduce.values())


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("h100", "h100-sxm"), ("H100", "h100-sxm"), ("NVIDIA-H100-80GB-HBM3", "h100-sxm"), ("nvidia-b200", "b200"),
        ("a100", "a100-sxm4-80gb"), ("nvidia-l4", "l4"), ("rtx-pro-6000", "rtx-pro-6000"),
    ],
)  # fmt: skip
def test_gpu_names(name, identifier):
    assert load_hardware(name).record.id == identifier


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"), ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)  # fmt: skip
def test_model_names(name, identifier):
    assert load_model(name).record.id == identifier


def test_unknown_names_show_the_three_nearest():
    with pytest.raises(ChunkcalcError, match=r"did you mean llama-3\.1-70b, .*, .*models list"):
        load_model("lama-3.1-70b")
    with pytest.raises(ChunkcalcError, match="did you mean h200-sxm, "):
        load_hardware("h200x")
    for odd in ("", "generic", "../models/llama-3.1-8b", "\x00", "a" * 5000):
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
    (tmp_path / "big.toml").write_bytes(b"#" * (catalog.MAX_BYTES + 1))
    with pytest.raises(ChunkcalcError, match="larger than 16 MiB"):
        load_model(str(tmp_path / "big.toml"))
    (tmp_path / "latin.toml").write_bytes(b'id = "\xff"')
    with pytest.raises(ChunkcalcError, match="not valid TOML"):
        load_model(str(tmp_path / "latin.toml"))


def test_another_link_scales_the_measured_allreduces():
    gpu = load_hardware("l40s").record
    slow = catalog.with_link(gpu, gpu.link.bandwidth / 2, 20e-6)
    assert slow.allreduce[2].bandwidth == gpu.allreduce[2].bandwidth / 2
    assert slow.allreduce[2].latency == 20e-6
    assert slow.link.bandwidth == gpu.link.bandwidth / 2
