"""What the formats share: a finding as a sentence, what is unknown as a finding, the summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chunkcalc.gate.catalogue import UNKNOWN, Level
from chunkcalc.gate.check import Report, Unknown
from chunkcalc.gate.deployed import Deployed
from chunkcalc.gate.finding import Finding
from chunkcalc.gate.settings import DURATIONS
from chunkcalc.manifests.process import BROKEN, SKIPPED, UNREADABLE
from chunkcalc.units import format_duration

ORDER: dict[Level, int] = {"error": 0, "warning": 1, "note": 2}
DOCS = "https://github.com/chunkcalc/chunkcalc/blob/main/docs/gate.md"


def sentence(finding: Finding) -> str:
    """A finding with what to write instead."""
    return finding.message + (f"; fix: {finding.fix.text}" if finding.fix is not None else "")


def unknowns(report: Report, policy: Unknown) -> list[Finding]:
    """What could not be evaluated, as findings of rule CC000; none where it is ignored."""
    if policy == "ignore":
        return []
    level: Level = "error" if policy == "fail" else "warning"
    return [
        Finding(
            rule=UNKNOWN,
            kind="exact",
            level=level,
            message=f"cannot be evaluated: {'; '.join(each.missing)}",
            file=each.file,
            line=each.line,
            pointer=each.pointer,
            subject=each.name,
        )
        for each in (*report.unknown, *report.skipped)
    ]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by level, then in their order."""
    return sorted(findings, key=lambda finding: ORDER[finding.level])


def title(each: Deployed) -> str:
    """A deployment in one line."""
    if each.engine is None and each.kind in (BROKEN, SKIPPED, UNREADABLE):
        return {BROKEN: "cannot be parsed", SKIPPED: "not read", UNREADABLE: "may start an engine"}[each.kind]
    gpus = f" on {each.gpus or '?'} x {each.gpu}" if each.gpu else ""
    engine = f"{each.engine} {each.engine_version or ''}".strip() if each.engine else "no engine"
    role = f", {each.role}" if each.role != "both" else ""
    return f"{each.name or each.kind or 'process'}: {each.model or 'unknown model'}{gpus}, {engine}{role}"


def state(each: Deployed) -> str:
    """What is to be said of a deployment in a word or two."""
    if each.status != "evaluated":
        return each.status
    if each.refused:
        return "the engine refuses to start" if each.engine_version else "the engine would refuse to start"
    limited = any(key in each.settings for key in DURATIONS)
    return each.verdict or ("limits not checked" if limited else "no limits stated")


def numbers(each: Deployed) -> str:
    """What users get, in one line; empty where it is not known."""
    parts = []
    answer = each.answer
    if answer is not None and answer.load is not None and not answer.load.steady:
        parts.append(f"no steady state at {answer.load.rate:g} requests/s")
    elif answer is not None and each.measured:
        steps = -(-answer.prompt_tokens // answer.chunk)
        judged = answer.load.percentile if answer.load is not None else None
        name = "TTFT" if judged is None else f"p{judged:g} TTFT"
        parts.append(f"{name} {format_duration(answer.expected.ttft_s)} in {steps:,} step{'s' if steps != 1 else ''}")
        if answer.expected.tpot_s is not None:
            parts.append(f"step {format_duration(answer.expected.step_s)}")
            parts.append(f"mean TPOT {format_duration(answer.expected.tpot_s)}")
    elif each.steps is not None and each.measured:
        parts.append(f"TPOT {format_duration(each.steps.tpot_s)}")
    if each.effective is not None and each.role != "decode":
        chunk = answer.chunk if answer is not None else each.effective.chunk
        parts.append(f"chunk {chunk:,}")
    if each.batch is not None and each.measured and each.role != "prefill":
        parts.append(f"batch {each.batch:,}")
    if each.kv_tokens is not None:
        parts.append(f"KV {each.kv_tokens:,} tokens")
    return ", ".join(parts)


def summary(report: Report) -> str:
    """How many of what."""
    counts = {level: sum(1 for f in report.counting() if f.level == level) for level in ORDER}
    waived = len(report.findings) - len(report.counting())
    kinds = ("evaluated", "unknown", "disabled", SKIPPED)
    states = {state: sum(1 for d in report.deployments if d.status == state) for state in kinds}
    skipped, evaluated = states.pop(SKIPPED), states.pop("evaluated")
    parts = [_many(len(report.deployments) - skipped, "deployment")]
    parts += [f"{evaluated} evaluated"] if evaluated and (states["unknown"] or skipped) else []
    parts += [f"{count} {state}" for state, count in states.items() if count]
    parts += [f"{_many(skipped, 'file')} skipped"] if skipped else []
    left = sum(1 for each in report.unknown if each.status == "evaluated")
    parts += [f"{left} not checked against limits"] if left else []
    parts += [_many(counts["error"], "error"), _many(counts["warning"], "warning"), _many(counts["note"], "note")]
    parts += [f"{waived} waived"] if waived else []
    return ", ".join(parts)


def meanings(deployments: Sequence[Deployed]) -> list[str]:
    """Where this version's meaning of a limit alone makes a deployment fail, once each."""
    judged = [each for each in deployments if each.answer is not None and each.measured and not each.answer.holds]
    gap = sum(1 for each in judged if _alone(each, "itl") and "itl" not in each.settings)
    late = sum(1 for each in judged if _late(each))
    out = []
    if gap:
        out.append(
            f"{_many(gap, 'deployment')} fail{'s' if gap == 1 else ''} by the longest gap alone, which --tpot limits "
            "too unless --itl does; --itl none judges the mean"
        )
    if late:
        out.append(
            f"{_many(late, 'deployment')} fail{'s' if late == 1 else ''} by the 95th percentile of TTFT, not its mean; "
            "--percentile mean judges that"
        )
    return out


def _alone(each: Deployed, name: str) -> bool:
    """Whether only one limit fails."""
    assert each.answer is not None
    return [line.name for line in each.answer.limits if line.holds == "no"] == [name]


def _late(each: Deployed) -> bool:
    answer = each.answer
    assert answer is not None
    load, limit = answer.load, answer.slo.ttft
    if load is None or not load.steady or limit is None or "percentile" in each.settings:
        return False
    return _alone(each, "ttft") and load.flow.ttft_at(None) <= limit


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def advice(deployments: Sequence[Deployed]) -> list[str]:
    """What to state so that more can be checked."""
    live = [each for each in deployments if each.status == "evaluated"]
    out = []
    if any(not any(key in each.settings for key in DURATIONS) for each in live):
        out.append("state limits (--ttft, --tpot) and a workload (--prompt, --output, --concurrency) to check them")
    elif any("prompt" not in each.settings for each in live):
        out.append("state a workload (--prompt, --output, --concurrency) to check the limits")
    elif any("concurrency" not in e.settings and "rate" not in e.settings and e.role != "prefill" for e in live):
        out.append("state --concurrency or --rate: without it only bounds are checked, at batch 1")
    return out
