"""A scripted vLLM: real HTTP, vLLM 0.32's shapes, a toy template and tokenizer, and every fault on demand.

In a test's own loop:

    async with Double([Step(tool_calls=[{"name": "ls", "arguments": {"dir": "."}}]), Step(content="Done.")]) as vllm:
        engine = Engine([vllm.url])                     # talk to it
        vllm.chats[0].body["temperature"]               # every request: method, path, headers, body, times, disconnect
        vllm.push(Step(status=503, headers={"retry-after": "3"}), Step(html=True, status=502), Step(drop="half"))
        vllm.options.window = 200                       # options may change while it runs
        await vllm.stop(); await vllm.start()           # down, and up again on the same port

    Double(lambda body, n: Step(content=f"call {n}"))   # or chosen by a function of the request (None: the steps)
    with running(Script(steps=[...])) as vllm: vllm.url, vllm.chats(), vllm.kill()      # as a process, for sync tests
    python -m tests.double --port 0 --script FILE --log FILE     # prints: double ready {"url": …, "pid": …}
    python -m tests.double --canned 20000,500                    # benchmarks: one preserialised answer, no delay

Without a script it answers "Hello." for ever. The prompt of a turn that echoes its history as sampled starts with the
former prompt + completion (`toy.py`); options break that (`strips_thinking`) or make the server strict
(`system_first`, `alternation`, `known_keys`, `strict_arguments`, `reject_overrun`) or old (`return_ids=False`,
`honour_prompt_ids=False`, which `scale_out=True` gives the other way for ids).
All fields: `Step`, `When`, `Options`, `Script` in `script.py`; a script file is `Script` as JSON.
It serves /v1/chat/completions, /v1/models, /tokenize, /detokenize, /health, /version, /metrics and /weight_info.
"""

from tests.double.process import Running, running
from tests.double.script import Options, Rule, Script, Step, When
from tests.double.server import Double, Logged

__all__ = ["Double", "Logged", "Options", "Rule", "Running", "Script", "Step", "When", "running"]
