"""Ask an engine for the logprobs of given ids, by /v1/completions with `prompt_logprobs` and no template in between."""

from typing import Any

import requests

from polar_capture.exits import Failure
from polar_capture.trajectories.rescoring import prompt_logprobs
from polar_capture.trajectories.rows import Float32Array

_TIMEOUT = (5, 600)


class Engine:
    """A vLLM server, by its base URL (with or without /v1). Failure, naming the URL, where it does not answer as
    vLLM."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the environment may be our own
        models = self._answer("GET", "/v1/models").get("data") or []
        if not models:
            raise Failure(f"{self.url} serves no model")
        self.model: str = models[0]["id"]
        self.max_model_len: int | None = models[0].get("max_model_len")

    def logprobs(self, ids: list[int]) -> Float32Array:
        """float32 [n]: the logprob of each id given those before it, NaN for the first."""
        body = {"model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        answer = self._answer("POST", "/v1/completions", body | {"add_special_tokens": False})
        try:
            return prompt_logprobs(answer, ids)
        except ValueError as error:
            raise Failure(f"{self.url}: {error}") from error

    def text(self, ids: list[int]) -> str | None:
        """The ids as text, for people's eyes; None where the engine can't say."""
        try:
            return str(self._answer("POST", "/detokenize", {"model": self.model, "tokens": ids})["prompt"])
        except (Failure, KeyError):
            return None

    def _answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._session.request(method, self.url + path, json=body, timeout=_TIMEOUT)
        except requests.RequestException as error:
            raise Failure(f"{self.url} does not answer ({type(error).__name__}): is the engine up?") from error
        if answer.status_code != 200:
            raise Failure(f"{self.url}{path} answered {answer.status_code}: {answer.text[:500]}")
        try:
            found = answer.json()
        except requests.JSONDecodeError as error:
            raise Failure(f"{self.url}{path} answered what is not JSON") from error
        return found if isinstance(found, dict) else {}
