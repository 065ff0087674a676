"""Anyscale service: anyscale service deploy -f service.yaml imports app from here."""

import os

from ray.serve.llm import LLMConfig, build_openai_app

MODEL = os.environ.get("SERVE_MODEL", "google/gemma-3-12b-it")

llm_config = LLMConfig(
    model_loading_config=dict(
        model_id="gemma-12b",
        model_source=MODEL,
    ),
    accelerator_type="L40S",
    deployment_config=dict(
        autoscaling_config=dict(min_replicas=1, max_replicas=3),
    ),
    engine_kwargs=dict(
        max_model_len=16384,
        max_num_batched_tokens=4096 * 2,
        tensor_parallel_size=int(os.environ.get("TP", "1")),
    ),
    log_engine_metrics=True,
)

app = build_openai_app({"llm_configs": [llm_config]})
