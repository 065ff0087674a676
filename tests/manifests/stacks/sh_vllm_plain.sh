#!/usr/bin/env bash
# Serve the summariser on the first four cards of this host.
set -euo pipefail

MODEL="Qwen/Qwen2.5-72B-Instruct"
PORT=8000
CTX=32768
export VLLM_WORKER_MULTIPROC_METHOD=spawn
export HF_HUB_OFFLINE=1

mkdir -p logs

CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve "$MODEL" \
  --host 0.0.0.0 \
  --port "$PORT" \
  --tensor-parallel-size 4 \
  --max-model-len ${CTX} \
  --max-num-seqs 96 \
  --max-num-batched-tokens 12288 \
  --gpu-memory-utilization 0.93 \
  2>&1 | tee logs/vllm.log
