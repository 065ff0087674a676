#!/bin/sh
# option files lie beside this script
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)

# chat
vllm serve Qwen/Qwen3-32B-FP8 --config "$here/options/vllm-chat.yaml" --max-num-seqs 80 &

# long documents
python -m sglang.launch_server --config options/sglang-long.yaml --port 30001 &

# an options file that is not in the repository
trtllm-serve openai/gpt-oss-120b --tp_size 4 --extra_llm_api_options /etc/trtllm/prod.yaml &
wait
