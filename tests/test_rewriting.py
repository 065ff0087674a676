"""`check --fix`: what findings propose is written where the flag stands; every other byte stays."""

import pytest

LOAD = "# chunkcalc: gpu=h100-sxm prompt=4000 output=500 concurrency=32 ttft=2s tpot=50ms\n"
LISTED = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  annotations: {chunkcalc/gpu: h100-sxm}
spec:
  template:
    spec:
      containers:
      - image: vllm/vllm-openai:v0.11.0
        args:
        - --model
        - Qwen/Qwen3-8B  # ours
        - --max-num-batched-tokens  # twice the default
        - "8k"
        - --max-model-len=8192
"""


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.sh", "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k --max-num-seqs 64\n", "8192 "),
        ("a.sh", "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens=8k\r\n", "=8192\r\n"),
        ("a.sh", "vllm serve Qwen/Qwen3-8B \\\n  --max_num_batched_tokens 8k\n", "tokens 8192\n"),
        ("b.yaml", LISTED, '- "8192"\n'),
        ("c.yaml", "run: |\n  vllm serve Qwen/Qwen3-8B --max-num-batched-tokens '8k'\n", "'8192'\n"),
    ],
)
def test_a_certain_fix_is_written_and_nothing_else(tmp_path, run_cli, name, before, after):
    path = tmp_path / name
    path.write_bytes(before.encode())
    done = run_cli("check", name, "--fix", "--fail-on", "warning", folder=tmp_path)
    written = path.read_bytes().decode()
    assert done.returncode == 0 and "8k -> 8192" in done.stderr
    assert after in written and written.replace("8192", "8k", 1) in (before, before.replace("8192", "8k", 1))
    again = run_cli("check", name, "--fix", folder=tmp_path)
    assert again.stderr.startswith("0 values written") and path.read_bytes().decode() == written


def test_an_estimate_is_written_when_all_are_asked_for(tmp_path, run_cli):
    text = LOAD + "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-batched-tokens 8192 --max-model-len 8192\n"
    path = tmp_path / "a.sh"
    path.write_text(text)
    assert run_cli("check", "a.sh", "--fix", folder=tmp_path).returncode == 1
    assert path.read_text() == text
    done = run_cli("check", "a.sh", "--fix-all", folder=tmp_path)
    assert done.returncode == 0 and "CC301" not in done.stdout
    assert path.read_text() != text and path.read_text().count("\n") == text.count("\n")


def test_what_cannot_be_written_in_place_is_left(tmp_path, run_cli):
    text = "# chunkcalc: gpu=h100-sxm\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens $BUDGET\n"
    (tmp_path / "a.sh").write_text(text)
    done = run_cli("check", "a.sh", "--fix-all", folder=tmp_path)
    assert (tmp_path / "a.sh").read_text() == text and done.stderr.startswith("0 values written")


def test_a_script_stays_one_that_may_be_run(tmp_path, run_cli):
    path = tmp_path / "a.sh"
    path.write_text("vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8k --max-num-seqs 64\n")
    path.chmod(0o755)
    (tmp_path / "b.sh").symlink_to(path)
    assert run_cli("check", "b.sh", "--fix", folder=tmp_path).returncode == 0
    assert (tmp_path / "b.sh").is_symlink() and "8192" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o755
