locals {
  model = "Qwen/Qwen2.5-14B-Instruct-AWQ"
}

variable "instance_type" {
  default = "g6e.2xlarge"
}

resource "aws_launch_template" "gpu" {
  image_id      = data.aws_ssm_parameter.ecs_gpu.value
  instance_type = var.instance_type
}

resource "aws_ecs_task_definition" "llm" {
  family                   = "llm"
  requires_compatibilities = ["EC2"]
  network_mode             = "bridge"

  container_definitions = jsonencode([
    {
      name      = "vllm"
      image     = "vllm/vllm-openai:v0.9.2"
      essential = true
      memory    = 28000
      command = [
        "--model", local.model,
        "--quantization", "awq_marlin",
        "--max-model-len", "16384",
        "--max-num-seqs", "72",
        "--max-num-batched-tokens", "4096",
      ]
      resourceRequirements = [{ type = "GPU", value = "1" }]
      portMappings         = [{ containerPort = 8000, hostPort = 8000 }]
    },
    {
      name      = "exporter"
      image     = "nvidia/dcgm-exporter:4.2.0"
      essential = false
      memory    = 256
    }
  ])
}
