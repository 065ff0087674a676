apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  namespace: ${var.namespace}
spec:
  replicas: ${replicas}
  selector:
    matchLabels:
      app: ${name}
  template:
    metadata:
      labels:
        app: ${name}
    spec:
      nodeSelector:
        cloud.google.com/gke-accelerator: ${var.gpu_type}
      containers:
        - name: vllm
          image: vllm/vllm-openai:${var.vllm_version}
          args:
            - --model=${var.model_id}
            - --tensor-parallel-size=${var.gpus}
            - --max-num-batched-tokens=${max(2048, var.budget)}
%{ if enable_lora ~}
            - --enable-lora
%{ endif ~}
          resources:
            limits:
              nvidia.com/gpu: ${var.gpus}
