"""A running server judged by its metrics page: pages made from replays come back as the load they were made from."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkcalc import replay
from chunkcalc.errors import ChunkcalcError
from chunkcalc.measurements.metrics import HISTOGRAMS, Histogram, between, parse_page
from chunkcalc.scoring.observed import load_of, measured
from chunkcalc.traffic.arrivals import poisson

SERVER = {"model": "llama-3.1-8b", "gpu": "h100-sxm"}
# Upper ends of the engines' buckets.
SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, math.inf)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, math.inf)
NAMES = {
    "vllm": {"requests": "request_success_total", "running": "num_requests_running", "waiting": "num_requests_waiting"},
    "sglang": {"requests": "num_requests_total", "running": "num_running_reqs", "waiting": "num_queue_reqs"},
}


def histogram(name, values, bounds):
    rows = [f"# TYPE {name} histogram"]
    for bound in bounds:
        end = "+Inf" if math.isinf(bound) else f"{bound}"
        rows.append(f'{name}_bucket{{model_name="m",le="{end}"}} {sum(value <= bound for value in values)}')
    return [*rows, f'{name}_sum{{model_name="m"}} {sum(values)}', f'{name}_count{{model_name="m"}} {len(values)}']


def page(engine, served, running=0):
    """The page of an engine that served these requests."""
    done, names = [each for each in served if each.finished is not None], NAMES[engine]
    prompt, output = ([getattr(each.request, name) for each in done] for name in ("prompt", "output"))
    rows = [
        f'{engine}:{names["requests"]}{{model_name="m"}} {len(done)}',
        f'{engine}:prompt_tokens_total{{model_name="m"}} {sum(prompt)}',
        f'{engine}:generation_tokens_total{{model_name="m"}} {sum(output)}',
        f'{engine}:{names["running"]}{{model_name="m"}} {running}',
    ]
    times = {
        "ttft": [each.ttft for each in done], "itl": [each.gap for each in done],
        "e2e": [each.finished - each.request.arrival for each in done],
    }  # fmt: skip
    if engine == "vllm":
        times["tpot"] = [each.tpot for each in done]
        rows += histogram("vllm:request_prompt_tokens", prompt, TOKENS)
        rows += histogram("vllm:request_generation_tokens", output, TOKENS)
    for name, values in times.items():
        rows += histogram(f"{engine}:{HISTOGRAMS[name][0]}", values, SECONDS)
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def served():
    return replay(poisson(4.0, 400, 3000, 200, 7, 0.3), **SERVER).served


@pytest.mark.parametrize("engine", NAMES)
def test_a_page_comes_back_as_the_load_that_it_was_made_from(engine, served):
    half = len(served) // 2
    first, last = parse_page(page(engine, served[:half]), "a"), parse_page(page(engine, served), "b")
    later = served[half:]
    seconds = later[-1].request.arrival - later[0].request.arrival
    made = between(first, last, "b")
    load = load_of(made, seconds, "b")
    assert (made.engine, made.model, load.requests) == (engine, "m", len(later))
    assert load.rate == pytest.approx(len(later) / seconds, rel=0.03)
    assert load.prompt == pytest.approx(fmean(each.request.prompt for each in later), rel=0.05)
    assert load.output == pytest.approx(fmean(each.request.output for each in later), rel=0.05)
    stay = fmean(each.finished - each.request.arrival for each in later)
    assert load.users == pytest.approx(load.rate * stay, rel=1e-6)
    seen = measured(made, load)
    assert seen["ttft"] == pytest.approx(fmean(each.ttft for each in later), rel=1e-6)
    assert seen["tpot"] == pytest.approx(fmean(each.tpot for each in later), rel=0.05)
    exact = sorted(each.ttft for each in later)[math.ceil(0.95 * len(later)) - 1]
    above = next(bound for bound in SECONDS if bound >= exact)
    assert max((bound for bound in SECONDS if bound < exact), default=0) <= seen["ttft_p95"] <= above


@given(st.lists(st.floats(1e-4, 15), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_a_percentile_lies_in_the_bucket_of_the_exact_one(values, q):
    counts = tuple(float(sum(value <= bound for value in values)) for bound in SECONDS)
    found = Histogram(SECONDS, counts, sum(values), float(len(values))).quantile(q)
    exact = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    place = next(index for index, bound in enumerate(SECONDS) if bound >= exact)
    low = SECONDS[place - 1] if place else 0.0
    assert low - 1e-9 <= found <= min(SECONDS[place], 20.0) + 1e-9


def test_two_pages_tell_of_a_restart_and_of_another_server(served):
    few, many = (parse_page(page("vllm", served[:count]), "x") for count in (100, 300))
    with pytest.raises(ChunkcalcError, match="started anew"):
        between(many, few, "x")
    with pytest.raises(ChunkcalcError, match="another server"):
        between(parse_page(page("sglang", served[:10]), "x"), many, "x")
    with pytest.raises(ChunkcalcError, match="nothing to judge"):
        load_of(between(few, few, "x"), 60.0, "x")


@pytest.mark.parametrize("text", ["", "up 1\n", "# TYPE node_cpu counter\nnode_cpu 3\n", "<html>no</html>"])
def test_other_pages_are_refused(text):
    with pytest.raises(ChunkcalcError) as error:
        parse_page(text, "x")
    assert "/metrics" in error.value.hint


@given(st.integers(0, 3000), st.text(max_size=30))
def test_a_cut_or_damaged_page_is_read_or_refused_in_a_sentence(at, noise):
    text = PAGE[:at] + noise + PAGE[at + len(noise) :]
    for each in (PAGE[:at], text):
        try:
            parse_page(each, "x")
        except ChunkcalcError as error:
            assert error.what


PAGE = page("vllm", replay(poisson(4.0, 20, 1000, 50, 1), **SERVER).served, running=3)
COMMAND = ("--", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--max-num-batched-tokens", "4096")


def observed(run_cli, tmp_path, *words, text=PAGE):
    path = tmp_path / "metrics.txt"
    path.write_text(text)
    return run_cli("observe", str(path), *words)


def test_a_server_is_judged_under_the_load_that_was_seen(run_cli, tmp_path, served):
    text = page("vllm", served, running=12)
    words = ("--gpu", "h100", "--ttft", "2s", "--tpot", "30ms", "--itl", "50ms")
    found = observed(run_cli, tmp_path, *words, "--json", *COMMAND, text=text)
    assert found.returncode == 1, found.stderr
    data = json.loads(found.stdout)
    assert data["schema"] == "chunkcalc.observe/1"
    tpot = data["latencies"]["tpot"]
    assert tpot["explained"]
    assert tpot["predicted_s"] == pytest.approx(tpot["measured_s"], rel=0.3)
    assert any(each["fix"] for each in data["findings"])
    shown = observed(run_cli, tmp_path, *words, *COMMAND, text=text)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "advice" in shown.stdout
    easy = observed(run_cli, tmp_path, "--gpu", "h100", "--ttft", "9s", "--tpot", "900ms", *COMMAND, text=text)
    assert easy.returncode == 0, easy.stdout


def test_a_deployment_file_describes_the_server(run_cli, tmp_path):
    path = tmp_path / "start.sh"
    path.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-batched-tokens 4096\n")
    found = observed(run_cli, tmp_path, "--config", str(path), "--gpu", "h100", "--concurrency", "8", "--json")
    assert json.loads(found.stdout)["deployment"]["effective"]["budget"] == 4096
    both = observed(run_cli, tmp_path, "--config", str(path), "--gpu", "h100", *COMMAND)
    assert both.returncode == 2


def test_without_a_deployment_the_page_is_shown(run_cli, tmp_path):
    found = observed(run_cli, tmp_path)
    assert found.returncode == 0
    assert "nothing is predicted" in found.stdout


class Server(BaseHTTPRequestHandler):
    """A metrics page, and addresses that lead elsewhere."""

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.send_response(302 if path == "/moved" else 200 if path == "/metrics" else 404)
        if path == "/moved":
            self.send_header("Location", "/metrics")
        self.end_headers()
        if path == "/metrics":
            self.wfile.write(PAGE.encode())

    def log_message(self, *words):
        """Nothing."""


@pytest.fixture
def address():
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_address_is_asked_without_redirects_and_credentials_are_not_printed(run_cli, address):
    assert run_cli("observe", f"http://{address}/metrics").returncode == 0
    for path, said in (("moved", "answers 302"), ("nowhere", "answers 404")):
        found = run_cli("observe", f"http://user:secret@{address}/{path}?token=secret")
        assert (found.returncode, said in found.stderr, "secret" in found.stderr) == (2, True, False)


@pytest.mark.parametrize(
    "words",
    [("nofile",), ("ftp://host/metrics",), ("http://127.0.0.1:1/metrics",), ("metrics.txt", "--apart", "60s"),
     ("metrics.txt", "metrics.txt", "metrics.txt"), ("metrics.txt", "--rate", "x")],
)  # fmt: skip
def test_bad_sources_are_one_sentence(run_cli, tmp_path, words):
    (tmp_path / "metrics.txt").write_text(PAGE)
    found = run_cli("observe", *words, folder=tmp_path)
    assert found.returncode == 2
    assert found.stderr.startswith("error: ")
    assert "Traceback" not in found.stderr
