import os

import yaml
from ray.serve.llm import LLMConfig, build_openai_app

with open(os.path.join(os.path.dirname(__file__), "serving.yaml")) as file:
    SETTINGS = yaml.safe_load(file)


def config(name: str) -> LLMConfig:
    entry = SETTINGS[name]
    return LLMConfig(
        model_loading_config={"model_id": name, "model_source": entry["source"]},
        accelerator_type=os.environ.get("ACCELERATOR", "L40S"),
        engine_kwargs={
            "tensor_parallel_size": int(os.environ.get("TP", "1")),
            "max_num_batched_tokens": entry["budget"],
            "max_model_len": 24576,
            **entry.get("engine", {}),
        },
        log_engine_metrics=True,
    )


def build(args: dict):
    return build_openai_app({"llm_configs": [config(name) for name in args.get("models", SETTINGS)]})
