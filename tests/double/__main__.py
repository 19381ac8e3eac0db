"""python -m tests.double [--port 0] [--script FILE] [--log FILE] [--canned P,C] [--model NAME] [--window N]

Prints one line, `double ready {"url": …, "pid": …}`, and serves until SIGTERM.
"""

import argparse
import asyncio
import os
import signal

import msgspec

from tests.double.script import Script
from tests.double.server import Double


async def serve(args: argparse.Namespace) -> None:
    script = Script.load(args.script) if args.script else Script()
    options = {k: v for k, v in {"model": args.model, "window": args.window}.items() if v is not None}
    if args.canned:
        prompt, sampled, *turns = map(int, args.canned.split(","))
        options |= {"canned": (prompt, sampled), "canned_turns": turns[0] if turns else 1}
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Double(script, port=args.port, log=args.log, **options) as double:
        print("double ready " + msgspec.json.encode({"url": double.url, "pid": os.getpid()}).decode(), flush=True)
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.double")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="JSON file: {steps, rules, default, options}")
    parser.add_argument("--log", help="append every request to this file, one JSON object a line")
    parser.add_argument(
        "--canned", help="P,C[,T]: answer at once with P prompt ids and C sampled tokens, T turns (benchmarks)"
    )
    parser.add_argument("--model")
    parser.add_argument("--window", type=int)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
