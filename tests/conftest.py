"""What several test files use."""

import os
import subprocess
import sys

import pytest
from hypothesis import settings

# No test looks at a clock. CI draws the same examples every time; elsewhere each run draws new ones, and keeps none.
settings.register_profile("anywhere", deadline=None, database=None)
settings.register_profile("ci", deadline=None, database=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "anywhere")


@pytest.fixture
def run_cli(tmp_path, monkeypatch):
    """Runs the program as a user does; nothing of the surroundings decides its formats."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI"):
        monkeypatch.delenv(name, raising=False)

    def run(*words, given=None, folder=None, env=None):
        return subprocess.run(
            [sys.executable, "-m", "chunkcalc", *words],
            capture_output=True, text=True, input=given, cwd=folder, env=env, check=False,
        )  # fmt: skip

    return run
