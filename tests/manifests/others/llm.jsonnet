local k = import 'k.libsonnet';
local gpus = { small: 1, large: 4 };

local engine(name, model, size) = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: name },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: name } },
    template: {
      metadata: { labels: { app: name } },
      spec: {
        containers: [{
          name: 'vllm',
          image: 'vllm/vllm-openai:v0.8.4',
          args: [
            '--model=' + model,
            '--tensor-parallel-size=%d' % gpus[size],
            '--max-num-batched-tokens=' + (2048 * gpus[size]),
          ],
          resources: { limits: { 'nvidia.com/gpu': gpus[size] } },
        }],
      },
    },
  },
};

[engine('chat', 'google/gemma-2-9b-it', 'small'), engine('big', 'google/gemma-2-27b-it', 'large')]
