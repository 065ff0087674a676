"""Start a judge in this process and a policy server in another."""
import subprocess
import sys

from vllm import LLM

COMMON = {"trust_remote_code": True, "max_model_len": 8192, "seed": 0}
JUDGE = dict(COMMON, model="Skywork/Skywork-Reward-V2-Llama-3.1-8B", tensor_parallel_size=1)

POLICY = [
    sys.executable, "-m", "vllm.entrypoints.openai.api_server",
    "--model", "allenai/OLMo-2-1124-13B-Instruct",
    "--tensor-parallel-size", "2",
    "--max-num-batched-tokens", "5632",
    "--max-num-seqs", str(40),
    "--port", "8100",
]


def start_policy() -> subprocess.Popen:
    return subprocess.Popen(POLICY, env={"CUDA_VISIBLE_DEVICES": "1,2"})


def make_judge(**more) -> LLM:
    return LLM(**JUDGE, max_num_batched_tokens=16384, **more)


if __name__ == "__main__":
    policy = start_policy()
    judge = make_judge(gpu_memory_utilization=0.7)
    print(judge.llm_engine.model_config.max_model_len)
    policy.terminate()
