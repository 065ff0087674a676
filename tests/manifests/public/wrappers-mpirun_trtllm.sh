#!/bin/bash
# Two nodes of four GPUs from one hostfile, MPI started by hand
set -e
cd "$(dirname "$0")"
HOSTS=node01:4,node02:4
MODEL=nvidia/Qwen3-235B-A22B-FP8

cat > /shared/opts.yml <<EOT
enable_attention_dp: false
disable_overlap_scheduler: false
cuda_graph_config:
  max_batch_size: 128
moe_config:
  backend: CUTLASS
EOT

mpirun -H $HOSTS -n 8 --allow-run-as-root --bind-to none \
  -x LD_LIBRARY_PATH -x HF_TOKEN -x NCCL_IB_HCA=mlx5 \
  numactl --interleave=all \
  trtllm-llmapi-launch trtllm-serve $MODEL \
    --tp_size 4 --pp_size 2 --max_batch_size 128 \
    --max_num_tokens 8448 --max_seq_len 16896 \
    --extra_llm_api_options /shared/opts.yml --host 0.0.0.0 &

timeout 1800 sh -c 'until curl -s http://node01:8000/health; do sleep 10; done'
