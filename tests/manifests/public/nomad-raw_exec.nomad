job "sglang-gemma" {
  datacenters = ["lab"]

  group "g" {
    constraint {
      attribute = "${attr.unique.hostname}"
      value     = "lab-3"
    }
    network {
      port "api" { static = 30000 }
    }

    task "server" {
      driver = "raw_exec"
      user   = "llm"

      env {
        CUDA_VISIBLE_DEVICES = "0,1"
        MODEL                = "google/gemma-3-12b-it"
        CHUNK                = "3072"
      }

      template {
        destination = "local/start.sh"
        perms       = "755"
        data        = <<EOH
#!/bin/bash
source /opt/sglang/bin/activate
exec python -m sglang.launch_server --model-path "$MODEL" \
  --tp-size 2 --chunked-prefill-size "$CHUNK" \
  --max-running-requests $${RUNNING:-44} \
  --port "$NOMAD_PORT_api" --host 0.0.0.0
EOH
      }

      config {
        command = "local/start.sh"
      }
      resources { memory = 64000 }
    }
  }
}
