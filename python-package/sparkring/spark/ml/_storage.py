# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Saving and loading, in the format of Spark ML's own Python stages, on any file system of Spark.

``metadata`` has JSON, ``weights`` the file of the weights in Parquet, cut into pieces. DataFrames
write and read both, so that Spark Connect can, too. A job writes 16 MiB: Spark limits the size of a
task (``spark.rpc.message.maxSize``) and of a result. The metadata come last, with the digest of the
weights, so that a half-written model is not loaded.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from typing import Any

from pyspark.ml.util import DefaultParamsReader, MLReadable, MLReader, MLWritable, MLWriter

from sparkring._core import InvalidError
from sparkring._core import version as sparkring_version
from sparkring.spark import _session as sessions
from sparkring.spark.ml import _factory as factory
from sparkring.spark.ml._plan import FUNCTIONS

FORMAT = 1
ROW, JOB = 1 << 20, 16 << 20  # bytes of the weights in a row, and in the rows that a job writes


class Writer(MLWriter):
    """Saves an estimator or a model."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        """Save, or raise Spark's error where the path exists, unless ``overwrite()`` was called."""
        session = find_session(self._sparkSession)
        mode = "overwrite" if self.shouldOverwrite else "error"
        # First, because a function without an import path is an error.
        text = json.dumps(self.metadata(session.version), separators=(",", ":"))
        weights = getattr(self.instance, "_weights", b"")
        for first in range(0, len(weights), JOB):
            starts = range(first, min(first + JOB, len(weights)), ROW)
            pieces = [(start, bytearray(weights[start : start + ROW])) for start in starts]
            rows = session.createDataFrame(pieces, "start bigint, data binary").coalesce(1)
            rows.write.mode("append" if first else mode).parquet(f"{path}/weights")
        rows = session.createDataFrame([(text,)], "value string")
        rows.coalesce(1).write.mode(mode).text(f"{path}/metadata")

    def metadata(self, version: str) -> dict[str, Any]:
        """Return the metadata."""
        instance = self.instance
        return {
            "format": FORMAT,
            "sparkringVersion": sparkring_version,
            "pythonVersion": platform.python_version(),
            "class": f"{type(instance).__module__}.{type(instance).__qualname__}",
            "timestamp": round(time.time() * 1000),
            "sparkVersion": version,
            "uid": instance.uid,
            "paramMap": self.texts(instance._paramMap),
            "defaultParamMap": self.texts(instance._defaultParamMap),
            "weights": digest(getattr(instance, "_weights", b"")),
            **instance._extra(),
        }

    def texts(self, params: dict[Any, Any]) -> dict[str, Any]:
        """Return values that JSON can hold."""
        pickles = self.instance.getOrDefault("cloudpickle")
        return {
            param.name: factory.dump(param.name, value, pickles=pickles)
            if param.name in FUNCTIONS
            else value
            for param, value in params.items()
            if value is not None  # which converters of Spark refuse when it is read
        }


class Reader(MLReader[Any]):
    """Loads an estimator or a model."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> Any:
        """Load."""
        session = find_session(self._sparkSession)
        metadata = json.loads(session.read.text(f"{path}/metadata").first()[0])
        instance = self.kind()
        name = f"{self.kind.__module__}.{self.kind.__qualname__}"
        if metadata["class"] != name:
            raise InvalidError(
                f"{path} has a {metadata['class']}: load it with that class, not with {name}"
            )
        if metadata["format"] > FORMAT:
            raise InvalidError(
                f"{path} was saved by sparkring {metadata['sparkringVersion']}, whose format this"
                f" sparkring {sparkring_version} does not know: install that version"
            )
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        if hasattr(instance, "_weights"):
            rows = session.read.parquet(f"{path}/weights").toLocalIterator()
            pieces = sorted((row["start"], bytes(row["data"])) for row in rows)
            weights = b"".join(piece for _, piece in pieces)
            if digest(weights) != metadata["weights"]:
                raise InvalidError(
                    f"the weights in {path} are not those of its metadata: it was saved in part, or"
                    " overwritten in part. Save the model again"
                )
            instance._load(weights, metadata)
        return instance


class Stored(MLReadable[Any], MLWritable):
    """An object that `Writer` saves and `Reader` loads."""

    def write(self) -> Writer:
        """Return the object that saves, as Spark's stages do.

        Returns
        -------
        Writer
            ``write().overwrite().save(path)`` replaces what is at the path.
        """
        return Writer(self)

    @classmethod
    def read(cls) -> Reader:
        """Return the object that loads, as Spark's stages do.

        Returns
        -------
        Reader
            ``read().load(path)`` returns what was saved.
        """
        return Reader(cls)

    def _extra(self) -> dict[str, Any]:
        """Return further metadata, for `Writer`: there is none."""
        return {}


def digest(weights: bytes) -> str:
    """Return the digest of the weights."""
    return hashlib.sha256(weights).hexdigest()


def find_session(given: Any = None) -> Any:
    """Return the given session, or the active one, classic or of Spark Connect."""
    if given is not None:
        return given
    found = sessions.active()
    if found is None or hasattr(found, "createDataFrame"):
        if found is None:
            raise InvalidError("there is no Spark session: SparkSession.builder.getOrCreate()")
        return found
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()
