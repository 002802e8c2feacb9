"""What the routes of a service share."""

from __future__ import annotations

from samespot.service import decoding
from samespot.service.hosting import Hosting
from samespot.service.keys import Rates, keys_for
from samespot.service.locating import Locating
from samespot.service.options import ServeOptions, named_maps
from samespot.service.telling import Numbers


class Service:
    """Opens the maps at once, so that what is wrong with them shows before anything listens."""

    locating: Locating  # from `start` on

    def __init__(self, options: ServeOptions) -> None:
        self.options, self.numbers, self.ready = options, Numbers(), False
        self.keys, self.rates = keys_for(options), Rates(options.rate)
        self.locked = len(self.keys) > 0 or options.keys is not None
        self.hosting = Hosting(named_maps(options.maps), options.device)
        decoding.begin()
        self.hosting.warm()

    async def start(self) -> None:
        self.locating = Locating(self.options, self.numbers)
        await self.locating.ready()
        self.hosting.watch()
        self.ready = True

    async def stop(self) -> None:
        self.ready = False
        try:
            await self.hosting.close()
        finally:
            await self.locating.close()
