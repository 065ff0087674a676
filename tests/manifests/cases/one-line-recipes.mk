define RUN
vllm serve Qwen/Qwen3-14B --max-num-seqs 64
endef
up: ; vllm serve Qwen/Qwen3-8B --max-num-seqs 32
other:
	$(RUN)
