#!/bin/bash
ssh gpu7 bash -s <<'EOF'
cd /srv
nohup vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-num-batched-tokens 4096 &
EOF
sbatch <<EOF
#!/bin/sh
srun vllm serve Qwen/Qwen3-14B --max-num-seqs 64
EOF
cat > run.sh <<'EOF'
#!/bin/sh
vllm serve Qwen/Qwen3-8B --max-num-seqs 32
EOF
cat > notes.md <<'EOF'
vllm serve Qwen/Qwen3-8B --max-num-seqs 33
EOF
kubectl apply -f - <<EOF
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.11.0
EOF
python3 - <<PY
from vllm import LLM
LLM("Qwen/Qwen3-8B")
PY
vllm serve Qwen/Qwen3-4B
