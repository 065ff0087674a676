"""The derivation: its numbers are those of solve, its terms add up, its sensitivities have the right sign."""

import json
import math
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc import Question, solve
from chunkcalc.answer.judged import outlook
from chunkcalc.answer.solve import answer
from chunkcalc.answer.window import every_limit
from chunkcalc.derivation.derive import explain, single
from chunkcalc.derivation.equation_values import Letters
from chunkcalc.derivation.sensitivity import changes as moved
from chunkcalc.derivation.term_by_term import TERMS, readings, terms
from chunkcalc.errors import ChunkcalcError
from chunkcalc.report import derivation
from chunkcalc.report import explain as report
from chunkcalc.report import text as solve_text
from chunkcalc.report.lines import plain
from chunkcalc.textbook import equations
from chunkcalc.textbook.forms import ClosedForms
from chunkcalc.time.step import StepTimer
from chunkcalc.units import format_duration
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
               "tpot": 0.1, "itl": math.inf},
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
    for name, _ in TERMS[3:]:
        assert named.get(name, 0.0) >= -1e-12, name


def test_waiting_under_a_load_is_a_term():
    question = Question(**{**QUESTIONS["dense"], "batch": None, "rate": 0.8})
    found = answer(question, with_remedies=False)
    every = terms(found)
    assert every[-1].name == "waiting"
    assert every[-1].ttft > 0
    assert sum(term.ttft or 0.0 for term in every) == pytest.approx(found.expected.ttft_s, rel=1e-12)


@settings(max_examples=30)
@given(c=st.integers(1, 9000), p=st.integers(0, 20_000), b=st.integers(1, 200), s=st.integers(1, 30_000))
def test_readings_of_any_step_end_at_the_expected_one(c, p, b, s):
    case = solve(**QUESTIONS["dense"]).case
    timer = StepTimer(case.deployment)
    found = readings(timer, ClosedForms(case.deployment, case.workload), (c, p, b, s, 1))
    assert found[-1] == timer.expected(c, p, b, s)
    assert found[3:-1] == sorted(found[3:-1])


def test_the_numbers_are_those_of_solve(derived):
    """Every result that solve prints too is printed with the same digits."""
    found, text = derived.answer, derived.answer.textbook
    shown = {each.key: each for each in (*derived.textbook, *derived.corrected)}
    exact = {"E4": text.intensity, "E5": text.ridge, "E6": text.chunk_star, "E7": text.step_s, "E9": text.ttft_s}
    for key, value in exact.items():
        assert shown[key].result == pytest.approx(value, rel=1e-12), key
    verbose = plain(solve_text.solve(found, verbose=True))
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
    base, found = moved(solve(**QUESTIONS[name]))
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
        if (faster or "allowed" in change.what) and base.chunk_max is not None:
            assert change.values.chunk_max >= base.chunk_max
            assert change.values.chunk_min <= base.chunk_min


@pytest.mark.parametrize(("what", "changes"), [
    ("TPOT allowed", {"tpot": 0.06 * 1.1}), ("TTFT allowed", {"ttft": 2.0 * 1.1}), ("decoding requests", {"batch": 35}),
    ("prompt tokens", {"prompt": 9011}), ("context of the decodes", {"context": 7700}),
])  # fmt: skip
def test_a_change_is_what_solving_again_gives(what, changes):
    given = QUESTIONS["dense"] | ({"context": 7000} if "context" in changes else {})
    before = solve(**given)
    found = next(change for change in moved(before)[1] if change.what == what)
    again = solve(**{**given, **changes, "budget": before.budget})
    ends = (again.window.chunk_min, again.window.chunk_max)
    assert (found.values.chunk_min, found.values.chunk_max) == ends
    assert found.values.step == pytest.approx(again.expected.step_s, rel=1e-12)
    assert found.values.ttft == pytest.approx(again.expected.ttft_s, rel=1e-12)
    assert found.values.tpot == pytest.approx(again.expected.tpot_s, rel=1e-12)


def test_the_host_of_a_change_is_all_that_the_engine_adds():
    before = solve(**QUESTIONS["latent"])
    found = next(change for change in moved(before)[1] if change.what == "host time of the engine")
    each = before.case.deployment.engine.overheads
    times = {name: 1.1 * value for name, value in each._asdict().items() if name in ENGINE_TIMES}
    engine = replace(before.case.deployment.engine, overheads=each._replace(**times))
    view = outlook(replace(before.case.deployment, engine=engine), before.workload, before.slo)
    assert found.values.ttft == pytest.approx(view.expected.ttft(before.chunk), rel=1e-12)


ENGINE_TIMES = {
    "decode_layer", "host_dense", "host_moe", "host_latent", "host_hybrid", "host_graph", "expert_layer",
    "norm_layer", "sequence", "request", "prompt_token", "latent_request",
}  # fmt: skip


def test_what_takeaways_claim_is_so(derived):
    """The claims that a number can check, against the kernels and the answer."""
    answer, shown = derived.answer, {each.key: each for each in (*derived.textbook, *derived.corrected)}
    letters = Letters(answer)
    c_star = shown["E6"].result
    assert ("is below it" in shown["E6"].takeaway) == (0 < answer.chunk < c_star)
    product = letters.of("C4")
    assert ("arithmetic takes longer here" in shown["C4"].takeaway) == (product["x"] > product["y"])
    if "C5" in shown:
        messages = [kernel for kernel in letters.kernels if kernel.form == "allreduce"]
        assert f"sends {sum(float(kernel.launches) for kernel in messages):,.0f} messages" in shown["C5"].takeaway
    if "C3" in shown:
        step = letters.longest
        drafts = 1 + answer.workload.draft_tokens
        assert letters.of("C3")["n"] == answer.case.deployment.parallelism.dp * (step[0] + step[2] * drafts)
    if "E12" in shown:
        ends = shown["E11"].result <= shown["E10"].result
        assert bool(shown["E12"].result) == (ends and letters.forms.t_memory <= answer.slo.tpot)
        if bool(shown["E12"].result) != answer.textbook.feasible:
            assert abs(shown["E11"].result - shown["E10"].result) < 1, "but for whole chunks"
    if "C1" in shown:
        keys = int(re.search(r"meets ([\d,]+) keys", shown["C1"].takeaway)[1].replace(",", ""))
        assert keys <= answer.workload.prompt
    assert ("no first token comes before" in shown["E9"].takeaway) == (shown["E9"].result <= answer.expected.ttft_s)


@settings(max_examples=60)
@given(prompt=st.integers(1, 50_000), c=st.integers(1, 60_000), b=st.integers(1, 500))
def test_the_bound_of_ttft_is_one_and_the_full_steps_are_none(prompt, c, b):
    """E9 against the textbook's own steps, one chunk after another; E9a is up to a step longer than they are."""
    case = solve(**QUESTIONS["dense"]).case
    forms = ClosedForms(case.deployment, replace(case.workload, prompt=prompt, batch=b))
    steps = math.fsum(forms.step(min(c, prompt - done)) for done in range(0, prompt, c))  # fifty thousand of them
    full = equations.ttft_of_full_steps(equations.chunk_count(prompt, c), forms.step(min(c, prompt)))
    assert forms.ttft(c) <= steps * (1 + 1e-12)
    assert steps * (1 - 1e-12) <= full <= steps + forms.step(min(c, prompt))
    assert forms.ttft(c) == pytest.approx(full) or prompt % c


def test_where_it_departs_is_told_with_the_published_numbers():
    found = explain(answer(Question(**QUESTIONS["dense"]), with_remedies=False))
    forms, told = Letters(found.answer).forms, " ".join(found.departures)
    kv = 2 * 80 * 8 * 128 * found.answer.workload.context * 32
    bare = forms.ridge * (forms.weights + kv) / (2 * forms.psi) - 32
    assert f"c* {bare:,.0f} instead of {found.answer.textbook.chunk_star:,.0f}" in told
    shown = {each.key: each.value for each in (*found.textbook, *found.corrected)}
    assert f"{shown['E9a']} charges the short last chunk in full and is no bound; s_p · t / c, {shown['E9']}" in told
    assert f"reached at {shown['C2']}, not {shown['E6'].removesuffix(' tokens')}" in told
    tight = explain(answer(Question(**{**QUESTIONS["dense"], "tpot": 0.01}), with_remedies=False))
    assert any("E10 and E12 are published for the arithmetic alone" in each for each in tight.departures)


def test_the_shortest_gap_is_the_shortest(derived):
    """The last of the three questions, against every chunk that keeps the other limits."""
    found, told = derived.answer, derived.questions[2].answer
    if "the shortest gap" not in told:
        assert found.window.chunk_min is None or found.case.deployment.engine.composition != "mixed"
        return
    view = outlook(found.case.deployment, found.workload, replace(found.slo, itl=None))
    keeping = [c for c in range(1, found.window.chunk_max) if all(each.holds(c) for each in every_limit(view))]
    assert f"is {format_duration(min(view.expected.gap(c) for c in keeping))}, at chunk {keeping[0]:,}" in told


def test_notes_say_what_the_textbook_does_not_see():
    """One for each of experts, ranks, stages, drafts, prompts first, and several prompts in a step."""
    wanted = {"experts": "all 116.8e9 parameters", "ranks": "one of 4 attention ranks", "stages": "2 pipeline stages",
              "drafts": "know no drafts", "latent": "runs a prompt's steps without decodes", "dense": ""}  # fmt: skip
    for name, words in wanted.items():
        found = explain(answer(Question(**QUESTIONS[name]), with_remedies=False)).notes
        assert any(words in note for note in found) if words else not found, name
    short = {**QUESTIONS["dense"], "prompt": 100, "chunk": 1000, "batch": 4}
    found = explain(answer(Question(**short), with_remedies=False))
    assert any("holds 10 prompts at once" in note for note in found.notes)


@pytest.mark.parametrize("changes", [
    {"prompt": 100, "output": 10, "batch": 30_000}, {"prompt": 10, "output": 300}, {"prompt": 10, "chunk": 8192},
    {"engine": "sglang", "chunk": 1024}, {"ttft": 0.01}, {"gpu": "l40s", "batch": 2000},
    {"engine": "sglang", "batch": 200}, {"model": "mistral-7b-v0.1"}, {"prompt": 1, "output": 2}, {"itl": 0.001},
    {"model": "gemma-3-27b", "prompt": 16_000}, {"prompt": 120_000, "ttft": 30.0}, {"output": 1, "tpot": None},
])  # fmt: skip
def test_the_edges_are_explained_too(changes):
    """Without a crash, in 80 columns, with LaTeX that balances; a negative chunk is told as what it is."""
    given = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "prompt": 4000, "batch": 32, "ttft": 1.0, "tpot": 0.03}
    question = {**given, **changes}
    if question.get("output") == 1:
        question["batch"] = None
    try:
        found = explain(answer(Question(**question), with_remedies=False))
    except ChunkcalcError as error:
        assert question.get("output") == 1, error
        return
    text = plain(report.text(found))
    assert max(map(len, text.splitlines())) <= 80
    bare = re.sub(r"\\[{}]", "", derivation.latex(found))
    assert bare.count("{") == bare.count("}")
    shown = {each.key: each for each in found.textbook}
    if shown["E6"].result <= 0:
        assert "the decodes alone are beyond the ridge" in shown["E6"].takeaway
    assert not any(each.key == "C2" and each.result <= 0 for each in found.corrected)


def test_the_report_fits_a_terminal_and_is_what_it_was(snapshot):
    found = run("explain", *SECOND)
    assert found.returncode == 0
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert found.stdout == snapshot


def test_every_report_of_every_kind_of_model_fits(derived):
    for line in plain(report.text(derived)).splitlines():
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
    assert found["schema"] == "chunkcalc.explain/2"
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
    text = plain(report.text(found))
    assert "no chunk keeps every limit" in text
    assert "the decodes alone miss TPOT on this hardware" in text
