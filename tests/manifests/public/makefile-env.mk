# settings come from .env, which is not in git (see .env.example)
-include .env
export

TP            ?= 1
EXTRA         ?=
NAME          := llm-$(notdir $(MODEL_NAME))

.PHONY: run bench

run:
	podman run --replace --name $(NAME) --device nvidia.com/gpu=all \
	  -v hf:/root/.cache/huggingface -p $(PORT):8000 \
	  docker.io/vllm/vllm-openai:v0.11.0 \
	  --model $(MODEL_NAME) \
	  --tensor-parallel-size $(TP) \
	  --max-num-batched-tokens $(BATCHED_TOKENS) \
	  --max-num-seqs 256 $(EXTRA)

bench:
	vllm bench serve --model $(MODEL_NAME) --base-url http://localhost:$(PORT) \
	  --dataset-name random --random-input-len 2048 --num-prompts 400
