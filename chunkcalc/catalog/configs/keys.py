"""Typed reading of a configuration: every error names the key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from chunkcalc.catalog.profiles import MAX_BYTES
from chunkcalc.errors import ChunkcalcError

TEXT_KEYS = ("text_config", "llm_config", "language_config")  # where multimodal models keep the language model
MOST = 10**9  # above any size in a configuration
MOST_LAYERS = 10_000


class Config:
    """The language model's part of a configuration, with what stands beside it as a fallback."""

    def __init__(self, data: Mapping[str, Any], outer: Mapping[str, Any], where: str) -> None:
        self.data, self.outer, self.where = data, outer, where

    @classmethod
    def of_text_model(cls, data: Any, where: str) -> Config:
        """The configuration of the language model inside a possibly multimodal one."""
        if not isinstance(data, Mapping):
            raise ChunkcalcError("is not a JSON object", where, "give a Hugging Face config.json")
        for key in TEXT_KEYS:
            if isinstance(data.get(key), Mapping):
                return cls(data[key], data, where)
        return cls(data, data, where)

    @property
    def model_type(self) -> str:
        """The architecture's name."""
        value = self.data.get("model_type") or self.outer.get("model_type")
        if not isinstance(value, str) or not value:
            raise ChunkcalcError("has no 'model_type'", self.where, "give a Hugging Face config.json")
        return value

    def layer(self, index: int) -> Config:
        """The configuration as one layer sees it: `per_layer_config` overrides the rest."""
        table = self.get("per_layer_config")
        own = table.get(str(index)) if isinstance(table, Mapping) else None
        return Config({**self.data, **own}, self.outer, self.where) if isinstance(own, Mapping) else self

    def get(self, key: str) -> Any:
        """A raw value; None where the key is absent or null."""
        value = self.data.get(key)
        return self.outer.get(key) if value is None else value

    def whole(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """The whole number under the first key that is present."""
        for key in keys:
            value = self.get(key)
            if value is None:
                continue
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value != int(value):
                self.refuse(key, f"is {value!r:.40}, not a whole number")
            if not least <= value <= MOST:
                self.refuse(key, f"is {value:g}, outside {least} to {MOST:,}")
            return int(value)
        if default is None:
            self.refuse(" or ".join(keys), "is missing")
        return default

    def maybe(self, *keys: str) -> int | None:
        """A whole number of at least 1, or None where no key is present."""
        present = any(self.get(key) is not None for key in keys)
        return self.whole(*keys) if present else None

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A yes or no."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(key, f"is {value!r:.40}, not true or false")
        return value

    def names(self, *keys: str) -> list[str] | None:
        """A list of words, one per layer, under the first key that is present."""
        for key in keys:
            value = self.get(key)
            if value is None:
                continue
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                self.refuse(key, "is not a list of names")
            if len(value) > MOST_LAYERS:
                self.refuse(key, f"has {len(value)} entries")
            return value
        return None

    def refuse(self, key: str, problem: str) -> NoReturn:
        """Raise the error of a key."""
        raise ChunkcalcError(f"'{key}' {problem}", self.where, f"correct the key, as {self.model_type} has it")


def read_json(path: str, text: str | None = None) -> Any:
    """A JSON file as plain data, of at most 16 MiB.

    Parameters
    ----------
    path : the file, for errors
    text : its content where it was read already (standard input)

    Raises
    ------
    ChunkcalcError : unreadable, too large, not JSON, nested too deeply
    """
    try:
        if text is None:
            if Path(path).stat().st_size > MAX_BYTES:
                raise ChunkcalcError(f"is larger than {MAX_BYTES >> 20} MiB", path, "a config.json is a few kilobytes")
            text = Path(path).read_text(encoding="utf-8")
        if len(text) > MAX_BYTES:
            raise ChunkcalcError(f"is larger than {MAX_BYTES >> 20} MiB", path, "a config.json is a few kilobytes")
        return json.loads(text)
    except OSError as error:
        raise ChunkcalcError(f"cannot be read ({error.strerror})", path, "give a readable config.json") from None
    except RecursionError:
        raise ChunkcalcError("is nested too deeply", path, "give a Hugging Face config.json") from None
    except ValueError as error:
        raise ChunkcalcError(f"is not valid JSON ({error})", path, "give a Hugging Face config.json") from None
