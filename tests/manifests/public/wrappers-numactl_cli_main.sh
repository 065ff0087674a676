#!/usr/bin/env bash
PYTHON_BIN=${PYTHON_BIN:-/opt/vllm/bin/python}
MODEL=${MODEL:-zai-org/GLM-4.5-Air-FP8}
TP_SIZE=4
common=(
  --trust-remote-code
  --tensor-parallel-size "${TP_SIZE}"
  --max-model-len "$((64 * 1024))"
)

start_one() {
  local socket=$1 devices=$2 port=$3
  CUDA_VISIBLE_DEVICES=$devices numactl --cpunodebind="$socket" --membind="$socket" \
    "${PYTHON_BIN}" -m vllm.entrypoints.cli.main serve "${MODEL}" \
    "${common[@]}" \
    --max-num-batched-tokens 12K --max-num-seqs 128 \
    --port "$port" &> "server-$port.log" &
}

start_one 0 0,1,2,3 8000
start_one 1 4,5,6,7 8001
wait -n
