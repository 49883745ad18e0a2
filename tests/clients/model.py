"""A scripted model on loopback: the Messages API (Claude Code, OpenCode), the Responses API (Codex), and Gemini's.

Each wire is read into the `Request` of the script, and each `Step` is written as the wire's events.
"""

import json
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, cast

from tests.clients import gemini_wire
from tests.clients.script import Call, Json, Message, Request, Script, Step, name_here

_numbers = count(1)
USAGE_IN, USAGE_OUT = 1000, 50


class ModelServer(ThreadingHTTPServer):
    """Serves one script on every wire."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        # Paths that no wire of ours has; a test may look at them.
        self.strangers: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(script: Script) -> Generator[ModelServer]:
    """Serve until the block ends."""
    with ModelServer(script) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _model(self) -> ModelServer:
        return cast(ModelServer, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        self._model.strangers.append(f"GET {self.path}")
        self._send("application/json", b"{}")

    def do_POST(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        try:
            if path.endswith("/messages"):
                self._messages(body)
            elif path.endswith("/responses"):
                self._responses(body)
            elif path.endswith("enerateContent"):
                self._contents(body, is_stream=path.endswith(":streamGenerateContent"))
            else:
                self._model.strangers.append(f"POST {self.path}")
                self._send("application/json", b'{"input_tokens": 10}')
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client was killed, as some tests do

    def _messages(self, body: Json) -> None:
        step = self._model.script.answer(_messages_request(body))
        message = _message(body, step)
        if body.get("stream"):
            self._send("text/event-stream", b"".join(_sse(event["type"], event) for event in _message_events(message)))
        else:
            self._send("application/json", json.dumps(message).encode())

    def _responses(self, body: Json) -> None:
        request = _responses_request(body)
        step = self._model.script.answer(request)
        events = _response_events(body, step)
        self._send("text/event-stream", b"".join(_sse(event["type"], event) for event in events))

    def _contents(self, body: Json, *, is_stream: bool) -> None:
        request = gemini_wire.read_request(body)
        answered = json.dumps(gemini_wire.answer(request, self._model.script.answer(request), (USAGE_IN, USAGE_OUT)))
        if is_stream:
            self._send("text/event-stream", f"data: {answered}\r\n\r\n".encode())
        else:
            self._send("application/json", answered.encode())

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _sse(name: str, event: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(event)}\n\n".encode()


# The Messages API


def _messages_request(body: Json) -> Request:
    messages = [_told(each) for each in body.get("messages", [])]
    tools = [tool.get("name", "") for tool in body.get("tools") or ()]
    return Request(messages=messages, tools=tools, system=_texts(body.get("system") or ""), body=body)


def _told(message: Json) -> Message:
    content = message["content"]
    blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [_texts(block.get("content") or "") for block in blocks if block["type"] == "tool_result"]
    return Message(role=message["role"], text=_texts(blocks), results=results)


def _texts(content: str | Sequence[Json]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if isinstance(block.get("text"), str))


def _message(body: Json, step: Step) -> Json:
    content: list[Json] = [{"type": "text", "text": step.text}] if step.text else []
    for call in step.calls:
        name = name_here(call, [tool.get("name", "") for tool in body.get("tools") or ()])
        content.append(
            {"type": "tool_use", "id": f"toolu_{next(_numbers):024d}", "name": name, "input": call.arguments}
        )
    return {
        "id": f"msg_{next(_numbers):024d}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": "tool_use" if step.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": USAGE_IN, "output_tokens": USAGE_OUT},
    }


def _message_events(message: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(cast("list[Json]", message["content"])):
        if block["type"] == "text":
            empty: Json = {"type": "text", "text": ""}
            delta: Json = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": USAGE_OUT}}
    yield {"type": "message_stop"}


# The Responses API

_SAID = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "reasoning")


def _responses_request(body: Json) -> Request:
    messages: list[Message] = []
    for item in cast("list[Json]", body.get("input") or []):
        kind = item.get("type", "message")
        if kind == "message" and item["role"] != "assistant":
            messages.append(Message(role=item["role"], text=_texts(item["content"])))
        elif kind == "message" or kind in _SAID:
            # One answer may be several items; only what the client says in between separates two answers.
            if not messages or messages[-1].role != "assistant":
                messages.append(Message(role="assistant", text=""))
            text = _texts(item["content"]) if kind == "message" else json.dumps(item)
            messages[-1] = Message(role="assistant", text=f"{messages[-1].text}\n{text}".strip())
        elif kind.endswith("_output"):
            output = item.get("output") or ""
            text = _texts(cast("str | list[Json]", output)) if isinstance(output, str | list) else json.dumps(output)
            messages.append(Message(role="tool", text="", results=[text]))
    names = [name for tool in cast("list[Json]", body.get("tools") or []) for name in _tool_names(tool)]
    return Request(messages=messages, tools=names, system=body.get("instructions") or "", body=body)


def _tool_names(tool: Json) -> list[str]:
    if tool.get("type") == "namespace":
        return [f"{tool['name']}__{inner['name']}" for inner in tool.get("tools", [])]
    return [tool.get("name") or tool.get("type", "")]


def _response_items(body: Json, step: Step) -> Iterator[Json]:
    tools = cast("list[Json]", body.get("tools") or [])
    if step.text:
        content: list[Json] = [{"type": "output_text", "text": step.text, "annotations": []}]
        yield {"type": "message", "id": f"msg_{next(_numbers)}", "role": "assistant", "content": content}
    for call in step.calls:
        yield _response_call(call, tools)


def _response_call(call: Call, tools: Sequence[Json]) -> Json:
    made: Json = {"id": f"fc_{next(_numbers)}", "call_id": f"call_{next(_numbers)}"}
    for tool in tools:
        if tool.get("type") == "custom" and tool.get("name") == call.name:
            return {"type": "custom_tool_call", **made, "name": call.name, "input": call.arguments["input"]}
        if tool.get("type") == "namespace" and any(inner["name"] == call.name for inner in tool.get("tools", [])):
            made["namespace"] = tool["name"]
    return {"type": "function_call", **made, "name": call.name, "arguments": json.dumps(call.arguments)}


def _response_events(body: Json, step: Step) -> Iterator[Json]:
    name = f"resp_{next(_numbers)}"
    items = list(_response_items(body, step))
    told = step.tokens_in or USAGE_IN
    counted = {"input_tokens": told, "output_tokens": USAGE_OUT, "total_tokens": told + USAGE_OUT}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    response: Json = {"id": name, "object": "response", "status": "completed", "output": items}
    yield {"type": "response.created", "response": {"id": name, "object": "response", "status": "in_progress"}}
    for index, item in enumerate(items):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            yield {"type": "response.output_text.delta", **where, "delta": text}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": {**response, "usage": {**counted, **details}}}
