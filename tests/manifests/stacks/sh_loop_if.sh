#!/bin/bash
# sweep, then one server whose flags depend on the first argument
MODEL=nvidia/NVIDIA-Nemotron-Nano-9B-v2
MODE=$1

for BUDGET in 2048 4096 8192; do
  vllm serve "$MODEL" --port 8000 \
    --max-num-batched-tokens "$BUDGET" --max-num-seqs 64 &
  SERVER=$!
  ./wait_and_bench.sh "$BUDGET"
  kill "$SERVER"
done

if [ "$MODE" = "throughput" ]; then
  EXTRA="--chunked-prefill-size 16384"
else
  EXTRA="--chunked-prefill-size 2048"
fi

CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server \
  --model-path "$MODEL" --tp 2 $EXTRA --max-running-requests 80
