variable "model_id" {
  description = "no default: terraform asks"
  type        = string
}
variable "tp" {
  type    = number
  default = 8
}

resource "aws_instance" "llm" {
  ami           = "ami-0abcdef1234567890"
  instance_type = "p4de.24xlarge"
  root_block_device { volume_size = 500 }

  user_data = <<-EOT
    #!/bin/bash
    set -eux
    export MAX_SEQS=$(( 32 * 8 ))
    systemctl enable --now docker
    docker run -d --restart unless-stopped --gpus all --ipc=host \
      -p 80:8000 -v /opt/hf:/root/.cache/huggingface \
      vllm/vllm-openai:v0.10.2 \
      --model ${var.model_id} \
      --tensor-parallel-size ${var.tp} \
      --max-num-seqs "$${MAX_SEQS}" \
      --max-num-batched-tokens 14336
    echo "vllm serve started" > /var/log/llm
  EOT

  tags = { Name = "llm" }
}
