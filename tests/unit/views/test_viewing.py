"""The addon behind mitmweb's views: its option, and the bound on a WebSocket's messages."""

import runpy
from typing import Any

import pytest
from mitmproxy import exceptions
from mitmproxy.contentviews import Metadata
from mitmproxy.test import taddons, tflow
from mitmproxy.websocket import WebSocketMessage
from wsproto.frame_protocol import Opcode

from polar_capture import resources


@pytest.fixture(scope="module")
def contentview() -> dict[str, Any]:
    return runpy.run_path(str(resources.addon_script().with_name("contentview.py")))


@pytest.mark.parametrize("kept", [0, -3])
def test_keeping_nothing_is_refused(contentview: dict[str, Any], kept: int):
    viewing = contentview["Viewing"](lambda: None)
    with taddons.context(viewing) as context, pytest.raises(exceptions.OptionsError, match=f"{kept}: keep at least 1"):
        context.configure(viewing, polar_keep_flows=kept)


def test_old_messages_of_a_websocket_go(contentview: dict[str, Any]):
    viewing = contentview["Viewing"](lambda: None)
    with taddons.context(viewing) as context:
        context.configure(viewing, polar_keep_flows=4)
        flow = tflow.twebsocketflow(messages=False)
        assert flow.websocket is not None
        for number in range(10):
            flow.websocket.messages.append(WebSocketMessage(Opcode.TEXT, True, b"%d" % number))
            viewing.websocket_message(flow)
        assert [message.content for message in flow.websocket.messages] == [b"6", b"7", b"8", b"9"]


def test_foreign_flows_are_left_to_mitmproxys_own_views(contentview: dict[str, Any]):
    viewing = contentview["Viewing"](lambda: None)
    flow = tflow.tflow(resp=True)
    for message in (flow.request, flow.response):
        metadata = Metadata(flow=flow, http_message=message)
        for view in (
            contentview["RequestView"](),
            contentview["AnswerView"](),
            contentview["TokensView"](viewing),
            contentview["ExchangeView"](viewing),
        ):
            assert view.render_priority(b'{"a": 1}', metadata) < 0
    assert "No captured call" in contentview["TokensView"](viewing).prettify(b"", Metadata(flow=flow))
