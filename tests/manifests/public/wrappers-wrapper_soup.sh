#!/bin/bash
# what a cluster's users really type
ulimit -n 65535
source /etc/profile.d/modules.sh && module load cuda/12.6

# 1: tmux and conda
tmux new-session -d -s llm "conda run -n vllm --no-capture-output vllm serve CohereLabs/c4ai-command-r7b-12-2024 --max-model-len 16384 --max-num-batched-tokens 4096 2>&1 | tee llm.log"

# 2: apptainer, environment by --env
nohup apptainer exec --nv --bind /scratch:/scratch --env HF_HOME=/scratch/hf \
  /scratch/images/vllm-openai_v0.10.1.sif \
  python3 -m vllm.entrypoints.openai.api_server \
  --model=Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt '{"image": 4}' \
  --max_num_seqs=24 --max_num_batched_tokens=16384 > vl.log 2>&1 < /dev/null &

# 3: taskset, env -i, uv
taskset -c 0-31 env -u http_proxy CUDA_VISIBLE_DEVICES=2,3 \
  uv run --with 'sglang[all]>=0.5' python -m sglang.launch_server \
  --model-path baidu/ERNIE-4.5-21B-A3B-PT --tp 2 --chunked-prefill-size=-1 &

# 4: only printed, and only for later
echo "ssh gpu7 vllm serve Qwen/Qwen3-4B --max-num-batched-tokens 512" >> notes.txt
alias small='vllm serve Qwen/Qwen3-1.7B --max-num-seqs 4'
disown -a
