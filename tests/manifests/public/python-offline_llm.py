"""Label a corpus with a local model."""
import json
from pathlib import Path

from vllm import LLM, SamplingParams

SOURCE = Path("corpus.jsonl")
LABELS = ["positive", "negative", "mixed"]


def main() -> None:
    llm = LLM(
        model="Qwen/Qwen2.5-32B-Instruct-AWQ",
        quantization="awq_marlin",
        tensor_parallel_size=2,
        max_model_len=6144,
        max_num_seqs=192,
        max_num_batched_tokens=24576,
        gpu_memory_utilization=0.92,
        enable_prefix_caching=True,
        seed=7,
    )
    params = SamplingParams(temperature=0.0, max_tokens=8)
    rows = [json.loads(line) for line in SOURCE.open()]
    chats = [[{"role": "user", "content": f"One of {LABELS}: {row['text']}"}] for row in rows]
    for row, out in zip(rows, llm.chat(chats, params)):
        row["label"] = out.outputs[0].text.strip()
    Path("labelled.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
