import bentoml

ENGINE = {"model": "microsoft/phi-4", "max_model_len": 8192, "max_num_seqs": 64}


@bentoml.service(
    name="phi4",
    traffic={"timeout": 300, "concurrency": 64},
    resources={"gpu": 1, "gpu_type": "nvidia-l4"},
    envs=[{"name": "HF_TOKEN"}],
)
class Phi4:
    def __init__(self) -> None:
        from vllm import AsyncEngineArgs, AsyncLLMEngine

        args = AsyncEngineArgs(**ENGINE, max_num_batched_tokens=8192)
        self.engine = AsyncLLMEngine.from_engine_args(args)

    @bentoml.api
    async def generate(self, prompt: str, max_tokens: int = 512) -> str:
        from uuid import uuid4

        from vllm import SamplingParams

        out = ""
        async for chunk in self.engine.generate(prompt, SamplingParams(max_tokens=max_tokens), str(uuid4())):
            out = chunk.outputs[0].text
        return out
