"""A WebSocket client and server for Python, for tests.

    websocket_peers.py serve      prints its port; echoes until its input ends
    websocket_peers.py talk URL   text, binary, a large message, a ping and an orderly close; prints "done", or what it was refused with
"""

import asyncio
import sys

import websockets


async def echo(connection, path=None):
    try:
        async for message in connection:
            await connection.send(message)
    except websockets.ConnectionClosed:
        pass


async def serve():
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=1 << 24, subprotocols=["chat"]) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def talk(url):
    try:
        connection = await websockets.connect(url, max_size=1 << 24, subprotocols=["chat"])
    except websockets.InvalidStatusCode as refused:
        print("refused", refused.status_code, "retry-after" in refused.headers)
        return
    assert connection.subprotocol == "chat"
    for message in ["text \u00e9", b"\x00\xff binary", "", b"x" * (4 << 20)]:
        await connection.send(message)
        assert await connection.recv() == message
    await asyncio.wait_for(await connection.ping(b"are you there"), 15)
    await connection.close(4001, "enough")
    assert (connection.close_code, connection.close_reason) == (4001, "enough"), connection.close_code
    print("done")


asyncio.run(serve() if sys.argv[1] == "serve" else talk(sys.argv[2]))
