#!/bin/bash
#SBATCH -J r1-fp4
#SBATCH -N 1
#SBATCH --gres=gpu:b200:8
#SBATCH -t 04:00:00

IMAGE=nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc1
OPTS=$SLURM_SUBMIT_DIR/opts.yaml

cat << 'EOF' > $OPTS
enable_attention_dp: true
stream_interval: 10
cuda_graph_config:
  enable_padding: true
  max_batch_size: 256
kv_cache_config:
  free_gpu_memory_fraction: 0.8
  dtype: fp8
  max_tokens: 700000
moe_config:
  backend: DEEPGEMM
EOF

srun --mpi=pmix --container-image="$IMAGE" --container-mounts="$PWD:/work" \
  trtllm-llmapi-launch trtllm-serve nvidia/DeepSeek-R1-0528-FP4-v2 \
    --backend pytorch --tp_size 8 --ep_size 8 \
    --max_batch_size 512 --max_num_tokens 9216 --max_seq_len 10240 \
    --extra_llm_api_options $OPTS --port 8000
