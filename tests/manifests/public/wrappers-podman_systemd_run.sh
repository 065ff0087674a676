#!/bin/bash
# rootless: one transient unit, one container
MODEL_DIR=${MODEL_DIR:-$HOME/models}

systemd-run --user --unit=llm-small --collect \
  --property=Restart=on-failure --property=MemoryMax=48G \
  --setenv=CUDA_VISIBLE_DEVICES=0 --setenv=VLLM_NO_USAGE_STATS=1 \
  --working-directory="$HOME/llm" \
  "$HOME/llm/.venv/bin/vllm" serve HuggingFaceTB/SmolLM3-3B \
    --port 8001 --max-model-len 16384 --max-num-seqs 20 --max-num-batched-tokens 2560

podman run -d --replace --name llm-large \
  --device nvidia.com/gpu=1 --device nvidia.com/gpu=2 \
  --security-opt=label=disable --shm-size=8g \
  -v "$MODEL_DIR":/models:ro,Z \
  -p 8002:8000 --pull=newer \
  docker.io/vllm/vllm-openai:v0.10.2 \
  --model /models/Devstral-Small-2507 --served-model-name devstral \
  --tokenizer-mode mistral -tp=2 --max-model-len=65536 --max_num_batched_tokens=7168

journalctl --user -u llm-small -f
