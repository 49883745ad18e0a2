"""A Messages API on loopback that keeps every request and answers each with one text."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

ANSWER = "Understood."

Json = dict[str, Any]


class MessagesApi(ThreadingHTTPServer):
    """Serves the API; `requests` are the bodies that came with tools, which only conversations have."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Json] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send("application/json", b"{}")

    def do_POST(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if "/v1/messages" not in self.path or "count_tokens" in self.path:
            self._send("application/json", b'{"input_tokens": 10}')
            return
        if body.get("tools"):
            cast(MessagesApi, self.server).requests.append(body)
        message: Json = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [{"type": "text", "text": ANSWER}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 3},
        }
        if body.get("stream"):
            self._send("text/event-stream", b"".join(map(_event, _events(message))))
        else:
            self._send("application/json", json.dumps(message).encode())

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _events(message: Json) -> list[Json]:
    text = {"type": "text", "text": ""}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": text},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]


def _event(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


@contextmanager
def serving() -> Generator[MessagesApi]:
    """Serve until the block ends."""
    with MessagesApi() as api:
        thread = threading.Thread(target=api.serve_forever, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()
