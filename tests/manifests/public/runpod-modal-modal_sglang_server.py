"""An SGLang server on Modal, flags as a list."""
import subprocess

import modal

MODEL_ID = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
GPU = "H200"
N_GPU = 2
PORT = 8000

image = (
    modal.Image.from_registry("lmsysorg/sglang:v0.5.3-cu129")
    .entrypoint([])
    .env({"HF_XET_HIGH_PERFORMANCE": "1"})
)
app = modal.App("coder")


def flags() -> list[str]:
    return [
        "--model-path", MODEL_ID,
        "--tp", str(N_GPU),
        "--chunked-prefill-size", "16384",
        "--context-length", str(128 * 1024),
        "--max-running-requests", "96",
        "--host", "0.0.0.0", "--port", str(PORT),
    ]


@app.function(image=image, gpu=f"{GPU}:{N_GPU}", timeout=24 * 3600, min_containers=1)
@modal.concurrent(max_inputs=100)
@modal.web_server(port=PORT, startup_timeout=1200)
def serve():
    subprocess.Popen(["python", "-m", "sglang.launch_server", *flags()])


@app.function(gpu="L4:1")
@modal.web_server(port=8001, startup_timeout=600)
def embed():
    subprocess.Popen("vllm serve Qwen/Qwen3-Embedding-0.6B --port 8001 --max-num-batched-tokens 32768", shell=True)
