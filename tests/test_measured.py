"""A user's own numbers: how they are read, what they teach, and how sure an answer is after them."""

import itertools
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc import ChunkcalcError, check, fleet, replay, solve, sweep
from chunkcalc.answer.judged import half_widths
from chunkcalc.answer.learning import PRIOR, Factors, Observation, learn, with_factors
from chunkcalc.answer.measured import SPREADS, Numbers, observation, parse_number, parse_numbers
from chunkcalc.answer.question import Question
from chunkcalc.answer.resolve import resolve
from chunkcalc.answer.taught import teach
from chunkcalc.time.step import StepTimer
from chunkcalc.traffic.arrivals import burst

LLAMA = {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8", "prompt": 8192, "output": 1024}
LIMITS = {"ttft": 2.0, "tpot": 0.06}
CASE = resolve(Question(**LLAMA, **LIMITS, batch=32))
TRUE = Factors(kernels=1.2, prompts=1.15, host=1.3, request=1.5)


def numbers_of(texts, truth=TRUE):
    """What a system that differs from the profile by true factors would have measured."""
    listed = [parse_number(text) for text in texts]
    return Numbers(
        each._replace(value=observation(each, CASE.deployment, CASE.workload, None).predict(truth)) for each in listed
    )


@pytest.mark.parametrize(
    ("text", "name", "value", "at"),
    [
        ("tpot=31ms at batch 32", "tpot", 0.031, {"batch": 32}),
        ("prefill=18k tok/s at chunk 8192", "prefill", 18000, {"chunk": 8192}),
        ("1.33s per chunk of 2k", "step", 1.33, {"chunk": 2000}),
        ("1.33 s per chunk", "step", 1.33, {}),
        ("ttft = 0.9 s @ users 16, prompt 4k", "ttft", 0.9, {"users": 16, "prompt": 4000}),
        ("output=1500 tokens/s at concurrency=64", "output", 1500, {"users": 64}),
        ("kv=412k tokens", "kv", 412_000, {}),
        ("kv=30.5GiB", "kv_bytes", 30.5 * 2**30, {}),
    ],
)
def test_numbers_are_read_as_people_write_them(text, name, value, at):
    found = parse_number(text)
    assert (found.name, dict(found.at)) == (name, at)
    assert found.value == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["", "tpot", "tpot=31", "tpot=31ms at", "tpot=31ms at batch", "tpot=31ms at bach 3", "speed=3", "prefill=18k",
     "prefill=0 tok/s", "ttft=1s at batch 3 users 4", "tpot=31ms at chunk 5 budget 6", "tpot=-1ms", "kv=many",
     "tpot=31ms at batch 3 batch 4", "x" * 300, "1s per chunk of"],
)  # fmt: skip
def test_what_is_no_number_is_refused_with_a_hint(text):
    with pytest.raises(ChunkcalcError) as error:
        parse_number(text)
    assert error.value.where == "--measured"
    assert error.value.hint


def test_a_number_that_does_not_say_how_many_decode_is_asked_back():
    with pytest.raises(ChunkcalcError, match="how many decode"):
        solve(**LLAMA, **LIMITS, measured=["tpot=31ms"])


@pytest.mark.parametrize("text", ["tpot=310ms at batch 32", "tpot=31s at batch 32", "tpot=3ms at batch 32",
                                  "kv=600GiB", "prefill=1.8k tok/s at chunk 8192"])  # fmt: skip
def test_a_slip_of_the_pen_is_asked_about_and_not_believed(text):
    with pytest.raises(ChunkcalcError, match="what is predicted"):
        solve(**LLAMA, **LIMITS, batch=32, measured=[text])


def test_the_numbers_of_the_profile_itself_change_nothing_but_the_bands():
    told = teach(CASE.deployment, CASE.workload, numbers_of(["tpot=1ms at batch 32"], Factors()), None)
    assert all(math.isclose(each, 1.0, rel_tol=1e-3) for each in told.factors)
    assert all(part <= 1 for part in told.narrowed)
    assert told.narrowed.tpot < 0.75


def test_true_factors_are_found_where_the_numbers_tell_them_apart():
    texts = ["step=1ms at batch 1", "step=1ms at batch 64", "prefill=1 tok/s at chunk 8192", "step=1ms at chunk 600",
             "ttft=1ms at users 1, prompt 200, output 8"]  # fmt: skip
    told = teach(CASE.deployment, CASE.workload, numbers_of(texts), None)
    for name, found, true in zip(Factors._fields, told.factors, TRUE, strict=True):
        if name in ("kernels", "prompts"):
            assert found == pytest.approx(true, rel=0.05), name
        assert 1 < found < 1.5 * true, name
    assert all(each.explained for each in told.numbers)


@given(st.floats(0.9, 1.3), st.integers(1, 128))  # much faster than measured kernels no memory is
@settings(max_examples=25)
def test_a_number_moves_its_own_prediction_towards_it_and_no_further(factor, batch):
    number = parse_number(f"step=1ms at batch {batch}")
    one = observation(number, CASE.deployment, CASE.workload, None)
    before = one.predict(Factors())
    number = number._replace(value=before * factor)
    (told,) = teach(CASE.deployment, CASE.workload, Numbers([number]), None).numbers
    low, high = sorted((before, number.value))
    assert low * 0.999 <= told.after <= high * 1.001
    assert abs(math.log(told.after / number.value)) <= abs(math.log(before / number.value)) / 2 + 1e-3


def test_more_numbers_never_make_an_answer_less_sure():
    texts = ["tpot=1ms at batch 32", "prefill=1 tok/s at chunk 8192", "tpot=1ms at batch 8"]
    widths = []
    for count in range(1, len(texts) + 1):
        told = teach(CASE.deployment, CASE.workload, numbers_of(texts[:count], Factors()), None)
        widths.append(told.narrowed)
    for before, after in itertools.pairwise(widths):
        assert all(a <= b + 1e-6 for a, b in zip(after, before, strict=True))


def test_learning_is_least_squares_in_logarithms():
    """One factor, one number: the closed form of the posterior, where nothing is far off."""
    found = learn([Observation(1.02, lambda factors: factors.kernels, 0.05)])
    weight = PRIOR.kernels**2 / (PRIOR.kernels**2 + 0.05**2)
    assert math.log(found.factors.kernels) == pytest.approx(weight * math.log(1.02), rel=0.05)
    assert found.covariance[0][0] == pytest.approx(1 / (1 + PRIOR.kernels**2 / 0.05**2), rel=0.1)
    assert found.covariance[1][1] == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("factors", [Factors(kernels=1.5), Factors(prompts=1.5), Factors(0.7, 0.7, 0.7, 0.7, 0.7)])
def test_no_factor_lifts_the_floor_above_the_prediction(factors):
    timer = StepTimer(with_factors(CASE.deployment, factors))
    plain = StepTimer(CASE.deployment)
    for at in ((0, 0, 32, 8000), (512, 4000, 32, 8000), (8192, 0, 0, 0)):
        assert timer.floor(*at) == plain.floor(*at) <= timer.expected(*at)
        slower = max(factors) > 1
        assert (timer.expected(*at) >= plain.expected(*at)) == slower


def test_an_answer_shrinks_its_bands_and_says_so():
    plain = solve(**LLAMA, **LIMITS, batch=32)
    taught = solve(**LLAMA, **LIMITS, batch=32, measured=["tpot=31ms at batch 32", "kv=600k tokens"])
    assert taught.error.tpot < plain.error.tpot
    assert taught.capacity.kv_tokens < 0.9 * plain.capacity.kv_tokens
    told = taught.to_dict()["measured"]
    assert [each["explained"] for each in told["numbers"]] == [True, True]
    assert told["narrowed"]["tpot"] == pytest.approx(taught.error.tpot / plain.error.tpot)
    assert plain.to_dict()["measured"] is None


def test_the_kv_cache_is_what_the_start_up_log_says():
    found = solve(**LLAMA, **LIMITS, batch=32, budget=8192, measured=["kv=600k tokens at budget 8192"])
    plain = solve(**LLAMA, **LIMITS, batch=32, budget=8192)
    moved = plain.capacity.pool_bytes - found.capacity.pool_bytes
    at_start = resolve(Question(**LLAMA, **LIMITS, batch=32, measured=parse_numbers("kv=600k tokens at budget 8192")))
    assert moved == pytest.approx(-at_start.deployment.engine.kv_shift)
    assert found.capacity.kv_tokens == pytest.approx(600_000, rel=0.01)


def test_a_number_that_no_factor_explains_is_named(run_cli):
    words = [f"--{name}={value}" for name, value in (("model", "llama-3.1-70b"), ("gpu", "h100-sxm"), ("tp", 4))]
    words += ["--weights=fp8", "--prompt=8192", "--output=1024", "--batch=32", "--ttft=2s", "--tpot=60ms"]
    found = run_cli(
        "solve", *words, "--measured", "prefill=9k tok/s at chunk 8192", "--measured", "tpot=30ms at batch 32"
    )
    assert "no factor explains it" in found.stdout
    assert "Traceback" not in found.stderr


def test_what_was_learned_holds_for_another_layout_and_no_other_gpu():
    question = Question(**LLAMA, **LIMITS, batch=32, measured=parse_numbers("tpot=40ms at batch 32"))
    own = resolve(question)
    taught = own.question.taught
    other = resolve(replace(own.question, tp=8)).deployment
    assert other.engine.overheads.kernels == own.deployment.engine.overheads.kernels == taught.factors.kernels > 1
    assert other.narrowed.tpot == 1 > own.deployment.narrowed.tpot
    away = resolve(replace(own.question, gpu="h200-sxm")).deployment
    assert away.engine.overheads.kernels == away.narrowed.tpot == 1


def test_every_command_takes_numbers(tmp_path):
    numbers = ["step=20ms at tp 4, batch 32"]
    slow, plain = (
        fleet(
            model="llama-3.1-70b", gpu="h100-sxm", weights="fp8", rate=4, prompt=4000, output=500, ttft=2.0,
            tpot=0.05, measured=measured,
        ).to_dict()["shapes"]
        for measured in (numbers, ())
    )  # fmt: skip

    def together(shapes):
        return next(each for each in shapes if each["kind"] == "colocated" and each["tp"] == 4)["max_rate"]

    assert together(slow) != together(plain)  # slower, and surer, so with another budget
    fields = {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "weights": "fp8"}
    requests = burst(20, 4000, 100)
    served = [replay(requests, **fields, measured=each).tpot["mean"] for each in (numbers, ())]
    assert served[0] > 1.05 * served[1]
    swept = [sweep(**fields, prompt=4000, chunk=512, batch=32, measured=each)["tpot_s"][0] for each in (numbers, ())]
    assert swept[0] > 1.05 * swept[1]
    path = tmp_path / "start.sh"
    path.write_text("vllm serve meta-llama/Llama-3.1-70B-Instruct --quantization fp8 --tensor-parallel-size 4\n")
    judged = [
        check(path, gpu="h100-sxm", prompt=4000, output=500, concurrency=32, ttft=2.0, tpot=0.05, measured=each)
        for each in (numbers, ())
    ]
    assert judged[0].deployments[0].answer.expected.tpot_s > 1.05 * judged[1].deployments[0].answer.expected.tpot_s


def test_a_configuration_holds_numbers(tmp_path):
    (tmp_path / "chunkcalc.toml").write_text('measured = ["tpot=12ms at batch 16", "kv=400k tokens"]\ngpu = "h100"\n')
    path = tmp_path / "start.sh"
    path.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-batched-tokens 2048\n")
    found = check(path, prompt=4000, output=500, concurrency=16, ttft=2.0, tpot=0.05)
    answer = found.deployments[0].answer
    assert [each.number.name for each in answer.case.question.taught.numbers] == ["tpot", "kv"]
    assert dict(answer.case.question.measured[0].at)["budget"] == 2048  # the file's own
    shown = found.to_dict()["deployments"][0]["settings"]["measured"]["value"]
    assert shown == "tpot=12ms at batch 16; kv=400k tokens"
    (tmp_path / "chunkcalc.toml").write_text('measured = "tpot=12 at batch 16"\n')
    with pytest.raises(ChunkcalcError, match="has no unit"):
        check(path, prompt=4000)


def test_a_fleet_asks_for_the_layout_of_a_number():
    with pytest.raises(ChunkcalcError, match="the number is of one"):
        fleet(model="llama-3.1-8b", gpu="h100", rate=4, prompt=4000, ttft=2.0, measured=["tpot=10ms at batch 8"])


def test_numbers_do_not_widen_a_band_and_spreads_are_positive():
    assert all(0 < each < 0.2 for each in SPREADS.values())
    plain = half_widths(StepTimer(CASE.deployment))
    taught = resolve(Question(**LLAMA, **LIMITS, batch=32, measured=parse_numbers("tpot=31ms at batch 32")))
    assert all(a <= b for a, b in zip(half_widths(StepTimer(taught.deployment)), plain, strict=True))


def test_numbers_on_the_command_line_are_those_of_python(run_cli):
    words = ["solve", "--model", "llama-3.1-8b", "--gpu", "h100", "--prompt", "4000", "--batch", "32", "--ttft", "1s"]
    shown = json.loads(run_cli(*words, "--measured", "tpot=20ms at batch 32", "--json").stdout)
    found = solve(model="llama-3.1-8b", gpu="h100", prompt=4000, batch=32, ttft=1.0, measured=["tpot=20ms at batch 32"])
    assert shown == json.loads(json.dumps(found.to_dict()))
