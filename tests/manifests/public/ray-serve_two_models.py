from ray import serve
from ray.serve.llm import LLMConfig, build_openai_app

small = LLMConfig(
    model_loading_config=dict(
        model_id="phi-mini",
        model_source="microsoft/Phi-4-mini-instruct",
    ),
    accelerator_type="L4",
    deployment_config=dict(autoscaling_config=dict(min_replicas=1, max_replicas=3)),
    engine_kwargs=dict(max_model_len=16384, max_num_seqs=32, max_num_batched_tokens=3072),
)

large = LLMConfig(
    model_loading_config={"model_id": "Qwen/Qwen3-Next-80B-A3B-Instruct"},
    accelerator_type="H100",
    deployment_config={
        "num_replicas": 1,
        "max_ongoing_requests": 192,
    },
    engine_kwargs={
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 2,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 128,
        "gpu_memory_utilization": 0.9,
    },
    # placement_group_config={"bundles": [{"GPU": 1}] * 4},
)

app = build_openai_app({"llm_configs": [small, large]})

if __name__ == "__main__":
    serve.run(app, blocking=True)
