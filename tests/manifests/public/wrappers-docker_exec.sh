#!/usr/bin/env bash
# keeps one container alive and starts servers inside it
set -euo pipefail
IMG=rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715
NAME=vllm-dev

docker rm -f "$NAME" 2>/dev/null || true
docker run -d --name "$NAME" --network host --ipc host \
  --device /dev/kfd --device /dev/dri --group-add video \
  --security-opt seccomp=unconfined \
  -v /data/models:/data/models "$IMG" sleep infinity

docker exec "$NAME" pip show vllm
docker exec "$NAME" rocm-smi --showproductname

docker exec -d -e HIP_VISIBLE_DEVICES=0,1,2,3 -e VLLM_ROCM_USE_AITER=1 "$NAME" \
  bash -lc "cd /data && vllm serve amd/Llama-3.3-70B-Instruct-FP8-KV \
    --tensor-parallel-size 4 --kv-cache-dtype fp8 \
    --max-model-len 32768 --max-num-seqs 256 \
    --max-num-batched-tokens 32768 \
    --port 8000 > /tmp/server.log 2>&1"

docker exec "$NAME" bash -c 'until curl -s localhost:8000/health; do sleep 5; done'
docker exec -it "$NAME" vllm bench serve --model amd/Llama-3.3-70B-Instruct-FP8-KV \
  --dataset-name random --num-prompts 256
