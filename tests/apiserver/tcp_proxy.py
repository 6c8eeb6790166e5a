"""A wire to a server that a test can cut: connections stay open, and nothing passes any more."""

import socket
import threading


class Wire:
    """Forwards TCP from `port` on loopback to `address`, until `cut`."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address, self._cut = address, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on what is sent in either direction is lost, and new connections are never answered."""
        self._cut.set()

    def close(self) -> None:
        """Closes every connection."""
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self._address)
            self._open += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if not self._cut.is_set():
                    sink.sendall(data)
            if not self._cut.is_set():
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of the two ends is closed
