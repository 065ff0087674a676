#!/usr/bin/env bash
# Three mistakes that no log line points out: the comment ends the command, so the budget below it
# never reaches the engine; half of the GPUs stay idle; a flag is given twice.
# chunkcalc: gpu=a100-sxm4-80gb
set -euo pipefail
MODEL=Qwen/Qwen2.5-32B-Instruct

CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve "$MODEL" \
  --tensor-parallel-size 2 \
  --max-num-seqs 128 \
  --max-num-seqs 256 \
  # keep the steps short
  --max-num-batched-tokens 1024
