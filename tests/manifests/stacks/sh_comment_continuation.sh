#!/bin/bash
# The commented line inside the continuation ends the command.
MODEL=${1:-google/gemma-3-12b-it}
export CUDA_VISIBLE_DEVICES=0

vllm serve $MODEL \
  --port 8000 \
  --max-num-seqs 48 \
  # --enforce-eager \
  --max-model-len 8192 \
  --max-num-batched-tokens 4096

# later a second server, written without the trap
CUDA_VISIBLE_DEVICES=1 python -m vllm.entrypoints.openai.api_server --model $MODEL \
  --port 8001 `# port of the canary` \
  --max-num-batched-tokens 2048 &
wait
