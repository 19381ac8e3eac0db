"""A scripted agent: `agent.py "turns 2, write north, sleep 1, exit 3"` does these things in order.

turns N: so many calls in one conversation. write TEXT: into proof.txt. flip: writes north or south by its session's
number. leave N: a daemon that sleeps. direct: a call past the proxy. until FILE: waits for it.
"""

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit


def ask(messages):
    proxy = urlsplit(os.environ["HTTPS_PROXY"])
    trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    connection = http.client.HTTPSConnection(proxy.hostname, proxy.port, context=trust, timeout=60)
    user = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    connection.set_tunnel("api.openai.com", 443, {"Proxy-Authorization": f"Basic {user}"})
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": messages}), headers)
    answer = connection.getresponse()
    body = json.load(answer)
    if answer.status != 200:
        sys.exit(f"status {answer.status}: {body}")
    return body["choices"][0]["message"]["content"]


def turns(number):
    said = [{"role": "user", "content": f"{urlsplit(os.environ['HTTPS_PROXY']).username} starts"}]
    for _ in range(number):
        answer = ask(said)
        print(answer)
        if "limit" in answer:
            return
        said += [{"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]


def do(order, value):
    match order:
        case "turns":
            turns(int(value))
        case "write":
            Path("proof.txt").write_text(value + "\n")
        case "flip":
            number = int(urlsplit(os.environ["HTTPS_PROXY"]).username.split(".")[2])
            Path("proof.txt").write_text("north\n" if number % 2 else "south\n")
        case "sleep":
            time.sleep(float(value))
        case "leave":
            subprocess.Popen(["sleep", value], start_new_session=True)
        case "direct":
            http.client.HTTPSConnection("192.0.2.1", 443, timeout=3).request("GET", "/")
        case "until":
            while not Path(value).exists():
                time.sleep(0.05)
        case "exit":
            sys.exit(int(value))
        case _:
            sys.exit(f"unknown order {order}")


for part in sys.argv[1].split(", "):
    do(*part.partition(" ")[::2])
