from langchain_community.llms import VLLM
from langchain_core.prompts import PromptTemplate
from langchain_openai import ChatOpenAI

# runs vLLM in this process
local = VLLM(
    model="tiiuae/Falcon3-7B-Instruct",
    trust_remote_code=True,
    tensor_parallel_size=1,
    max_new_tokens=256,
    temperature=0.2,
    vllm_kwargs={"max_model_len": 8192, "max_num_seqs": 8, "max_num_batched_tokens": 2048},
)

# talks to a vLLM server that somebody else runs
remote = ChatOpenAI(
    model="meta-llama/Llama-3.3-70B-Instruct",
    base_url="http://vllm.internal:8000/v1",
    api_key="EMPTY",
    max_tokens=512,
)

prompt = PromptTemplate.from_template("Summarise in one line:\n{text}")
for chain in (prompt | local, prompt | remote):
    print(chain.invoke({"text": open("notes.md").read()}))
