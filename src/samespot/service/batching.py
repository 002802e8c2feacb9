"""Photos of several requests go through the network together: it takes hardly longer for some than for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from samespot.maps.map import Map

if TYPE_CHECKING:  # what is wrong with a service is told before torch is loaded
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class _Waiting:
    map: Map
    image: Tensor
    vector: asyncio.Future[NDArray[np.float32]]


class Batcher:
    """What a map is searched by, of photos that arrive one by one.

    While the network works, others gather. If it is idle, a photo waits for others only while some are `on_the_way`,
    and never longer than `wait` seconds.
    """

    def __init__(
        self, most: int, wait: float, on_the_way: Callable[[], int], told: Callable[[int], None]
    ) -> None:
        self._most, self._wait, self._on_the_way, self._told = most, wait, on_the_way, told
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._network = ThreadPoolExecutor(1, thread_name_prefix="network")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def __call__(self, map: Map, image: Tensor) -> NDArray[np.float32]:
        """(dims,)"""
        asked = _Waiting(map, image, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(asked)
        return await asked.vector

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._network.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = await self._gathered()
            self._told(len(batch))
            for map in {id(one.map): one.map for one in batch}.values():  # two while a newer map takes over
                mine = [one for one in batch if one.map is map and not one.vector.cancelled()]
                if not mine:
                    continue
                try:
                    made = await loop.run_in_executor(
                        self._network, _vectors, map, [one.image for one in mine]
                    )
                except Exception as error:
                    made = [error] * len(mine)
                for one, vector in zip(mine, made, strict=True):
                    if one.vector.done():
                        continue
                    if isinstance(vector, Exception):
                        one.vector.set_exception(vector)
                    else:
                        one.vector.set_result(vector)

    async def _gathered(self) -> list[_Waiting]:
        batch = [await self._queue.get()]
        until = asyncio.get_running_loop().time() + self._wait
        while len(batch) < self._most:
            if not self._queue.empty():
                batch.append(self._queue.get_nowait())
                continue
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or self._on_the_way() <= len(batch):
                break
            try:
                batch.append(await asyncio.wait_for(self._queue.get(), left))
            except TimeoutError:
                break
        return batch


def _vectors(map: Map, images: Sequence[Tensor]) -> Any:
    return list(map.vectors(images))
