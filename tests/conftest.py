"""What several test files use."""

import subprocess
import sys

import pytest


@pytest.fixture
def run_cli(tmp_path, monkeypatch):
    """Runs the program as a user does; nothing of the surroundings decides its formats."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI"):
        monkeypatch.delenv(name, raising=False)

    def run(*words, given=None, folder=None, env=None):
        return subprocess.run(
            [sys.executable, "-m", "chunkcalc.cli.main", *words],
            capture_output=True, text=True, input=given, cwd=folder, env=env, check=False, timeout=120,
        )  # fmt: skip

    return run
