#!/bin/bash
set -e
trap 'echo stopping; kill 0' EXIT

# every value can be given from outside
export MODEL_PATH=${MODEL_PATH:-"deepseek-ai/DeepSeek-V2-Lite-Chat"}
export SERVED_MODEL_NAME=${SERVED_MODEL_NAME:-"$MODEL_PATH"}
export PREFILL_CUDA_VISIBLE_DEVICES=${PREFILL_CUDA_VISIBLE_DEVICES:-"0,1"}
export DECODE_CUDA_VISIBLE_DEVICES=${DECODE_CUDA_VISIBLE_DEVICES:-"2,3"}
HTTP_PORT="${DYN_HTTP_PORT:-8000}"

DYN_HTTP_PORT=$HTTP_PORT python3 -m dynamo.frontend --router-mode kv &

DYN_SYSTEM_PORT=${DYN_SYSTEM_PORT1:-8081} \
CUDA_VISIBLE_DEVICES=$PREFILL_CUDA_VISIBLE_DEVICES python3 -m dynamo.sglang \
  --model-path "$MODEL_PATH" --served-model-name "$SERVED_MODEL_NAME" \
  --page-size 32 --tp 2 --trust-remote-code \
  --disaggregation-mode prefill --disaggregation-transfer-backend nixl \
  --chunked-prefill-size 10240 --context-length 32768 &

DYN_SYSTEM_PORT=${DYN_SYSTEM_PORT2:-8082} \
CUDA_VISIBLE_DEVICES=$DECODE_CUDA_VISIBLE_DEVICES python3 -m dynamo.sglang \
  --model-path "$MODEL_PATH" --served-model-name "$SERVED_MODEL_NAME" \
  --page-size 32 --tp 2 --dp-size 2 --enable-dp-attention --trust-remote-code \
  --disaggregation-mode decode --disaggregation-transfer-backend nixl \
  --max-running-requests 256 --context-length 32768 &
wait
