resource "google_cloud_run_v2_service" "gemma" {
  name                = "gemma"
  location            = "europe-west4"
  deletion_protection = false

  template {
    gpu_zonal_redundancy_disabled    = true
    max_instance_request_concurrency = 24
    scaling { max_instance_count = 2 }
    node_selector { accelerator = "nvidia-l4" }

    containers {
      image   = "vllm/vllm-openai:v0.11.0"
      command = ["vllm"]
      args    = ["serve", "google/gemma-3-4b-it", "--port", "8080", "--max-num-seqs", "24", "--max-model-len", "8192", "--max-num-batched-tokens", "2304"]
      resources {
        limits = {
          "cpu"            = "8"
          "memory"         = "32Gi"
          "nvidia.com/gpu" = "1"
        }
      }
      ports { container_port = 8080 }
    }
  }
}
