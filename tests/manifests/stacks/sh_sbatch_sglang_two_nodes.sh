#!/bin/bash
#SBATCH --job-name=kimi-serve
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h200:8
#SBATCH --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --output=%x-%j.log

module load cuda/12.8
source "$HOME/venvs/sglang/bin/activate"

HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MODEL=moonshotai/Kimi-K2-Instruct-0905

srun bash -c "
python3 -m sglang.launch_server \
  --model-path $MODEL --trust-remote-code \
  --tp 16 --dp-size 4 --enable-dp-attention \
  --nnodes 2 --node-rank \$SLURM_PROCID \
  --dist-init-addr $HEAD:20000 \
  --chunked-prefill-size 32768 \
  --max-running-requests 256 \
  --context-length 65536 \
  --host 0.0.0.0 --port 30000
"
