"""The trade between tokens per second for a user and for a GPU: what no other point beats in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chunkcalc.grids.points import HOLDS, Point

# What is looked at where nothing is asked.
BATCHES, CHUNKS, DEGREES = "1,2,4,8,16,32,64,128,256,512", "128,256,512,1024,2048,4096,8192,16384", "1,2,4,8"


class Trade(NamedTuple):
    """A point with what a user and a GPU get of it.

    per_user : output tokens of a stream [token/s]
    per_gpu : output tokens of all streams, by GPU [token/s]
    """

    per_user: float
    per_gpu: float
    keys: Mapping[str, Any]
    point: Point


def trades(keys: Mapping[str, Any], points: Iterable[Point]) -> list[Trade]:
    """The points of a deployment that keep every limit and fit.

    Parameters
    ----------
    keys : what tells the deployment
    points : of its sweep
    """
    return [
        Trade(1 / point.tpot_s, point.batch / point.tpot_s / keys["gpus"], keys, point)
        for point in points
        if point.state == HOLDS and point.tpot_s > 0
    ]


def frontier(found: Iterable[Trade]) -> list[Trade]:
    """The trades that no other one beats in both, by falling speed of a user.

    Parameters
    ----------
    found : of all deployments
    """
    out: list[Trade] = []
    for trade in sorted(found, key=lambda each: (-each.per_user, -each.per_gpu)):
        if not out or trade.per_gpu > out[-1].per_gpu:
            out.append(trade)
    return out
