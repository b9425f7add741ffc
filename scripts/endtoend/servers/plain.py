"""A server of Python's standard library alone, whose tools try what a sandbox may refuse."""

import json
import socket
import subprocess
import sys
import tempfile


def read(arg):
    with open(arg) as f:
        return f.read()


def write(arg):
    with open(arg, "w") as f:
        return str(f.write("x"))


def temporary(_):
    with tempfile.NamedTemporaryFile() as f:
        return "wrote " + str(f.write(b"x"))


def connect(arg):
    socket.create_connection(("127.0.0.1", int(arg)), 5).close()
    return "connected"


def run(arg):
    return subprocess.run(["/bin/sh", "-c", arg], capture_output=True, text=True, check=True).stdout


def allocate(arg):
    return str(len(bytearray(int(arg) << 20)))


tools = {f.__name__: f for f in (read, write, temporary, connect, run, allocate)}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"arg": {"type": "string"}}, "required": ["arg"]}
        return {"tools": [{"name": name, "inputSchema": schema} for name in tools]}
    if method == "tools/call":
        try:
            return {"content": [{"type": "text", "text": tools[params["name"]](params["arguments"]["arg"])}]}
        except Exception as e:
            return {"content": [{"type": "text", "text": repr(e)}], "isError": True}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params"))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
