#!/bin/bash
[ -n "$LONG" ] && EXTRA="--max-model-len 32768"
test -n "$SMALL" || BUDGET=512
[[ $FAST ]] && ARGS+=(--max-num-seqs 8)
mkdir -p logs && PORT=8001
vllm serve Qwen/Qwen3-8B $EXTRA
vllm serve Qwen/Qwen3-8B --max-num-batched-tokens $BUDGET
vllm serve Qwen/Qwen3-8B "${ARGS[@]}"
vllm serve Qwen/Qwen3-8B --port $PORT
set -- --max-num-seqs 7
vllm serve Qwen/Qwen3-8B "$@"
