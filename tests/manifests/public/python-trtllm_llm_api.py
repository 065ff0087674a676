from tensorrt_llm import LLM, SamplingParams
from tensorrt_llm.llmapi import CudaGraphConfig, KvCacheConfig, SchedulerConfig

PROMPTS = ["Name three rivers.", "Name three lakes."]


def main():
    llm = LLM(
        model="nvidia/Llama-3.1-8B-Instruct-FP8",
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        max_batch_size=256,
        max_num_tokens=7680,
        max_seq_len=10240,
        enable_chunked_prefill=True,
        kv_cache_config=KvCacheConfig(free_gpu_memory_fraction=0.88, max_tokens=400_000),
        cuda_graph_config=CudaGraphConfig(max_batch_size=64, enable_padding=True),
        scheduler_config=SchedulerConfig(),
    )
    with llm:
        for output in llm.generate(PROMPTS, SamplingParams(max_tokens=64)):
            print(output.outputs[0].text)


if __name__ == "__main__":
    main()
