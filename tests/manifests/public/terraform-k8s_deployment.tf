variable "model" {
  type    = string
  default = "mistralai/Mistral-Nemo-Instruct-2407"
}

variable "max_len" {
  type    = number
  default = 20000
}

locals {
  name   = "vllm-nemo"
  budget = 1024 * 5
}

resource "kubernetes_deployment_v1" "vllm" {
  metadata {
    name   = local.name
    labels = { app = local.name }
  }
  spec {
    replicas = 2
    selector { match_labels = { app = local.name } }
    template {
      metadata { labels = { app = local.name } }
      spec {
        node_selector = { "cloud.google.com/gke-accelerator" = "nvidia-l4" }
        container {
          name  = "vllm"
          image = "vllm/vllm-openai:v0.10.1.1"
          args = [
            "--model", var.model,
            "--max-model-len", tostring(var.max_len),
            "--tensor-parallel-size", "2",
            "--max-num-batched-tokens=${local.budget}",
            "--max-num-seqs=40",
          ]
          port { container_port = 8000 }
          env {
            name  = "HF_HOME"
            value = "/models"
          }
          resources {
            limits = { "nvidia.com/gpu" = "2" }
          }
        }
      }
    }
  }
}
