"""Measurement files as their harnesses write them: a few typed rows with their source, and shortened results.

Numbers marked "posted" are somebody's measurement, copied as facts; the others are round and made up.
"""

import json

# InferenceX runs of SemiAnalysis (nightly, as collected in silicon_sample.csv of ai-dynamo/aiconfigurator).
SERVING = """\
source,engine,engine_version,model,gpu,weights,kv,prompt_tokens,output_tokens,concurrency,requests,tp,dp,ep,ttft_ms,tpot_ms
inferencex,vllm,0.19.0,minimax-m2.5,b200,fp8,fp8,7372,921,8,80,2,1,1,305.2,11.7263
inferencex,vllm,0.19.0,minimax-m2.5,b200,fp8,fp8,7372,921,16,160,2,1,1,384.45,15.5729
inferencex,vllm,0.19.0,minimax-m2.5,b200,fp8,fp8,7372,921,64,640,2,1,1,831.2,31.5386
"""

# The wider columns. Row 1: sgl-project/sglang, docs of command-a-plus (posted). The others are made up.
WIDE = """\
source,engine,engine_version,model,gpu,weights,kv,prompt_tokens,output_tokens,concurrency,requests,tp,dp,ep,ttft_ms,tpot_ms,budget,ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,tpot_p50_ms,tpot_p99_ms,itl_mean_ms,itl_p50_ms,itl_p95_ms,itl_p99_ms,input_ratio,rate_rps,max_num_seqs,spec,prefix_cache,date,source_url_or_repo,note
posted,sglang,,command-a-plus,b300,bf16,,1000,1000,64,80,4,1,1,842,17.51,,,,,,,,,,,1,,,off,,,"https://github.com/sgl-project/sglang (docs, command-a-plus)",mean or median not stated; 80 requests
made-up,vllm,0.11.0,qwen3-14b,h100-sxm,bf16,auto,215,195,,100,1,1,1,,,8192,60,90,120,9,12,10,0.01,40,80,sharegpt,10,256,on,off,2025-12-10,,medians only; open loop
made-up,TensorRT-LLM,,deepseek-v3,b200,nvfp4,fp8_e4m3,921,921,16,160,1,8,8,200,20,,,,,,,,,,,0.8,,,off,on,,,
"""  # noqa: E501

STEPS = """\
gpu,model,tp,dtype,kv,c,p,b,s,regime,t_ref_ms,attn_source,ms_gemm,ms_attn,ms_elementwise,ms_allreduce,ms_lm_head
a100_sxm,Llama-3.1-8B,1,bfloat16,bfloat16,0,0,1,2048,decode,11.4954,additive,9.7442,0.7933,0.2957,0.0,0.6622
a100_sxm,Llama-3.1-8B,1,bfloat16,bfloat16,0,0,32,2048,decode,18.4264,additive,9.8903,7.5411,0.3375,0.0,0.6575
"""

# casys-kaist/LLMServingSim (MIT), vLLM 0.19, the first requests of one trace; a made-up second server.
TRACES = """\
gpu,model,tp,max_num_batched_tokens,max_num_seqs,request,arrival_s,input,output,ttft_ms,tpot_ms
rtx_pro_6000_server,Qwen3-32B,2,2048,128,bench-1,0.4196,1128,772,444.2,97.081
rtx_pro_6000_server,Qwen3-32B,2,2048,128,bench-0,0.0,2361,532,509.8,89.931
rtx_pro_6000_server,Qwen3-32B,1,2048,128,bench-0,5.5,100,1,60,
rtx_pro_6000_server,Qwen3-32B,1,2048,128,bench-1,6.5,100,20,60,20
"""

# Posted on 30 May 2025 (vLLM 0.9, random 1000 in and at most 500 out, --metadata gpu=4xNVIDIA_L40S): open loop.
VLLM_RATE = {
    "date": "20250530-203806", "backend": "vllm", "model_id": "meta-llama/Llama-3.2-3B-Instruct",
    "tokenizer_id": "meta-llama/Llama-3.2-3B-Instruct", "num_prompts": 300, "gpu": "4xNVIDIA_L40S",
    "request_rate": 10.0, "burstiness": 1.0, "max_concurrency": None, "duration": 36.034275877000255,
    "completed": 300, "total_input_tokens": 299700, "total_output_tokens": 81050,
    "request_throughput": 8.325406649602808, "request_goodput:": None, "output_throughput": 2249.247363167692,
    "total_token_throughput": 10566.328606120898, "mean_ttft_ms": 54.577085783294024,
    "median_ttft_ms": 52.999333499883505, "std_ttft_ms": 9.27197373989555, "p99_ttft_ms": 89.76647855975897,
    "mean_tpot_ms": 13.577995860227945, "median_tpot_ms": 13.512526767533997, "std_tpot_ms": 0.9199628548912276,
    "p99_tpot_ms": 17.652194109258673, "mean_itl_ms": 13.505887271504633, "median_itl_ms": 12.841573499827064,
    "std_itl_ms": 3.839438281316489, "p99_itl_ms": 34.210415409961556,
}  # fmt: skip
# The same server, all at once (posted); its rate is the word inf.
VLLM_ALL = VLLM_RATE | {
    "date": "20250530-204006", "num_prompts": 900, "request_rate": "inf", "duration": 20.918269691000205,
    "completed": 900, "total_input_tokens": 899100, "total_output_tokens": 240163, "mean_ttft_ms": 902.2531994799939,
    "median_ttft_ms": 877.0819514993491, "p99_ttft_ms": 1353.1694669699937, "mean_tpot_ms": 44.35695594492121,
    "median_tpot_ms": 43.742781012684844, "p99_tpot_ms": 67.41057380823649, "mean_itl_ms": 40.126101133447385,
    "median_itl_ms": 36.940078000043286, "p99_itl_ms": 66.37176537940839,
}  # fmt: skip
# A newer vLLM, closed loop, with drafts and single requests kept (made up).
VLLM_CLOSED = VLLM_RATE | {
    "date": "20260722-060114", "endpoint_type": "openai", "backend": "openai", "label": None, "gpu": "H100",
    "tp": "2", "version": "0.19.0", "request_rate": "inf", "max_concurrency": 16, "completed": 298, "failed": 2,
    "request_goodput": None, "p50_tpot_ms": 13.0, "p95_ttft_ms": 80.0, "p95_itl_ms": 30.0,
    "spec_decode_num_drafts": 100, "input_lens": [999, 999, 999], "output_lens": [270, 271, 269],
    "itls": [[0.01, 0.02]], "max_concurrent_requests": 20, "rtfx": 0.0,
}  # fmt: skip

# A posted result of SGLang: ShareGPT at 5 requests/s.
SGLANG = {
    "backend": "sglang", "dataset_name": "sharegpt", "request_rate": 5.0, "max_concurrency": 256,
    "sharegpt_output_len": None, "random_input_len": 1024, "random_output_len": 1024, "random_range_ratio": 0.0,
    "duration": 204.53694480800186, "completed": 1000, "total_input_tokens": 302118, "total_output_tokens": 195775,
    "total_output_tokens_retokenized": 195324, "request_throughput": 4.88909229058201,
    "mean_e2e_latency_ms": 2409.499004891637, "mean_ttft_ms": 91.69221715730964,
    "median_ttft_ms": 76.41966750088613, "std_ttft_ms": 65.22224954470558, "p99_ttft_ms": 327.9139723521075,
    "mean_tpot_ms": 11.808901276564441, "median_tpot_ms": 11.829237894316, "std_tpot_ms": 1.9529553892334461,
    "p99_tpot_ms": 19.04175553412642, "mean_itl_ms": 11.917698144217361, "median_itl_ms": 10.71716399746947,
    "std_itl_ms": 2.8155413018211033, "p95_itl_ms": 18.839622958330438, "p99_itl_ms": 21.477889133384465,
    "concurrency": 11.780263008980727, "accept_length": None,
}  # fmt: skip
# A newer SGLang, which adds the server's arguments; the rate is JSON's Infinity (made up).
SGLANG_SERVER = SGLANG | {
    "tag": None, "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 32,
    "random_range_ratio": 0.8, "p95_ttft_ms": 300.0,
    "server_info": {
        "model_path": "deepseek-ai/DeepSeek-V3", "tp_size": 8, "dp_size": 8, "ep_size": 8, "pp_size": 1,
        "enable_dp_attention": True, "chunked_prefill_size": 2048, "max_running_requests": 512,
        "kv_cache_dtype": "fp8_e4m3", "quantization": "fp8", "disable_radix_cache": True,
        "speculative_algorithm": None, "version": "0.5.9", "internal_states": [{"avg_spec_accept_length": None}],
    },
}  # fmt: skip


def distribution(mean: float, **more: float) -> dict[str, object]:
    """A metric as GuideLLM sums it up."""
    points = {"p50": mean, "p95": mean * 1.5, "p99": mean * 2}
    found = {"mean": mean, "median": mean, "std_dev": 1.0, "min": mean / 2, "max": mean * 2, "count": 200} | more
    return {"successful": found | {"percentiles": points}, "errored": None, "incomplete": None}


METRICS = {
    "requests_per_second": distribution(2.0), "request_concurrency": distribution(41.7),
    "request_latency": distribution(2.0), "prompt_token_count": distribution(512.0, min=512.0, max=512.0),
    "output_token_count": distribution(256.0), "time_to_first_token_ms": distribution(50.0),
    "time_per_output_token_ms": distribution(23.2), "inter_token_latency_ms": distribution(23.0),
}  # fmt: skip
STRATEGIES = [
    {"type_": "synchronous"},
    {"type_": "concurrent", "streams": 16},
    {"type_": "throughput", "max_concurrency": None},
    {"type_": "constant", "rate": 2.5},
    {"type_": "poisson", "rate": 2.5},
    {"type_": "trace", "time_scale": 1.0},
]
# The three layouts of a benchmark in a report of GuideLLM (made up).
GUIDELLM_OLD = {
    "benchmarks": [
        {
            "type_": "generative_benchmark", "args": {"strategy": strategy, "strategy_index": 0},
            "worker": {"type_": "generative_requests_worker", "backend_model": "Qwen/Qwen3-8B"},
            "total_count": {"successful": 200, "incomplete": 0, "errored": 3}, "start_time": 1743500000.0,
            "metrics": METRICS,
        }
        for strategy in STRATEGIES
    ]
}  # fmt: skip
GUIDELLM_MIDDLE = {
    "args": {"model": "Qwen/Qwen3-8B", "target": "http://localhost:8000"},
    "benchmarks": [
        {
            "scheduler": {"strategy": {"type_": "concurrent", "streams": 16}},
            "benchmarker": {"backend": {"target": "http://localhost:8000"}},
            "request_totals": {"successful": 200, "incomplete": 0, "errored": 3, "total": 203}, "metrics": METRICS,
        }
    ],
}  # fmt: skip
GUIDELLM_NEW = {
    "metadata": {"version": 2, "guidellm_version": "0.7.3"},
    "config": {"spec": {"backend": {"kind": "openai_http", "model": "Qwen/Qwen3-8B"}}},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": {"type_": "concurrent", "streams": 16}, "backend": {"kind": "openai_http"}},
            "start_time": 1786000000.0,
            "metrics": METRICS | {"request_totals": {"successful": 200, "errored": 0, "incomplete": 1, "total": 201}},
        }
    ],
}  # fmt: skip


def statistic(unit: str, avg: float, **more: float) -> dict[str, object]:
    """A metric as AIPerf and GenAI-Perf write it."""
    return {"unit": unit, "avg": avg} | more


# perf_analyzer issue 298 (posted): GenAI-Perf's flat configuration.
GENAI_PERF = {
    "request_throughput": statistic("requests/sec", 17.222547659562533),
    "request_latency": statistic("ms", 5767.434807386666, p50=5778.654798),
    "time_to_first_token": statistic("ms", 184.63779366666665, p50=172.8093975, p95=351.02043655, p99=425.02943662),
    "inter_token_latency": statistic("ms", 2.1767344516666665, p50=2.1787205, p95=2.2451002, p99=2.2631233),
    "output_sequence_length": statistic("tokens", 2565.855, std=18.02),
    "input_sequence_length": statistic("tokens", 200.85, std=19.75),
    "input_config": {"model": ["ensemble"], "backend": "tensorrtllm", "endpoint": None, "streaming": True,
                     "concurrency": 100, "request_rate": None},
}  # fmt: skip
# GenAI-Perf's later configuration, and its first files, which wrote nanoseconds and numbers as text (made up).
GENAI_PERF_STIMULUS = GENAI_PERF | {
    "input_config": {"model_names": ["small_model"], "endpoint": {"backend": "vllm"},
                     "perf_analyzer": {"stimulus": {"request_rate": 5}}},
}  # fmt: skip
GENAI_PERF_FIRST = {
    "request_throughput": {"unit": "request per sec", "avg": "12.2"},
    "request_latency": {"unit": "ns", "avg": "81694262.3"},
    "time_to_first_token": {"unit": "ns", "avg": "20757771.2", "p99": "29047316.5", "p95": "27985451.7"},
    "inter_token_latency": {"unit": "ns", "avg": "3860101.1", "p50": "3988754.5", "p99": "5263723.2"},
    "num_output_token": {"unit": "tokens", "avg": "17.76"}, "num_input_token": {"unit": "tokens", "avg": "550.05"},
    "input_config": {"model": "gpt2_vllm", "backend": "vllm", "concurrency": 1, "request_rate": None},
}  # fmt: skip
# The example of AIPerf's documentation (working-with-profile-exports.md), with its inter-token latency.
AIPERF = {
    "request_throughput": statistic("requests/sec", 13.16084556379392),
    "request_latency": statistic("ms", 6550.356151749999, p50=5799.897624499999),
    "time_to_first_token": statistic("ms", 1588.797775365, p50=787.5439584999999, p95=4051.42644575, p99=4119.33),
    "inter_token_latency": statistic("ms", 51.76, p50=51.98, p95=54.32, p99=55.87),
    "inter_chunk_latency": statistic("ms", 51.0, p50=50.0, p95=60.0, p99=300.0),
    "output_sequence_length": statistic("tokens", 96.85, std=0.88),
    "input_sequence_length": statistic("tokens", 550.0, std=0.0),
    "request_count": statistic("requests", 200.0), "error_request_count": statistic("requests", 84.0),
    "was_cancelled": True, "start_time": "2025-10-17T20:22:08.939332", "error_summary": [],
    "telemetry_data": {"endpoints": {"localhost:9401": {"gpus": {
        "gpu_0": {"gpu_name": "NVIDIA RTX 6000 Ada Generation"},
        "gpu_1": {"gpu_name": "NVIDIA RTX 6000 Ada Generation"},
    }}}},
    "input_config": {"endpoint": {"model_names": ["openai/gpt-oss-20b"], "type": "chat", "streaming": True},
                     "loadgen": {"concurrency": 100, "request_rate_mode": "concurrency_burst"}},
}  # fmt: skip
# AIPerf's later configuration (made up).
AIPERF_PHASES = AIPERF | {
    "schema_version": "1.0", "aiperf_version": "0.12.0", "telemetry_data": None, "was_cancelled": False,
    "input_config": {"models": {"items": [{"name": "meta-llama/Llama-3.1-8B-Instruct"}]}, "phases": [
        {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 2, "exclude_from_results": True},
        {"name": "profiling", "kind": "profiling", "type": "constant", "rate": 4.0, "concurrency": 64},
    ]},
}  # fmt: skip

DOCUMENTS = {
    "vllm": VLLM_CLOSED, "sglang": SGLANG_SERVER, "guidellm-1": GUIDELLM_OLD, "guidellm-2": GUIDELLM_MIDDLE,
    "guidellm-3": GUIDELLM_NEW, "genai-perf": GENAI_PERF, "aiperf": AIPERF, "aiperf-phases": AIPERF_PHASES,
}  # fmt: skip
TABLES = {"serving": SERVING, "wide": WIDE, "steps": STEPS, "traces": TRACES}
FILES = TABLES | {name: json.dumps(document) for name, document in DOCUMENTS.items()}
