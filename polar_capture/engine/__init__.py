"""The vLLM client: one chat request in, one completion with its exact ids and logprobs out.

client.py is the way in (`Engine`); wire.py and answers.py are the two directions of the wire, sampling.py what is asked
of the sampler, refusals.py what an error means, transport.py and pool.py how servers are reached, probe.py and
servers.py what they are and can do, integrity.py whether an answer is sound. No tokenizer anywhere.
"""
