job "pair" {
  datacenters = ["dc1"]
  meta { owner = "search" }

  group "models" {
    task "rerank" {
      driver = "podman"
      config {
        image   = "docker.io/vllm/vllm-openai:v0.11.0"
        command = "--model=BAAI/bge-reranker-v2-m3"
        args    = ["--max-model-len=4096", "--max-num-batched-tokens=12288"]
        devices = ["nvidia.com/gpu=0"]
      }
    }

    task "chat" {
      driver = "docker"
      config {
        image      = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
        entrypoint = ["trtllm-serve"]
        args = [
          "${MODEL}",
          "--tp_size", "2",
          "--max_batch_size", "${meta.batch}",
          "--max_num_tokens", "5632",
        ]
      }
      env { MODEL = "nvidia/Llama-3.1-Nemotron-Nano-8B-v1" }
      resources {
        device "nvidia/gpu/H100 PCIe" { count = 2 }
      }
    }
  }
}
