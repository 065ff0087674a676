variable "VLLM" { default = "0.11.0" }
variable "SGLANG" { default = "0.5.3" }

group "default" { targets = ["vllm", "sglang"] }

target "vllm" {
  context    = "docker/vllm"
  dockerfile = "Dockerfile"
  args       = { BASE = "vllm/vllm-openai:v${VLLM}", MAX_JOBS = "8" }
  tags       = ["registry.example.org/vllm:${VLLM}"]
}

target "sglang" {
  context = "docker/sglang"
  args    = { BASE = "lmsysorg/sglang:v${SGLANG}-cu126" }
  tags    = ["registry.example.org/sglang:${SGLANG}"]
}
