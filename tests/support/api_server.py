"""The API server's side of NodeResourceTopology: server-side apply and delete, by Kubernetes' API concepts."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/"


class ApiServer:
    """A server of one kind of objects.

    :ivar objects: those that there are, by name.
    :ivar requests: method, query and body of each request.
    :ivar refuses: the code and message that it answers with; None to do as it is asked.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.refuses: tuple[int, str] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_PATCH(self) -> None:
                assert self.headers["Content-Type"] == "application/apply-patch+yaml"
                server._apply(
                    self, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                )

            def do_DELETE(self) -> None:
                server._apply(self, None)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _apply(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        path, _, query = handler.path.partition("?")
        self.requests.append((handler.command, query, body))
        name, code, answer = path.removeprefix(PATH), 200, body
        if self.refuses is not None:
            code, said = self.refuses
            answer = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "message": said,
                "code": code,
            }
        elif body is None:
            answer = self.objects.pop(name, None)
            code = 404 if answer is None else 200
        else:
            self.objects[name] = body
        data = json.dumps(
            answer or {"kind": "Status", "message": "not found", "code": code}
        ).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def write_config(self, path: Path) -> None:
        """Write a kubeconfig that leads here; JSON is YAML."""
        cluster = {
            "name": "here",
            "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"},
        }
        context = {"name": "here", "context": {"cluster": "here", "user": "agent"}}
        user = {"name": "agent", "user": {"token": "secret"}}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
        path.write_text(
            json.dumps(config | {"clusters": [cluster], "contexts": [context], "users": [user]})
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
