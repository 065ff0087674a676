"""Batch translation, two engines on one box, one after the other."""
import sglang as sgl


def translate(lines: list[str]) -> list[str]:
    engine = sgl.Engine(
        model_path="google/gemma-3-27b-it",
        tp_size=2,
        chunked_prefill_size=4096,
        max_running_requests=48,
        context_length=16384,
        mem_fraction_static=0.8,
        random_seed=1,
    )
    out = engine.generate(lines, {"temperature": 0, "max_new_tokens": 512})
    engine.shutdown()
    return [each["text"] for each in out]


def embed(lines: list[str]):
    with sgl.Engine(model_path="Qwen/Qwen3-Embedding-4B", is_embedding=True, chunked_prefill_size=-1) as engine:
        return engine.encode(lines)


# The __main__ guard matters: the engine spawns processes.
if __name__ == "__main__":
    text = open("in.txt").read().splitlines()
    german = translate(text)
    embed(german)
