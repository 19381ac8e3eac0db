"""An agent of three calls that notes when it asks first and when it has its last answer.

rollout_agent.py ENGINE_URL FILE      straight to the engine
rollout_agent.py proxy FOLDER         through HTTPS_PROXY; the file is named by the session
"""

import base64
import http.client
import json
import os
import ssl
import sys
import time
from urllib.parse import urlsplit


def main() -> None:
    way, said = sys.argv[1:]
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    body = {"model": "m", "messages": [{"role": "user", "content": "begin"}]}
    trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])  # as any agent loads its own roots
    asks = time.time()
    if way == "proxy":
        proxy = urlsplit(os.environ["HTTPS_PROXY"])
        said = os.path.join(said, f"{proxy.username}.json")
        connection = http.client.HTTPSConnection(str(proxy.hostname), proxy.port, context=trust, timeout=60)
        user = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        connection.set_tunnel("api.openai.com", 443, {"Proxy-Authorization": f"Basic {user}"})
    else:
        engine = urlsplit(way)
        connection = http.client.HTTPConnection(str(engine.hostname), engine.port, timeout=60)
    for turn in range(3):
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = json.load(connection.getresponse())
        body["messages"] += [answer["choices"][0]["message"], {"role": "user", "content": f"go on {turn}"}]
    with open(said, "w") as file:
        json.dump({"asks": asks, "answered": time.time()}, file)


main()
