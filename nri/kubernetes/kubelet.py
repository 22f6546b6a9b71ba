"""Calls of the kubelet, by gRPC on a socket of its own."""

from __future__ import annotations

from typing import Any

import grpc


def call(
    socket: str, method: str, request: Any, answer: Any, within: float, longest: int | None = None
) -> Any:
    """Call a method; return its answer.

    :param socket: the path of the kubelet's socket.
    :param method: such as ``/v1.PodResourcesLister/List``.
    :param request: a message; *answer* is the class of the answer's.
    :param within: seconds that the kubelet has.
    :param longest: bytes that the answer may have; None for gRPC's own limit.
    :raises grpc.RpcError: it does not answer, or refuses.
    """
    options: list[tuple[str, Any]] = [("grpc.default_authority", "localhost")]  # Go refuses a path
    if longest is not None:
        options.append(("grpc.max_receive_message_length", longest))
    with grpc.insecure_channel(f"unix://{socket}", options=options) as channel:
        ask = channel.unary_unary(
            method, request_serializer=serialized, response_deserializer=answer.FromString
        )
        return ask(request, timeout=within)


def serialized(message: Any) -> bytes:
    """Return a message as gRPC sends it."""
    return message.SerializeToString()  # type: ignore[no-any-return]
