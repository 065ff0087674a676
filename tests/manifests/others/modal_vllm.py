import subprocess

import modal

MODEL_NAME = "Qwen/Qwen3-8B-FP8"
N_GPU = 1

image = (
    modal.Image.debian_slim(python_version="3.12")
    .uv_pip_install("vllm==0.10.1.1", "huggingface_hub[hf_transfer]")
    .env({"HF_HUB_ENABLE_HF_TRANSFER": "1"})
)
app = modal.App("corp-vllm")
hf_cache = modal.Volume.from_name("hf-cache", create_if_missing=True)


@app.function(image=image, gpu=f"H100:{N_GPU}", scaledown_window=900, volumes={"/root/.cache/huggingface": hf_cache})
@modal.concurrent(max_inputs=48)
@modal.web_server(port=8000, startup_timeout=600)
def serve():
    cmd = [
        "vllm",
        "serve",
        MODEL_NAME,
        "--host",
        "0.0.0.0",
        "--port",
        "8000",
        "--max-num-batched-tokens",
        str(4096),
        "--tensor-parallel-size",
        str(N_GPU),
    ]
    subprocess.Popen(" ".join(cmd), shell=True)
