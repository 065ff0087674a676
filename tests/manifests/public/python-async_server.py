import os

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams

MODEL_ID = "mistralai/Mistral-Small-3.2-24B-Instruct-2506"
KIB = 1024
N_GPUS = 2

engine_args = AsyncEngineArgs(
    model=MODEL_ID,
    tokenizer_mode="mistral",
    tensor_parallel_size=N_GPUS,
    max_model_len=48 * KIB,
    max_num_seqs=64,
    max_num_batched_tokens=6 * KIB,
    enable_chunked_prefill=True,
)
engine = AsyncLLMEngine.from_engine_args(engine_args)
app = FastAPI()


@app.post("/generate")
async def generate(request: Request) -> StreamingResponse:
    body = await request.json()
    params = SamplingParams(max_tokens=min(int(body.get("max_tokens", 512)), 2048))

    async def stream():
        async for output in engine.generate(body["prompt"], params, request_id=body["id"]):
            yield output.outputs[0].text + "\n"

    return StreamingResponse(stream())


if __name__ == "__main__":
    uvicorn.run(app, host="0.0.0.0", port=int(os.environ.get("PORT", 8000)))
