"""From the bytes of photos to answers: decoded apart, described together, verified in a bounded pool."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from samespot.cores import cores
from samespot.maps.answer import Answer, Trouble
from samespot.maps.map import Map, Seen
from samespot.maps.questions import Question
from samespot.service.batching import Batcher
from samespot.service.decoding import Decoder
from samespot.service.errors import UnreadableError, busy
from samespot.service.options import ServeOptions
from samespot.service.telling import Numbers

Photo = tuple[str, bytes]  # name and encoded


class Locating:
    """What all requests share. Made in the loop that answers them."""

    def __init__(self, options: ServeOptions, numbers: Numbers) -> None:
        self._options, self._numbers = options, numbers
        self.inside = 0  # photos in work and waiting
        self._by_asker: Counter[str] = Counter()
        self._undescribed = 0  # of them, those that the network has still to see
        self._decoder = Decoder(min(cores(), 4), options.most_pixels, min(options.seconds, 10.0))
        self._pool = ThreadPoolExecutor(cores(), thread_name_prefix="verifying")
        self._batcher = Batcher(
            options.batch, options.batch_wait / 1000, lambda: self._undescribed, numbers.batches.observe
        )
        self._pace = 0.2  # [s] that a photo takes, lately

    async def ready(self) -> None:
        await self._decoder.ready()

    async def close(self) -> None:
        await self._batcher.close()
        self._pool.shutdown()
        await asyncio.to_thread(self._decoder.close)

    @contextmanager
    def room_for(self, photos: int, asker: str) -> Iterator[None]:
        """Room for that many photos; who finds none is told when to come back. Nobody gets more than half of it, or
        what one request may hold."""
        most = self._options
        mine = self._by_asker[asker] + photos
        if self.inside + photos > most.waiting or mine > max(most.waiting // 2, most.images):
            self._numbers.refused.labels("busy").inc()
            raise busy(self.inside * self._pace)
        self._count(photos, asker)
        try:
            yield
        finally:
            self._count(-photos, asker)

    def _count(self, photos: int, asker: str) -> None:
        self.inside += photos
        self._by_asker[asker] += photos
        if not self._by_asker[asker]:
            del self._by_asker[asker]
        self._numbers.inside.set(self.inside)

    async def locate(self, map: Map, photo: Photo, options: dict[str, Any]) -> Answer:
        """Raises `UnreadableError` for a photo that cannot be read."""
        begun = time.perf_counter()
        seen = await self._seen(map, photo, options)
        answer: Answer = await self._timed(
            "verify", self.in_pool(lambda: map.locate(Question(photo[0], seen), **options))
        )
        self._pace += 0.1 * ((time.perf_counter() - begun) / max(1, self.inside) - self._pace)
        return answer

    async def _seen(self, map: Map, photo: Photo, options: dict[str, Any]) -> Seen:
        self._undescribed += 1
        try:
            size = map.model.preprocessing.size
            image = await self._timed("decode", self._decoder(photo[1], photo[0], size))
            verified = options.get("verify", True)
            looking = self.in_pool(map.keypoints, image.looked_at) if verified else _nothing()
            looked = asyncio.ensure_future(self._timed("keypoints", looking))
            vector = await self._timed("describe", self._batcher(map, image.pixels))
        finally:
            self._undescribed -= 1
        return Seen(vector, await looked, image.camera if verified else None)

    async def locate_all(
        self, map: Map, photos: Sequence[Photo], options: dict[str, Any]
    ) -> list[Answer | Trouble]:
        """One answer for each; a `Trouble` for what cannot be read."""

        async def one(photo: Photo) -> Answer | Trouble:
            try:
                return await self.locate(map, photo, options)
            except UnreadableError as error:
                return Trouble(photo[0], str(error))

        return list(await asyncio.gather(*(one(photo) for photo in photos)))

    async def track(
        self, map: Map, photos: Sequence[Photo], options: dict[str, Any]
    ) -> list[Answer | Trouble]:
        """The photos as one sequence."""

        async def one(photo: Photo) -> Question | Trouble:
            try:
                return Question(photo[0], await self._seen(map, photo, options))
            except UnreadableError as error:
                return Trouble(photo[0], str(error))

        read = await asyncio.gather(*(one(photo) for photo in photos))
        good = [question for question in read if isinstance(question, Question)]
        told = iter(await self.in_pool(lambda: list(map.track(good, **options))))
        return [next(told) if isinstance(one, Question) else one for one in read]

    async def in_pool(self, work: Any, *given: Any) -> Any:
        """Done in one of the threads, of which there are as many as cores."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    async def _timed(self, stage: str, work: Any) -> Any:
        begun = time.perf_counter()
        done = await work
        self._numbers.stages.labels(stage).observe(time.perf_counter() - begun)
        return done


async def _nothing() -> None:
    return None
