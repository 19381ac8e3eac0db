"""The mitmproxy that `serve` embeds: the parts it uses, and hooks that reach only those who listen.

mitmproxy's own manager asks every addon about every hook, twice a hook (`update` follows each): with its 34 default
addons that is a tenth of what a call costs. `mitmdump -s` and mitmweb keep their own.
"""

import inspect
from collections.abc import Callable
from typing import Any

from mitmproxy import exceptions, flow, hooks, options
from mitmproxy.addonmanager import AddonManager, safecall, traverse
from mitmproxy.addons import block, core, disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.master import Master


class ListeningAddons(AddonManager):
    """An AddonManager that looks up who has a hook once, not at each event. Same order, same guard against faults."""

    def __init__(self, master: Master) -> None:
        super().__init__(master)
        self._listeners: dict[str, list[Callable[..., Any]]] = {}

    async def handle_lifecycle(self, event: hooks.Hook) -> None:
        await self.trigger_event(event)
        if self._of(hooks.UpdateHook.name) and isinstance(message := event.args()[0], flow.Flow):
            await self.trigger_event(hooks.UpdateHook([message]))

    async def trigger_event(self, event: hooks.Hook) -> None:
        listeners = self._of(event.name)
        arguments = event.args() if listeners else []
        for function in listeners:
            try:
                with safecall():
                    result = function(*arguments)
                    if result is not None and inspect.isawaitable(result):
                        await result
            except exceptions.AddonHalt:
                return

    def register(self, addon: Any) -> Any:
        self._listeners.clear()
        return super().register(addon)

    def add(self, *addons: Any) -> None:
        super().add(*addons)
        self._listeners.clear()

    def remove(self, addon: Any) -> None:
        super().remove(addon)
        self._listeners.clear()

    def clear(self) -> None:
        super().clear()
        self._listeners.clear()

    def _of(self, name: str) -> list[Callable[..., Any]]:
        found = self._listeners.get(name)
        if found is None:
            found = [function for addon in traverse(self.chain) if callable(function := getattr(addon, name, None))]
            self._listeners[name] = found
        return found


class ProxyMaster(Master):
    """A proxy without a user interface, recording or replaying: the connection, TLS and HTTP parts alone."""

    def __init__(self, settings: options.Options) -> None:
        super().__init__(settings)
        self.addons = ListeningAddons(self)
        self.addons.add(
            core.Core(),
            block.Block(),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
            next_layer.NextLayer(),
            tlsconfig.TlsConfig(),
        )
