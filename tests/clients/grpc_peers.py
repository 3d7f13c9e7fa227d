"""gRPC's own client and server for Python, for tests: bytes as messages, so that nothing is generated.

    grpc_peers.py serve            prints its port; serves until its input ends
    grpc_peers.py call TARGET HOW  one call of a kind; prints one JSON object: what came back
"""

import json
import sys
from concurrent import futures

import grpc


def unary(request, context):
    context.send_initial_metadata((("x-initial", "first"),))
    context.set_trailing_metadata((("x-trailing", "last"),))
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing: 100%")
    return request + b"!"


def down(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def up(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def both(requests, context):
    for request in requests:
        yield request + b"!"


KINDS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Down": grpc.unary_stream_rpc_method_handler(down),
    "Up": grpc.stream_unary_rpc_method_handler(up),
    "Both": grpc.stream_stream_rpc_method_handler(both),
}


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Peers", KINDS),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0)


def talk(channel, how):
    """What one call of this kind gives back, as text."""
    path = "/test.Peers/" + {"fail": "Unary"}.get(how, how)
    if how in ("Unary", "fail"):
        answer, call = channel.unary_unary(path).with_call(b"fail" if how == "fail" else b"hello", timeout=15)
        metadata = dict(call.initial_metadata()) | dict(call.trailing_metadata())
        return answer.decode() + " " + metadata.get("x-initial", "") + " " + metadata.get("x-trailing", "")
    if how == "Down":
        return str(sum(int(number) for number in channel.unary_stream(path)(b"1000", timeout=15)))
    if how == "Up":
        return channel.stream_unary(path)(iter([b"x" * 50_000] * 40), timeout=15).decode()

    answers = channel.stream_stream(path)(questions := Questions(), timeout=15)
    # Each question is asked when the one before was answered.
    for number in range(20):
        questions.put(str(number).encode())
        assert next(answers) == str(number).encode() + b"!"
    questions.put(None)
    return str(len(list(answers)))


class Questions:
    """An iterator that is fed while it is read."""

    def __init__(self):
        import queue

        self.waiting = queue.Queue()
        self.put = self.waiting.put

    def __iter__(self):
        return iter(self.waiting.get, None)

    def __next__(self):
        if (question := self.waiting.get()) is None:
            raise StopIteration
        return question


def call(target, how):
    # A client that retries by itself would hide what it was told.
    with grpc.insecure_channel(target, options=[("grpc.enable_retries", 0)]) as channel:
        try:
            said = {"code": "OK", "answer": talk(channel, how)}
        except grpc.RpcError as error:
            trailers = {name: value for name, value in error.trailing_metadata() or () if isinstance(value, str)}
            said = {"code": error.code().name, "details": error.details(), "trailers": trailers}
    print(json.dumps(said))


if sys.argv[1] == "serve":
    serve()
else:
    call(sys.argv[2], sys.argv[3])
