"""Custom resources and Helm values that set an engine up by fields of their own: whichever kind one is."""

from __future__ import annotations

from collections.abc import Iterator

from chunkcalc.manifests.configs import Configs
from chunkcalc.manifests.drafts import Draft
from chunkcalc.manifests.kserve import inference_service, llm_inference_service
from chunkcalc.manifests.operators import kaito, kubeai, model_booster, nim_service, ray_serve
from chunkcalc.manifests.scope import Scope
from chunkcalc.manifests.stacks import model_spec, modelservice, vllm_runtime

READERS = (
    inference_service, llm_inference_service, model_spec, vllm_runtime, modelservice, kubeai, kaito, model_booster,
    ray_serve, nim_service,
)  # fmt: skip


def drafts(scope: Scope, configs: Configs) -> Iterator[Draft]:
    """What a value sets up, if it is of a kind that is known; its containers are then not looked at again."""
    for read in READERS:
        yield from read(scope, configs)
