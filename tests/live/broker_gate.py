"""Stands between clients and a broker: forwards, refuses connections, or accepts them and never answers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class BrokerGate:
    """Listens on a port of its own, in place of the port of a broker that clients would connect to."""

    def __init__(self, broker_port: int) -> None:
        self.broker_port = broker_port
        self._connections: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self._forwards = threading.Event()
        self.port = self._listen(0)

    def open(self) -> None:
        """Forward what clients send."""
        self._forwards.set()
        if self._listener is None:
            self._listen(self.port)

    def hang(self) -> None:
        """Accept connections and requests, and answer none."""
        self.open()
        self._forwards.clear()

    def close(self) -> None:
        """Refuse connections, and end those that are there."""
        listener, self._listener = self._listener, None
        for one in (listener, *self._connections):
            if one is not None:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
        self._connections.clear()
        self._forwards.set()

    def _listen(self, port: int) -> int:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self._forwards.set()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return int(self._listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.broker_port))
                self._connections += (client, broker)
                for pair in ((client, broker), (broker, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._forwards.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
