#!/usr/bin/env bash
set -eu
MODEL=meta-llama/Llama-3.1-70B-Instruct
KV='{"kv_connector":"NixlConnector","kv_role":"%s"}'

COMMON=(
  --tensor-parallel-size 4
  --max-model-len 16384        # prompts stay well below
  # --max-num-batched-tokens 2048
  --disable-log-requests
)
PREFILL=("${COMMON[@]}" --max-num-batched-tokens 20480)
DECODE=("${COMMON[@]}")
DECODE+=(--max-num-seqs 384)

echo "starting: vllm serve $MODEL --max-num-seqs 1"

CUDA_VISIBLE_DEVICES=0,1,2,3 VLLM_NIXL_SIDE_CHANNEL_PORT=5600 \
  vllm serve "$MODEL" --port 8100 "${PREFILL[@]}" \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' &
PREFILL_PID=$!

CUDA_VISIBLE_DEVICES=4,5,6,7 VLLM_NIXL_SIDE_CHANNEL_PORT=5700 \
  vllm serve "$MODEL" --port 8200 "${DECODE[@]}" \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' &

python3 toy_proxy_server.py --port 9000 \
  --prefiller-hosts localhost --prefiller-ports 8100 \
  --decoder-hosts localhost --decoder-ports 8200 &

trap 'kill $(jobs -p)' EXIT
wait "$PREFILL_PID"

vllm bench serve --model "$MODEL" --port 9000 --max-concurrency 64 --num-prompts 500
