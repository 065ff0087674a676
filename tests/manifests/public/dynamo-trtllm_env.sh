#!/usr/bin/env bash
set -e
export DYNAMO_HOME=${DYNAMO_HOME:-"/workspace"}
export MODEL_PATH=${MODEL_PATH:-"nvidia/Qwen3-30B-A3B-FP4"}
export PREFILL_ENGINE_ARGS=${PREFILL_ENGINE_ARGS:-"$DYNAMO_HOME/engine_configs/qwen3-30b/prefill.yaml"}
export DECODE_ENGINE_ARGS=${DECODE_ENGINE_ARGS:-"/tmp/decode.yaml"}

cat > /tmp/decode.yaml <<YAML
tensor_parallel_size: 2
max_batch_size: 320
max_num_tokens: 1280
max_seq_len: 12288
enable_attention_dp: true
kv_cache_config: {free_gpu_memory_fraction: 0.85}
cache_transceiver_config: {backend: DEFAULT, max_tokens_in_buffer: 8192}
YAML

python3 -m dynamo.frontend &

CUDA_VISIBLE_DEVICES=0 python3 -m dynamo.trtllm \
  --model-path "$MODEL_PATH" --served-model-name qwen3-30b \
  --extra-engine-args "$PREFILL_ENGINE_ARGS" \
  --disaggregation-mode prefill &

CUDA_VISIBLE_DEVICES=1,2 python3 -m dynamo.trtllm \
  --model-path "$MODEL_PATH" --served-model-name qwen3-30b \
  --extra-engine-args "$DECODE_ENGINE_ARGS" \
  --override-engine-args '{"max_num_tokens": 2048, "print_iter_log": true}' \
  --disaggregation-mode decode &
wait -n
