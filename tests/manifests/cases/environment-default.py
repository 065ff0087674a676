import os

from vllm import LLM

MODEL = os.environ.get("MODEL", "Qwen/Qwen3-8B")
llm = LLM(model=MODEL, max_num_batched_tokens=int(os.getenv("BUDGET", "2048")), max_num_seqs=int(os.environ["SEQS"]))
