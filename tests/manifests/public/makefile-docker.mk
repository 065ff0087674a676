# docker wrappers around two engines, included by the top Makefile
VLLM_TAG   ?= v0.10.1
SGL_TAG    ?= v0.5.2-cu126
CACHE      ?= $(HOME)/.cache/huggingface
DEVICES    ?= 0,1,2,3
comma      := ,
TP         := $(words $(subst $(comma), ,$(DEVICES)))

define docker_common
--rm -d --ipc=host --ulimit memlock=-1 \
	-v $(CACHE):/root/.cache/huggingface \
	-e HF_TOKEN=$${HF_TOKEN:-}
endef

.PHONY: chat embed down

chat: down
	docker run --name chat --gpus '"device=$(DEVICES)"' $(docker_common) \
	  -p 8000:8000 vllm/vllm-openai:$(VLLM_TAG) \
	  --model RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic \
	  --tensor-parallel-size $(TP) \
	  --max-model-len 65536 --max-num-seqs 48 --max-num-batched-tokens 16384

code:
	docker run --name code --gpus '"device=4,5"' $(docker_common) \
	  -p 30000:30000 lmsysorg/sglang:$(SGL_TAG) \
	  python3 -m sglang.launch_server --model-path Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8 \
	  --tp 2 --chunked-prefill-size 4096 --host 0.0.0.0

down:
	-docker rm -f chat code
