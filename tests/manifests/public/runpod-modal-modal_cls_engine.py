import modal

MODEL = "microsoft/Phi-4-multimodal-instruct"
MINUTES = 60

image = modal.Image.debian_slim(python_version="3.12").uv_pip_install("vllm==0.11.0", "librosa")
app = modal.App("phi-mm", image=image)
weights = modal.Volume.from_name("weights", create_if_missing=True)


@app.cls(gpu="A100-80GB:2", timeout=30 * MINUTES, scaledown_window=5 * MINUTES, volumes={"/weights": weights})
@modal.concurrent(max_inputs=80)
class Model:
    @modal.enter()
    def start(self):
        from vllm import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        self.engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=MODEL,
                download_dir="/weights",
                trust_remote_code=True,
                tensor_parallel_size=2,
                max_model_len=32_768,
                max_num_batched_tokens=9_216,
                max_num_seqs=80,
                limit_mm_per_prompt={"audio": 1, "image": 2},
            )
        )

    @modal.method()
    async def complete(self, prompt: str, rid: str):
        from vllm import SamplingParams

        async for out in self.engine.generate(prompt, SamplingParams(max_tokens=256), rid):
            last = out
        return last.outputs[0].text


@app.local_entrypoint()
def main():
    print(Model().complete.remote("Hello", "1"))
