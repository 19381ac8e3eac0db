"""`contents` and `systemInstruction` → messages, in place and in order."""

from typing import Any

import msgspec

from polar_capture.chat import Content, MediaPart, Message, Part, TextPart, ToolCall
from polar_capture.dialects.arguments import argument_string
from polar_capture.dialects.fidelity import Treatment, unmapped_in
from polar_capture.dialects.google import fields
from polar_capture.dialects.google.media import media_part
from polar_capture.dialects.google.spelling import named
from polar_capture.dialects.json_body import an_object, text, text_or_none, wrong_type
from polar_capture.faults import invalid

_STANDARD_ALPHABET = str.maketrans("-_", "+/")
_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
_CARRIED = {name for name, treatment in fields.PART.items() if treatment is not Treatment.UNMAPPED}


class Conversation:
    """Reads the conversation of one request. `unmapped` collects the JSON paths of what could not be carried over.

    Calls without an id, as most clients send them back, get one by their place; results without an id answer the first
    open call of their name.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.unmapped: list[str] = []
        self._calls = 0
        self._open: dict[str, ToolCall] = {}

    def read_system(self, value: Any) -> None:
        """The system instruction: a content, a part, or a bare text."""
        if value is None:
            return
        param = "systemInstruction"
        if isinstance(value, str):
            self.messages.append(Message("system", content=value))
            return
        content = named(value, param)
        parts = _listed(content.get("parts", value), f"{param}.parts")
        self.messages.append(Message("system", content=self._plain(parts, f"{param}.parts")))

    def read_contents(self, value: Any) -> None:
        """All turns. Raises CallError for an empty list."""
        if value is None or value == []:
            raise invalid("* GenerateContentRequest.contents: contents is not specified", "contents")
        for index, item in enumerate(_listed(value, "contents")):
            param = f"contents[{index}]"
            content = named(item, param)
            self.unmapped += unmapped_in(content, fields.CONTENT, f"$.{param}")
            role = text(content.get("role", "user"), f"{param}.role")
            parts = _listed(content.get("parts", []), f"{param}.parts")
            if role in ("user", "function", "tool", ""):
                self._user(parts, f"{param}.parts")
            elif role == "model":
                self._model(parts, f"{param}.parts")
            elif role == "system":
                self.messages.append(Message("system", content=self._plain(parts, f"{param}.parts")))
            else:
                raise invalid("Please use a valid role: user, model.", f"{param}.role")
        self.messages = [message for message in self.messages if message != Message("assistant")]

    def _user(self, parts: list[Any], param: str) -> None:
        said: list[Part] = []
        for index, item in enumerate(parts):
            part = self._part(item, f"{param}[{index}]")
            if "functionResponse" in part:
                self._say(said)
                said = []
                self._result(part["functionResponse"], f"{param}[{index}].functionResponse")
            else:
                said += self._said(part, f"{param}[{index}]")
        self._say(said)

    def _say(self, said: list[Part]) -> None:
        if said:
            self.messages.append(Message("user", content=_joined(said)))

    def _model(self, parts: list[Any], param: str) -> None:
        """One turn of ours. Clients send it back in as many parts, and some in as many contents, as it came in chunks:
        texts are joined without a seam."""
        last = self.messages[-1] if self.messages else None
        turn = last if last is not None and last.role == "assistant" else Message("assistant")
        if turn is not last:
            turn.tool_calls, turn.echo = [], []
            self._open = {}
            self.messages.append(turn)
        for index, item in enumerate(parts):
            at = f"{param}[{index}]"
            part = self._part(item, at)
            signature = text_or_none(part.get("thoughtSignature"), f"{at}.thoughtSignature")
            if signature:
                # Python's SDK reads the signature as bytes and sends it back in the URL alphabet.
                turn.echo.append(signature.translate(_STANDARD_ALPHABET))
            if "functionCall" in part:
                self._call(turn, part["functionCall"], f"{at}.functionCall")
            elif "text" in part and part.get("thought") is True:
                turn.reasoning = (turn.reasoning or "") + text(part["text"], f"{at}.text")
            else:
                for said in self._said(part, at):
                    if isinstance(said, TextPart):
                        turn.content = (turn.content if isinstance(turn.content, str) else "") + said.text
                    else:
                        self.unmapped.append(f"$.{at}")

    def _call(self, turn: Message, value: Any, param: str) -> None:
        call = named(value, param)
        self.unmapped += unmapped_in(call, fields.FUNCTION_CALL, f"$.{param}")
        call_id = text_or_none(call.get("id"), f"{param}.id")
        if call_id:
            turn.echo.append(call_id)
        arguments = argument_string(an_object(call.get("args", {}), f"{param}.args"))
        made = ToolCall(call_id or f"call_{self._calls}", text(call.get("name"), f"{param}.name"), arguments)
        self._calls += 1
        turn.tool_calls.append(made)
        self._open[made.id] = made

    def _result(self, value: Any, param: str) -> None:
        result = named(value, param)
        self.unmapped += unmapped_in(result, fields.FUNCTION_RESPONSE, f"$.{param}")
        name = text_or_none(result.get("name"), f"{param}.name") or ""
        answered = self._answered(text_or_none(result.get("id"), f"{param}.id"), name)
        parts: list[Part] = [TextPart(_result_text(result.get("response"), name))]
        for index, item in enumerate(_listed(result.get("parts", []), f"{param}.parts")):
            at = f"{param}.parts[{index}]"
            parts += self._said(self._part(item, at), at)
        self.messages.append(Message("tool", content=_joined(parts), tool_call_id=answered, name=name or None))

    def _answered(self, call_id: str | None, name: str) -> str:
        """The id of the call that a result answers."""
        found = self._open.get(call_id or "") or next((c for c in self._open.values() if c.name == name), None)
        if found is None:
            return call_id or "call_unknown"
        del self._open[found.id]
        return found.id

    def _part(self, item: Any, param: str) -> dict[str, Any]:
        if isinstance(item, str):
            return {"text": item}
        part = named(item, param)
        if not part.keys() <= _CARRIED:
            self.unmapped += unmapped_in(part, fields.PART, f"$.{param}")
        if len(part) > 1 and len(part.keys() & _DATA) > 1:
            raise invalid(f"Invalid value at '{param}' (oneof): more than one kind of data in a part.", param)
        return part

    def _said(self, part: dict[str, Any], param: str) -> list[Part]:
        """The text or media of a part; what has no form here is named in its place."""
        if "text" in part:
            return [TextPart(text(part["text"], f"{param}.text"))]
        if "inlineData" in part:
            data = named(part["inlineData"], f"{param}.inlineData")
            carried = media_part(data, f"{param}.inlineData")
            if carried is None:
                self.unmapped.append(f"$.{param}.inlineData")
                return [_omitted("inlineData", data)]
            return [carried]
        misplaced = [name for name in ("functionCall", "functionResponse") if name in part]
        self.unmapped += [f"$.{param}.{name}" for name in misplaced]
        kinds = misplaced + [name for name in part if name not in _CARRIED]
        return [_omitted(kinds[0][:40], part[kinds[0]])] if kinds else []

    def _plain(self, parts: list[Any], param: str) -> str:
        said: list[Part] = []
        for index, item in enumerate(parts):
            at = f"{param}[{index}]"
            for one in self._said(self._part(item, at), at):
                if isinstance(one, MediaPart):
                    self.unmapped.append(f"$.{at}")
                else:
                    said.append(one)
        joined = _joined(said)
        return joined if isinstance(joined, str) else ""


def _omitted(kind: str, data: Any) -> TextPart:
    """What stands for a part that the engine can't have: the model is told what it does not see."""
    mime = (data.get("mimeType") or data.get("mime_type")) if isinstance(data, dict) else None
    return TextPart(f"[{kind} {mime[:80]} omitted]" if isinstance(mime, str) and mime else f"[{kind} omitted]")


def _listed(value: Any, param: str) -> list[Any]:
    """A repeated field; the API takes a single element for a list of one."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict | str):
        return [value]
    raise wrong_type(value, param, "an array")


def _joined(parts: list[Part]) -> Content:
    if any(isinstance(part, MediaPart) for part in parts):
        return parts
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


def _result_text(response: Any, name: str) -> str:
    """A function's result as text: the one string that most clients wrap, else its JSON."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict):
        told = {key: item for key, item in response.items() if not (key == "name" and item == name)}
        if len(told) == 1:
            ((key, item),) = told.items()
            if key in ("output", "result", "content") and isinstance(item, str):
                return item
    return "" if response is None else msgspec.json.encode(response).decode()
