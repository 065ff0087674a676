"""What is found in deployment files: every shape, every line, and nothing but answers to bad input."""

import json
import os
import random
import shlex
import string
import subprocess

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkcalc.engines.words import Word
from chunkcalc.errors import ChunkcalcError
from chunkcalc.gate.check import check_source
from chunkcalc.gate.config import Config
from chunkcalc.manifests.expand import arithmetic, kubernetes, text_of, unknown, unknowns
from chunkcalc.manifests.find import find
from chunkcalc.manifests.launches import TRTLLM_NAMES
from chunkcalc.manifests.nodes import MAX_NODES, documents
from chunkcalc.manifests.shell import run_dry
from chunkcalc.manifests.sources import MAX_BYTES, Source, decode, files, read, shown
from tests.manifest_files import check_text, expected, extracted, manifests, options

MANIFESTS = manifests()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_shape_is_read(path):
    wanted = [{key: value for key, value in entry.items() if key != "comment"} for entry in expected(path)]
    assert json.loads(json.dumps(extracted(path))) == wanted


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_every_flag_stands_on_its_line(path):
    source = read(path, path.name, True)
    lines = (source.text or "").split("\n")
    for process in find(source):
        for word in process.command.words if process.command else ():
            flag = word.partition("=")[0].lstrip("-")
            if (
                isinstance(word, Word)
                and word.line
                and word.startswith("--")
                and not flag.startswith(("config", "extra"))
            ):
                here = lines[word.line - 1].replace("-", "_")
                key = "".join(part.capitalize() if i else part for i, part in enumerate(flag.split("-")))
                flag = {own: name.lstrip("-") for name, own in TRTLLM_NAMES.items()}.get(f"--{flag}", flag)
                parts = {flag.replace("-", "_"), key, word.pointer.rsplit("/", 1)[-1].replace("-", "_")}
                assert any(part in here for part in parts), (word, word.line, lines[word.line - 1])


def test_a_folder_is_read_in_a_fixed_order_without_links_to_folders(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/x.yaml", "a.yml", "c.txt", "b/d.sh"):
        (tmp_path / name).write_text("a: 1\n")
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.yaml").write_text("a: 1\n")
    found = [shown(path, tmp_path) for path, _ in files([str(tmp_path)], tmp_path)]
    assert found == ["a.yml", "b/d.sh", "b/x.yaml"]


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    assert files([str(tmp_path)], tmp_path) == []
    assert read(tmp_path / "pipe.yaml", "pipe.yaml", True).problem == "is not a file"


def test_a_path_that_does_not_exist_is_wrong_usage(tmp_path):
    with pytest.raises(ChunkcalcError, match="does not exist"):
        files(["nothing.yaml"], tmp_path)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a" * (MAX_BYTES + 1), "is larger than 16 MiB"),
        (b"a\0b", "is a binary file"),
        (b"a: \xff\xfe\n", "is not UTF-8 text"),
    ],
)
def test_bytes_that_are_no_text_are_a_problem_of_the_file(data, problem):
    source = decode(data, "x.yaml", True)
    assert source.text is None and source.problem == problem
    assert [process.problems for process in find(source)] == [(problem,)]
    assert [(process.kind, process.problems) for process in find(source._replace(asked=False))] == [
        ("skipped", (problem,))
    ]


def test_bom_and_line_ends_make_no_difference():
    text = "args:\n- --max-num-seqs=8\n"
    for data in (text.encode(), b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), text.encode("utf-16")):
        assert decode(data, "x").text == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(string.printable.strip(), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(string.ascii_letters, min_size=1), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=150)
def test_yaml_reads_as_the_library_reads_it(value):
    text = yaml.safe_dump({"root": value}, allow_unicode=True)
    roots, problem = documents(text)
    assert problem is None
    assert roots[0].plain() == yaml.safe_load(text)


def test_anchors_and_merge_keys():
    roots, problem = documents("base: &b {image: x, args: [a]}\nuse:\n  <<: *b\n  args: [c]\n")
    assert problem is None
    assert roots[0].plain()["use"] == {"image": "x", "args": ["c"]}


def test_an_alias_bomb_stops_at_the_bound():
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))
    _, problem = documents(f"a0: &a0 [x, x]\n{levels}\n")
    assert problem is not None and f"{MAX_NODES:,}" in problem.what


def test_deep_nesting_stops_at_the_bound():
    _, problem = documents("[" * 5000 + "]" * 5000)
    assert problem is not None and ("deep" in problem.what or "nesting" in problem.what)


def test_a_tag_makes_no_object():
    roots, _ = documents("a: !!python/object/apply:os.system ['true']\n")
    assert roots[0].get("a").plain() == ["true"]


def here(text):
    return lambda offset: Word("", text.count("\n", 0, offset) + 1)


def by_bash(script):
    """The arguments that bash gives to each call of `vllm`."""
    stub = 'vllm() { printf "%s\\0" "$@"; printf "\\1"; }\n'
    done = subprocess.run(["bash", "-c", stub + script], capture_output=True, check=True, text=True)
    return [call.split("\0")[:-1] for call in done.stdout.split("\1")[:-1]]


def by_us(script):
    lines = run_dry(script, here(script), {}).lines
    return [[str(word) for word in line.words[1:]] for line in lines if line.words[0] == "vllm"]


SCRIPTS = [
    "A=1; vllm serve $A ${A} \"$A\" '$A' \\$A",
    'B="x  y"; vllm serve $B "$B"',
    "vllm serve \\\n  --a 1 \\\n  --b=2",
    'vllm serve ${C:-d} ${C:-} "${C:-}" ${C:+e} x',
    "N=$((2*3+4)); vllm serve $((N/2)) $((N % 3))",
    'ARGS=(--a "b c" # why\n --d); vllm serve "${ARGS[@]}" --e',
    'ARGS=(--a); ARGS+=(--b "c d"); vllm serve "${ARGS[@]}"',
    "X=1 vllm serve --y && vllm serve --z; vllm serve --w",
    "vllm serve --a \\\n  # gone\n: --b",
    "vllm serve `# note` --a \"b'c\" 'd\"e'",
    ': "${P:=64}"; vllm serve --p $P',
    "E=; vllm serve $E --a '' \"\"",
    "vllm serve --j '{\"a\": [1, 2]}' > /dev/null 2>&1 <<END; vllm serve --k\nbody $A\nEND\n",
    "S='--a 1'; S+=' --b 2'; vllm serve $S",
    'export D="q"; local_var=2; vllm serve --d="$D$local_var"',
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_read_as_bash_reads_them(script):
    assert by_us(script) == by_bash(script.replace("> /dev/null 2>&1", ""))


WORD = st.text(string.ascii_letters + string.digits + " '\"$\\#;|&=-_./", min_size=0, max_size=10)


@given(st.lists(WORD, min_size=1, max_size=6))
@settings(max_examples=60)
def test_quoted_words_survive(words):
    script = "vllm " + " ".join(shlex.quote(word) for word in words)
    assert by_us(script) == [words]


def test_what_is_not_known_is_marked_and_named():
    text = text_of("--a $X ${Y} $(hostname -i)", {})
    assert unknowns(text) == ["$X", "$Y", "$(hostname -i)"]
    assert unknowns(arithmetic("TP*2", {})) == ["$TP"]
    assert arithmetic("2**9999", {}).startswith(unknown("x")[0])


def test_kubernetes_variables():
    assert kubernetes("$(A)/$$(A)/$(B)", {"A": "1"}) == "1/$(A)/$(B)"


def test_variables_that_double_each_other_end():
    script = "A=xxxxxxxxxx\n" + 'A="$A$A"\n' * 60 + "vllm serve $A"
    assert len(by_us(script)) == 1


def test_a_variable_of_one_branch_is_not_known():
    report = check_text(
        "if [ -n $Q ]; then B=4096; fi\nvllm serve Qwen/Qwen3-8B --max-num-batched-tokens $B\n", gpu="h100"
    )
    assert report.deployments[0].missing == ("--max-num-batched-tokens is $B: not known from this file",)


SMALL = {
    # an unknown number inside JSON is not known; it is no mistake of the file
    "json.sh": ("vllm serve Qwen/Qwen3-8B --speculative-config \"{\\\"num_speculative_tokens\\\": $M}\"\n",
                [("vllm", "unknown", 1)]),
    "array.sh":
        ('CMD=(\n  vllm serve Qwen/Qwen3-8B \\\n  --max-num-seqs 8\n)\n"${CMD[@]}"\n', [("vllm", "evaluated", 1)]),
    "branch.sh":
        ("A=()\nif [ x ]; then A=(--max-num-batched-tokens 1024); fi\nvllm serve Qwen/Qwen3-8B \"${A[@]}\"\n",
                  [("vllm", "unknown", 1)]),
    "eval.sh":
        ('E=""\neval "exec vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 4096 $E"\n', [("vllm", "evaluated", 1)]),
    "empty.yaml": ("image: vllm/vllm-openai:v0.11.0\nargs: [--model=Qwen/Qwen3-8B, '--max-num-batched-tokens=']\n",
                   [("vllm", "evaluated", 1)]),
    "dashes.yaml":
        ("image: vllm/vllm-openai:v0.11.0\ncommand: [/bin/bash, -lc, --]\nargs: [vllm serve Qwen/Qwen3-8B]\n",
                    [("vllm", "evaluated", 1)]),
    "opaque.yaml": ("image: vllm/vllm-openai:v0.11.0\ncommand: [/usr/local/bin/run.sh]\n", [(None, "unknown", 1)]),
    "pairs.yaml": ("image: vllm/vllm-openai:v0.9.0\nargs: [--model=Qwen/Qwen3-8B, --limit-mm-per-prompt, image=10]\n",
                   [("vllm", "evaluated", 1)]),
    "devices.yaml": ("services: {v: {image: 'vllm/vllm-openai:v0.10.0', command: --model Qwen/Qwen3-8B -tp 2, deploy: "
                     "{resources: {reservations: {devices: [{device_ids: ['0,1']}]}}}}}\n", [("vllm", "evaluated", 2)]),
    "kaito.yaml": ("apiVersion: kaito.sh/v1beta1\nkind: Workspace\nresource: {count: 2, instanceType: "
                   "Standard_NC48ads_A100_v4}\ninference: {preset: {name: llama-3.3-70b-instruct}}\n",
                   [("vllm", "evaluated", 4)]),
    "booster.yaml": ("kind: ModelBooster\nspec: {backend: {modelURI: 'hf://Qwen/Qwen3-8B', workers: [{type: prefill, "
                     "image: 'x/vllm-openai:v0.10.0', config: {max-num-batched-tokens: 4096}}, {type: decode}]}}\n",
                     [("vllm", "evaluated", 1), ("vllm", "evaluated", 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_shapes(name):
    text, wanted = SMALL[name]
    report = check_text(text, name, gpu="h100")
    assert [(each.engine, each.status, each.gpus or 1) for each in report.deployments] == wanted
    assert not [finding for finding in report.findings if finding.level == "error"]


def mutated(text, rng):
    """A text with something broken in it."""
    lines = text.split("\n")
    at = rng.randrange(max(1, len(lines)))
    kind = rng.randrange(8)
    if kind == 0:
        return text[: rng.randrange(len(text) + 1)]
    if kind == 1:
        lines[at] = " " * rng.randrange(5) + lines[at].lstrip()
    elif kind == 2:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 3:
        del lines[at]
    elif kind == 4:
        lines[at] = "\t" + lines[at]
    elif kind == 5:
        spot = rng.randrange(len(text) + 1)
        return (
            text[:spot]
            + rng.choice(["{", "]", '"', "'", "&a ", "*a ", "\\", "$(", "${", "<<E\n", "\x85", "\U0001f600"])
            + text[spot:]
        )
    elif kind == 6:
        return "".join(rng.choice(string.printable) if rng.random() < 0.02 else c for c in text)
    else:
        lines[at] = lines[at].replace("1", rng.choice(["-1", "0", "1e999", "99999999999999999999", "null", "[1]", "x"]))
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(12))
def test_broken_files_are_answered(seed):
    """Whatever is done to a file, it gives deployments or what is unknown; never an exception."""
    rng = random.Random(seed)
    loads = [{}, {"gpu": "h100", "prompt": "4000", "output": "500", "concurrency": "32", "ttft": "2s", "tpot": "50ms"}]
    for path in rng.sample(MANIFESTS, 40):
        text = mutated(read(path, path.name).text or "", rng)
        asked = options(**rng.choice(loads))
        checked = check_source(Source(path.name, text, "", True), asked, Config(), path.name)
        for each in checked.deployments:
            assert each.status in ("evaluated", "unknown", "disabled")
            assert each.status != "unknown" or each.missing
