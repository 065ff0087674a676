"""The derivation: its numbers are those of solve, its terms add up, its sensitivities have the right sign."""

import json
import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc import Question, solve
from chunkcalc.corrections import TERMS, readings, terms
from chunkcalc.explain import explain, single
from chunkcalc.report import derivation
from chunkcalc.report import explain as report
from chunkcalc.report import text as solve_text
from chunkcalc.sensitivity import changes
from chunkcalc.solve import answer
from chunkcalc.step import StepTimer
from chunkcalc.textbook import ClosedForms
from tests.test_cli import SECOND, run

QUESTIONS = {
    "dense": {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 8192, "output": 1024,
              "batch": 32, "ttft": 2.0, "tpot": 0.06},
    "latent": {"model": "deepseek-v3", "gpu": "b200", "tp": 8, "engine": "sglang", "prompt": 4000, "batch": 64,
               "ttft": 2.0, "tpot": 0.06},
    "experts": {"model": "gpt-oss-120b", "gpu": "h200-sxm", "prompt": 4000, "batch": 64, "ttft": 2.0, "tpot": 0.06},
    "stages": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "pp": 2, "prompt": 4000, "batch": 64, "ttft": 2.0,
               "tpot": 0.06},
    "ranks": {"model": "deepseek-v3", "gpu": "h200-sxm", "tp": 2, "attention_dp": 4, "ep": 8, "prompt": 4000,
              "batch": 64, "ttft": 2.0, "tpot": 0.08},
    "hybrid": {"model": "qwen3.5-397b-a17b", "gpu": "b200", "tp": 8, "prompt": 4000, "batch": 16, "ttft": 2.0,
               "tpot": 0.06},
    "drafts": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "batch": 16, "draft_tokens": 3, "ttft": 1.0,
               "tpot": 0.03},
    "no limits": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 500, "batch": 4},
    "cached": {"model": "llama-3.1-8b", "gpu": "l40s", "prompt": 6000, "prefix_hit": 0.5, "batch": 4, "ttft": 2.0,
               "tpot": 0.1, "tpot_basis": "mean"},
}  # fmt: skip


@pytest.fixture(params=QUESTIONS, scope="module")
def derived(request):
    return explain(answer(Question(**QUESTIONS[request.param]), with_remedies=False))


def test_terms_add_up_to_the_prediction(derived):
    seen = derived.answer.expected
    assert sum(term.step or 0.0 for term in derived.terms) == pytest.approx(seen.step_s, rel=1e-12)
    assert sum(term.ttft or 0.0 for term in derived.terms) == pytest.approx(seen.ttft_s, rel=1e-12)
    first = derived.terms[0]
    assert first.step == derived.answer.textbook.step_s
    assert first.ttft == derived.answer.textbook.ttft_s


def test_terms_that_cannot_speed_a_step_up_do_not(derived):
    """Kernels one after another, at fractions of their peaks, launched, with links and a host."""
    named = {term.name: term.step for term in derived.terms}
    for name, _ in TERMS[2:]:
        assert named[name] >= -1e-12, name


def test_waiting_under_a_load_is_a_term():
    question = Question(**{**QUESTIONS["dense"], "batch": None, "rate": 0.8})
    found = answer(question, with_remedies=False)
    every = terms(found)
    assert every[-1].name == "waiting"
    assert every[-1].ttft > 0
    assert sum(term.ttft or 0.0 for term in every) == pytest.approx(found.expected.ttft_s, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(c=st.integers(1, 9000), p=st.integers(0, 20_000), b=st.integers(1, 200), s=st.integers(1, 30_000))
def test_readings_of_any_step_end_at_the_expected_one(c, p, b, s):
    case = solve(**QUESTIONS["dense"]).case
    timer = StepTimer(case.deployment)
    found = readings(timer, ClosedForms(case.deployment, case.workload), (c, p, b, s, 1))
    assert found[-1] == timer.expected(c, p, b, s)
    assert found[2:-1] == sorted(found[2:-1])


def test_the_numbers_are_those_of_solve(derived):
    """Every result that solve prints too is printed with the same digits."""
    found, text = derived.answer, derived.answer.textbook
    shown = {each.key: each for each in (*derived.textbook, *derived.corrected)}
    exact = {"E4": text.intensity, "E5": text.ridge, "E6": text.chunk_star, "E7": text.step_s, "E9": text.ttft_s}
    for key, value in exact.items():
        assert shown[key].result == pytest.approx(value, rel=1e-12), key
    verbose = solve_text.plain(solve_text.solve(found, verbose=True))
    for key in ("E5", "E6", "E7", "E9"):
        assert shown[key].value.removesuffix(" tokens") in verbose, key
    if "C6" in shown:
        assert shown["C6"].result == pytest.approx(found.balance)
    if derived.floor is not None:
        assert derived.floor.step == found.floor.step_s
    assert derived.base.step == pytest.approx(found.expected.step_s, rel=1e-12)
    assert derived.base.ttft == pytest.approx(found.expected.ttft_s, rel=1e-12)
    assert (derived.base.chunk_min, derived.base.chunk_max) == (found.window.chunk_min, found.window.chunk_max)


def test_the_numbers_line_gives_the_result(derived):
    """The printed numbers, put through the printed formula, give the printed result to their digits."""
    for each in (*derived.textbook, *derived.corrected):
        if each.key in ("E1", "E4", "E6", "E7a", "E7b", "E9", "E10", "C1", "C6") and "κ" not in each.numbers:
            assert evaluated(each.numbers) == pytest.approx(
                each.result, rel=0.02, abs=1.0 if each.key in ("E6", "E10") else 0
            ), each.key


SCALES = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "ms": 1e-3, "us": 1e-6, "s": 1}


def evaluated(numbers):
    """The value of a line of numbers with units."""

    def scaled(found):
        unit = found[2]
        scale = SCALES[unit] if unit in SCALES else SCALES[re.sub(r"(FLOP/s|FLOP/B|FLOP|B/s|B)$", "", unit)]
        return str(float(found[1].replace(",", "")) * scale)

    text = re.sub(r"(\d[\d,]*(?:\.\d+)?(?:e\d+)?)(?: ([A-Za-z][A-Za-z/]*))?",
                  lambda found: scaled([found[0], found[1], found[2] or ""]), numbers)  # fmt: skip
    return eval(text.replace("·", "*").replace("^", "**"), {"max": max, "__builtins__": {}})


@pytest.mark.parametrize("name", ["dense", "experts", "latent"])
def test_more_hardware_never_hurts_and_more_load_never_helps(name):
    base, found = changes(solve(**QUESTIONS[name]))
    for change in found:
        faster = change.what in ("memory bandwidth", "arithmetic", "link bandwidth")
        for before, after in ((base.step, change.values.step), (base.ttft, change.values.ttft),
                              (base.tpot, change.values.tpot)):  # fmt: skip
            if faster:
                assert after <= before, change.what
            elif "allowed" not in change.what:
                assert after >= before * (1 - 1e-12), change.what
            else:
                assert after == before, change.what
        if faster or "allowed" in change.what:
            assert change.values.chunk_max >= base.chunk_max
            assert change.values.chunk_min <= base.chunk_min


def test_a_change_is_what_solving_again_gives():
    found = {change.what: change.values for change in changes(solve(**QUESTIONS["dense"]))[1]}
    again = solve(**{**QUESTIONS["dense"], "tpot": 0.06 * 1.1})
    assert (found["TPOT allowed"].chunk_min, found["TPOT allowed"].chunk_max) == (
        again.window.chunk_min, again.window.chunk_max)  # fmt: skip


def test_the_report_fits_a_terminal_and_is_what_it_was(snapshot):
    found = run("explain", *SECOND)
    assert found.returncode == 0
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert found.stdout == snapshot


def test_every_report_of_every_kind_of_model_fits(derived):
    for line in solve_text.plain(report.text(derived)).splitlines():
        assert len(line) <= 80, line


def test_latex_is_balanced_and_compiles(derived, tmp_path):
    document = derivation.latex(derived)
    bare = re.sub(r"\\[{}]", "", document)
    assert bare.count("{") == bare.count("}")
    begun, ended = (re.findall(rf"\\{word}{{(\w+\*?)}}", document) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    assert not re.search(r"[ΨκαρΨ±·]", document), "a letter that plain LaTeX has not"
    if shutil.which("pdflatex"):
        (tmp_path / "d.tex").write_text(document)
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "d.tex"]
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_markdown_has_every_equation(derived):
    text = derivation.markdown(derived)
    for each in (*derived.textbook, *derived.corrected):
        assert f"### {each.key}: {each.title}" in text
    assert text.count("\n| ") > 12


def test_json_has_every_number(derived):
    found = json.loads(json.dumps(report.json(derived)))
    assert found["schema"] == "chunkcalc.explain/1"
    assert [each["key"] for each in found["equations"]] == [e.key for e in (*derived.textbook, *derived.corrected)]
    assert sum(term["step_s"] or 0.0 for term in found["terms"]) == pytest.approx(derived.answer.expected.step_s)


def test_one_equation_alone():
    assert run("explain", *SECOND, "--equation", "e6").stdout.startswith("E6   chunk that reaches the ridge")
    assert run("explain", *SECOND, "--equation", "E6", "--latex").stdout.startswith(r"\paragraph{E6")
    assert run("explain", *SECOND, "--equation", "E6", "--markdown").stdout.startswith("### E6")
    found = json.loads(run("explain", *SECOND, "--equation", "E6", "--json").stdout)
    assert found["equations"][0]["result"] == pytest.approx(solve(**QUESTIONS["dense"]).textbook.chunk_star)
    assert single(solve(**QUESTIONS["experts"]), "c3").key == "C3"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--equation", "E99"], "there is no equation 'E99'"),
        (["--equation", "C3"], "the model has no experts"),
        (["--latex", "--json"], "several formats"),
        (["--tpot", "30"], "--tpot"),
        (["--budget", "0"], "--budget"),
    ],
)
def test_errors_are_one_line(arguments, sentence):
    found = run("explain", *SECOND, *arguments)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert not found.stdout
    assert "Traceback" not in found.stderr


def test_a_question_that_no_chunk_answers_is_explained_too():
    found = explain(answer(Question(**{**QUESTIONS["dense"], "tpot": 0.005}), with_remedies=False))
    text = solve_text.plain(report.text(found))
    assert "no chunk keeps every limit" in text
    assert "the decodes alone miss TPOT on this hardware" in text
