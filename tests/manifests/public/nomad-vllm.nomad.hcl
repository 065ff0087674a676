variable "model" {
  type    = string
  default = "Qwen/Qwen3-14B-AWQ"
}

job "llm" {
  datacenters = ["dc1"]
  type        = "service"

  group "serve" {
    count = 2
    network {
      port "http" { to = 8000 }
    }
    volume "hf" {
      type   = "host"
      source = "hf"
    }

    task "vllm" {
      driver = "docker"
      config {
        image   = "vllm/vllm-openai:v0.10.2"
        ports   = ["http"]
        runtime = "nvidia"
        args = [
          "--model", var.model,
          "--max-model-len", "12288",
          "--max-num-seqs", "48",
          "--max-num-batched-tokens", "3328",
          "--port", "8000",
        ]
      }
      resources {
        cpu    = 8000
        memory = 24000
        device "nvidia/gpu" {
          count = 1
          constraint {
            attribute = "${device.model}"
            value     = "NVIDIA RTX A6000"
          }
        }
      }
    }

    task "logs" {
      driver = "docker"
      lifecycle { hook = "poststart" }
      config { image = "grafana/promtail:3.1.0" }
    }
  }
}
