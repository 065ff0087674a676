#!/bin/bash
# interactive: inside an allocation of one node (salloc -N1 --gres=gpu:8)
IMAGE=/lustre/containers/sglang-v0.5.3.sqsh
MOUNTS=/lustre/models:/models,$PWD:/work

srun --nodes=1 --ntasks=1 --gres=gpu:a100:4 --cpu-bind=none --overlap --no-container-mount-home \
     --container-image="$IMAGE" --container-mounts="$MOUNTS" --container-workdir=/work \
     --export=ALL,SGLANG_ENABLE_JIT_DEEPGEMM=0 \
     python3 -m sglang.launch_server --model-path /models/Qwen2.5-72B-Instruct \
       --served-model-name qwen72 --tensor-parallel-size 4 \
       --chunked-prefill-size 6144 --max-running-requests 144 \
       --context-length 24576 --host 0.0.0.0 --port 30000 &
SRV=$!

srun --ntasks=1 --overlap --container-image="$IMAGE" \
     bash -c "sleep 120; python3 -m sglang.bench_serving --backend sglang --port 30000 --num-prompts 300"
kill $SRV
