"""How far a command is: heard by whoever asks, shown on a terminal only."""

import io
import sys
from types import SimpleNamespace

from chunkcalc.answer.question import Question
from chunkcalc.answer.solve import answer
from chunkcalc.cli import progress as bars
from chunkcalc.sizing.fleet import fleet

LLAMA = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "output": 300}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def heard(run):
    said = []
    run(lambda done, of: said.append((done, of)))
    assert said
    assert all(0 <= done <= of for done, of in said)
    assert [done / of for done, of in said] == sorted(done / of for done, of in said)
    return said


def test_long_searches_say_how_far_they_are():
    question = Question(**LLAMA, ttft=0.3, tpot=0.015, rate=12.0)
    heard(lambda told: answer(question, progress=told))
    heard(lambda told: fleet(Question(**LLAMA, ttft=2.0, tpot=0.05, rate=2.0), progress=told))


def test_a_bar_is_shown_on_a_terminal_after_a_while(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(bars, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with bars.progress("looking") as told:
        told(1, 10)
        assert not sys.stderr.getvalue()
        now[0] = 5.0
        told(4, 10)
    assert "looking" in sys.stderr.getvalue()
    assert "40%" in sys.stderr.getvalue()


def test_nothing_is_shown_in_a_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(bars, "SILENT", -1.0)
    with bars.progress("looking") as told:
        told(4, 10)
    assert list(bars.shown([1, 2])) == [1, 2]
    assert not sys.stderr.getvalue()
