"""A tiny chat model that drives real coding agents through two turns, made from nothing but this folder.

`chat_format` says how a conversation is written down, `agent_text` makes text that looks like an agent's prompt,
`lessons` pairs prompt endings with the answers to learn, `tokenizer` and `training` turn them into a model that vLLM
can serve.
"""
