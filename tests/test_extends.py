"""A user's hardware profile that says only in what it differs from a shipped one."""

import pytest

from chunkcalc.catalog.lookup import load_hardware
from chunkcalc.catalog.profiles import extended
from chunkcalc.errors import ChunkcalcError

H100 = load_hardware("h100-sxm").record


@pytest.fixture
def mine(tmp_path):
    """Writes a profile and loads it."""

    def load(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return load_hardware(str(path)).record

    return load


def test_a_profile_that_only_extends_is_the_shipped_one(mine):
    assert mine('extends = "h100-sxm"\n') == H100


def test_tables_are_joined_and_everything_else_is_replaced(mine):
    found = mine(
        'extends = "h100-sxm"\nid = "mine"\naliases = []\n[memory]\nmib = 40000\n[engine.vllm]\nhost_dense_us = 50\n'
        "[efficiency.gemm]\nbf16 = { memory = 0.5 }\n[allreduce]\n2 = { latency_us = 9, bandwidth = 1e11 }\n"
    )
    assert (found.id, found.aliases, found.memory) == ("mine", (), 40000 * 2**20)
    assert found.bandwidth == H100.bandwidth
    assert found.overheads["vllm"] == pytest.approx(H100.overheads["vllm"]._replace(host_dense=50e-6))
    assert found.overheads["sglang"] == H100.overheads["sglang"]
    assert found.efficiency["gemm.bf16"] == H100.efficiency["gemm.bf16"]._replace(memory=0.5)
    assert found.efficiency["gemm.fp8"] == H100.efficiency["gemm.fp8"]
    assert found.allreduce[2].latency == pytest.approx(9e-6)
    assert found.allreduce[4] == H100.allreduce[4]


def test_the_base_stays_as_it_is(mine):
    before = load_hardware("l4").record
    mine('extends = "l4"\n[memory]\nmib = 1\n[peak]\nbf16 = 1.0\n')
    assert load_hardware("l4").record == before
    base = {"a": {"b": 1}}
    assert extended({"a": {"c": 2}}, base) == {"a": {"b": 1, "c": 2}}
    assert base == {"a": {"b": 1}}


def test_a_value_replaces_a_table_and_a_table_a_value():
    assert extended({"a": 1}, {"a": {"b": 2}}) == {"a": 1}
    assert extended({"a": {"b": 2}}, {"a": 1, "c": 3}) == {"a": {"b": 2}, "c": 3}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('extends = "h100-smx"\n', "unknown profile 'h100-smx'"),
        ('extends = "generic"\n', "unknown profile 'generic'"),
        ('extends = "../h100-sxm"\n', "unknown profile"),
        ("extends = 3\n", "unknown profile 3"),
        ('extends = ["h100-sxm"]\n', "unknown profile"),
        ('extends = "h100-sxm"\n[memory]\nmib = 0\n', "'memory.mib' is 0"),
        ('extends = "h100-sxm"\n[memmory]\nmib = 1\n', "unknown key 'memmory'"),
        ('extends = "h100-sxm"\n[engine.vllm]\nhost_dense = 1\n', "unknown key"),
    ],
)
def test_a_wrong_base_or_key_is_refused_by_name(mine, text, complaint):
    with pytest.raises(ChunkcalcError) as caught:
        mine(text)
    assert complaint in str(caught.value)
    assert "mine.toml" in str(caught.value)
