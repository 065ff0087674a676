#!/usr/bin/env bash
set -e
MODEL_ID=RedHatAI/Qwen3-8B-FP8-dynamic
CTX=40960
CONFIG=/tmp/serve.yaml

cat > "$CONFIG" <<EOF
model: ${MODEL_ID}
tensor-parallel-size: 2
max-model-len: ${CTX}
max-num-seqs: 256
max-num-batched-tokens: 10000
no-enable-prefix-caching: true
EOF

# the command line beats the file
CUDA_VISIBLE_DEVICES=6,7 vllm serve --config "$CONFIG" --max-num-seqs 144
