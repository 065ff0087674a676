from ray import serve
from ray.llm.examples.sglang.modules.builder import build_sglang_openai_app
from ray.serve.llm import LLMConfig

config = LLMConfig(
    model_loading_config={
        "model_id": "gemma-4b",
        "model_source": "google/gemma-3-4b-it",
    },
    accelerator_type="A10G",
    deployment_config={"autoscaling_config": {"min_replicas": 0, "max_replicas": 2}},
    engine_kwargs={
        "model_path": "google/gemma-3-4b-it",
        "tp_size": 1,
        "chunked_prefill_size": 2048,
        "max_running_requests": 40,
        "context_length": 8192,
        "mem_fraction_static": 0.75,
    },
)

serve.start(http_options={"port": 8000})
serve.run(build_sglang_openai_app({"llm_configs": [config]}), blocking=True)
