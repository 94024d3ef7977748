"""An engine whose every byte a test decides: what it writes, when, and how the connection ends."""
import socket
import struct
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class Gone(Exception):
    """The gateway has closed the connection."""


class Connection:
    """One connection of the gateway's, with the request that came on it."""

    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def read_request(self):
        """True when a whole request has come: `head`, `fields` (names in lower case, as a list), `body`."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return False
        self.head, rest = self.buffer.split(b"\r\n\r\n", 1)
        lines = self.head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ")
        self.fields = [(n.strip().lower(), v.strip()) for n, v in (line.split(":", 1) for line in lines[1:])]
        length = int(dict(self.fields).get("content-length", 0))
        while len(rest) < length:
            self.buffer = rest
            if not self._more():
                return False
            rest = self.buffer
        self.body, self.buffer = rest[:length], rest[length:]
        return True

    def _more(self):
        try:
            piece = self.sock.recv(65536)
        except OSError:
            return False
        self.buffer += piece
        return bool(piece)

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Gone from error

    def chunk(self, payload):
        self.send(b"%x\r\n%s\r\n" % (len(payload), payload))

    def stream(self, writes, gap=0.02, end=True):
        """Each write as one chunk, `gap` seconds apart."""
        self.send(HEAD)
        for write in writes:
            self.chunk(write if isinstance(write, bytes) else write.encode())
            time.sleep(gap)
        if end:
            self.send(b"0\r\n\r\n")

    def whole(self, body, status=200, content_type="application/json", fields=""):
        body = body if isinstance(body, bytes) else body.encode()
        self.send(
            f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        raise Gone

    def close(self):
        self.sock.close()
        raise Gone

    def wait_until_closed(self, most=60):
        """Seconds until the gateway hangs up; fails when it does not."""
        began = time.monotonic()
        self.sock.settimeout(most)
        try:
            while self.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        return time.monotonic() - began


class ScriptedEngine:
    """Answers each POST with respond(connection); /metrics with a vLLM page of `page`."""

    def __init__(self, respond, port=0, metrics=True):
        self.respond, self.metrics = respond, metrics
        self.page = {"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:generation_tokens_total": 0}
        self.requests, self.connections, self.active = [], 0, 0
        self.lock = threading.Lock()
        self.most_active = 0
        self.server = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port = self.server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.open = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.server.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        connection = Connection(sock)
        counted = False
        try:
            while connection.read_request():
                if connection.method == "GET":
                    text = "".join(f'{name}{{model_name="m"}} {value}\n' for name, value in self.page.items())
                    connection.whole(text if self.metrics else "", 200 if self.metrics else 404, "text/plain")
                    continue
                with self.lock:
                    self.connections += 0 if counted else 1
                    counted = True
                    self.requests.append((connection.head, connection.fields, connection.body))
                    self.active += 1
                    self.most_active = max(self.most_active, self.active)
                try:
                    self.respond(connection)
                finally:
                    with self.lock:
                        self.active -= 1
        except Gone:
            pass
        finally:
            sock.close()
            self.open.discard(sock)

    def stop(self):
        """As if the process had died: nobody listens, every connection is reset."""
        self.server.close()
        for sock in list(self.open):
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.shutdown(socket.SHUT_RDWR)
                sock.close()
            except OSError:
                pass
        return 0

    err = ()
