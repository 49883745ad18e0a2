"""The wire of Gemini CLI: requests of the Gemini API as the script knows them, and answers as the API has them."""

from typing import Any, cast

from tests.clients.script import Json, Message, Request, Step, name_here

ROLES = {"user": "user", "model": "assistant"}


def read_request(body: Json) -> Request:
    """Return what the model was told; a message with results of tools is the client's own."""
    messages = [_message(content) for content in cast("list[Json]", body.get("contents") or [])]
    declared = [one for tool in cast("list[Json]", body.get("tools") or []) for one in _declared(tool)]
    system: Json = body.get("systemInstruction") or {}
    return Request(messages=messages, tools=declared, system=_text(system), body=body)


def _declared(tool: Json) -> list[str]:
    return [one["name"] for one in cast("list[Json]", tool.get("functionDeclarations") or [])]


def _message(content: Json) -> Message:
    parts: list[Json] = content.get("parts") or []
    results = [_result(part["functionResponse"]) for part in parts if "functionResponse" in part]
    role = "tool" if results else ROLES.get(str(content.get("role")), "user")
    return Message(role=role, text=_text(content), results=results)


def _result(given: Json) -> str:
    """Return the text of a tool's result, or of its error."""
    response: Json = given.get("response") or {}
    text = response.get("output", response.get("error"))
    return text if isinstance(text, str) else str(response)


def _text(content: Json) -> str:
    return "\n".join(part["text"] for part in content.get("parts") or () if isinstance(part.get("text"), str))


def answer(request: Request, step: Step, usage: tuple[int, int]) -> Json:
    """Return one answer of the model, whole."""
    parts: list[Json] = [{"text": step.text}] if step.text else []
    for call in step.calls:
        named = name_here(call, request.tools)
        parts.append({"functionCall": {"name": named, "args": call.arguments}})
    told, said = usage
    counted: dict[str, Any] = {"promptTokenCount": told, "candidatesTokenCount": said, "totalTokenCount": told + said}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counted, "modelVersion": "scripted-model"}
