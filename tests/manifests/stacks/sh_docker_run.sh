#!/bin/bash
# two containers on one box
VERSION=v0.10.1
CACHE="${HOME}/.cache/huggingface"

docker pull vllm/vllm-openai:$VERSION

docker run -d --name small --restart=always \
  --gpus '"device=0,1"' \
  --shm-size 16g -p 8000:8000 \
  -v "$CACHE":/root/.cache/huggingface \
  -e HF_TOKEN="$HF_TOKEN" \
  vllm/vllm-openai:$VERSION \
  --model microsoft/Phi-4-reasoning-plus -tp 2 \
  --max-model-len 16k --max-num-batched-tokens 8k

docker run -d --name big --gpus all --ipc=host \
  -p 30000:30000 -v "$CACHE":/root/.cache/huggingface \
  lmsysorg/sglang:v0.5.1.post3-cu126 \
  python3 -m sglang.launch_server \
    --model-path openai/gpt-oss-120b --tp-size 4 \
    --chunked-prefill-size 8192 --max-running-requests 200 \
    --host 0.0.0.0

docker run --rm --gpus=2 --entrypoint trtllm-serve nvcr.io/nvidia/tensorrt-llm/release:1.0.0 \
  nvidia/Llama-3.1-70B-Instruct-FP8 --tp_size 2 --max_num_tokens 6144 --max_batch_size 96

until curl -sf localhost:8000/health; do sleep 2; done
docker logs -f small
