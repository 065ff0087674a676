FROM nvidia/cuda:12.8.0-runtime-ubuntu22.04
RUN pip install "vllm==0.11.0"
CMD ["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-batched-tokens", "512"]
