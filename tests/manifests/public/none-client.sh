#!/bin/bash
# talks to servers that somebody else runs
set -eu
BASE=http://vllm.internal:8000
vllm --version
vllm collect-env > env.txt
vllm chat --url "$BASE/v1" --model-name qwen --quick "Hello"
vllm complete --url "$BASE/v1" -q "Once upon"
vllm bench serve --base-url "$BASE" --model Qwen/Qwen3-8B --num-prompts 100 --max-concurrency 16
python3 -m sglang.bench_serving --backend vllm --base-url "$BASE" --num-prompts 100
python3 -m sglang.check_env
python3 -m sglang_router.launch_router --worker-urls http://a:30000 http://b:30000 --port 8000 &
echo 'vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 8192' | tee -a HOWTO.txt
cat > unused.txt <<'EOF'
vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 64
EOF
grep -R "sglang.launch_server" . || true
docker pull vllm/vllm-openai:v0.11.0
docker save vllm/vllm-openai:v0.11.0 | gzip > image.tar.gz
docker logs vllm 2>&1 | tail
