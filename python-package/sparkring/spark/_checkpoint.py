# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: rank 0 writes states, and after a restart all ranks restore the newest state.

core/bindings/checkpoint.h has the names and the format of the files, and writes them to disks.

A new attempt may have its rank 0 on another host. So on local disks every rank reads its own
directory, and the rank with the newest state sends it. A directory with a URL is the same for all
ranks, unless the URL names a local disk. A directory that no later attempt could find is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparkring import _core
from sparkring import _run_state as run_state
from sparkring._communicator import Communicator
from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _closure_codec as closure_codec

LOCAL = re.compile(r"(?:file|local):(?://(?:localhost(?=/))?)?(.*)", re.DOTALL)
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")  # of a URL with one slash


class Store(Protocol):
    """A directory of files."""

    shared: bool  # whether all ranks see the same files

    def names(self) -> list[str]:
        """List the files; none where there is no directory."""

    def read(self, name: str) -> bytes:
        """Read a file."""

    def write(self, name: str, data: bytes, trailer: bytes = b"") -> None:
        """Write a file, atomically if possible."""

    def remove(self, name: str) -> None:
        """Remove a file."""


class Disk:
    """A directory of this host, or of a file system that hosts share."""

    shared = False

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def names(self) -> list[str]:
        """List the files; none where there is no directory."""
        return os.listdir(self.path) if self.path.is_dir() else []

    def read(self, name: str) -> bytes:
        """Read a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes, trailer: bytes = b"") -> None:
        """Write a file to the disk, and then rename it to its name."""
        self.path.mkdir(parents=True, exist_ok=True)
        _core.file_write(self.path, name, data, trailer)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink(missing_ok=True)


class Remote:
    """A directory that fsspec knows."""

    shared = True

    def __init__(self, url: str) -> None:
        if url.rpartition("::")[2].startswith("memory:"):
            raise InvalidError(
                f"the path {url} is memory of this process, which ends with its attempt: pass a"
                " directory that the hosts share, or its URL"
            )
        try:
            from fsspec.core import url_to_fs  # type: ignore
        except ImportError as error:
            raise UnsupportedError(
                f"the URL {url} needs the package fsspec: pip install fsspec, and the package that"
                " it asks for; or pass the path of a directory"
            ) from error
        from fsspec.spec import AbstractFileSystem  # type: ignore

        self.files, self.path = url_to_fs(url)
        self.moves = type(self.files).mv is not AbstractFileSystem.mv  # the default mv copies

    def names(self) -> list[str]:
        """List the files; none where there is no directory."""
        self.files.invalidate_cache()
        try:
            paths = self.files.ls(self.path, detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def read(self, name: str) -> bytes:
        """Read a file."""
        return bytes(self.files.cat_file(f"{self.path}/{name}"))

    def write(self, name: str, data: bytes, trailer: bytes = b"") -> None:
        """Write a file, and then rename it to its name. Object stores do both at once."""
        self.files.makedirs(self.path, exist_ok=True)
        new = f"{self.path}/new-{name}" if self.moves else f"{self.path}/{name}"
        self.files.pipe_file(new, data + trailer)
        if self.moves:
            self.files.mv(new, f"{self.path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(f"{self.path}/{name}")


class Checkpoint:
    """The last states of a job, in a directory.

    Parameters
    ----------
    comm : Communicator
        The communicator of the job.
    path : str or path
        A directory, which need not exist: of this host, or shared by the hosts, or a URL that
        fsspec knows, such as ``s3://bucket/job``. It must be for this job alone. States are
        pickles: a program that can write to the directory can run code on the ranks. A directory of
        one host is found again while a rank runs on the host. A relative path is in the working
        directory of the program that calls `run`, where the program has started all ranks itself
        (``local[n]``, or a negative ``num_proc``). Elsewhere a relative path is refused, also with
        a server of Spark Connect that the program has not started.

    Raises
    ------
    InvalidError
        When no later attempt could find the states: ``memory://``, or a relative path in executors,
        which have working directories of their own.

    Notes
    -----
    A file appears with its name when it is complete, on disks, on object stores (S3, GCS, Azure)
    and where fsspec can move files (HDFS, SFTP, SMB, ...). Elsewhere the digest detects a file that
    was not written to its end, and the earlier state counts.

    Examples
    --------
    >>> def train(comm, path):
    ...     checkpoint = Checkpoint(comm, path)
    ...     first, weights = checkpoint.restore(default=(0, numpy.zeros(10)))
    ...     for epoch in range(first, 20):
    ...         weights = step(comm, weights)
    ...         checkpoint.save((epoch + 1, weights))
    ...     return weights
    >>> run(train, args=("s3://bucket/job",), num_proc=4, max_restarts=3)
    """

    def __init__(self, comm: Communicator, path: str | os.PathLike[str]) -> None:
        self._comm = comm
        self._store = find(os.fspath(path))
        self._newest: int | None = None  # the number of the newest state; None while unknown

    def save(self, state: Any) -> None:
        """Write a state on rank 0. The other ranks return at once.

        The earlier state stays until the new state is complete. The call does not wait for the
        other ranks.

        Parameters
        ----------
        state : object
            Anything that can be pickled; ignored except on rank 0.
        """
        if self._comm.rank != 0:
            return
        if self._newest is None:
            self._newest = max(self._numbers(), default=-1)
        self._newest += 1
        data = closure_codec.dumps(state)
        name = _core.checkpoint_name(self._newest)
        self._store.write(name, data, _core.checkpoint_trailer(data))
        for number in self._numbers():
            if _core.checkpoint_is_old(number, self._newest):
                self._store.remove(_core.checkpoint_name(number))

    def restore(self, default: Any = None) -> Any:
        """Return the newest complete state on every rank. A collective.

        Parameters
        ----------
        default : object
            The result when there is no state.

        Returns
        -------
        object
            The state, unpickled from the same bytes on every rank.

        Raises
        ------
        OSError
            The error of reading the state, on the rank that has read it.
        """
        below = np.inf
        while True:
            mine = max((number for number in self._numbers() if number < below), default=-1)
            newest = self._comm.allgather(float(mine))
            owner = int(np.argmax(newest))
            below = float(newest[owner])
            if below < 0:
                self._warn_of_lost_state()
                return default
            data = self._broadcast(owner, int(below))
            if data is not None:
                self._newest = int(below)
                return closure_codec.loads(data)

    def _warn_of_lost_state(self) -> None:
        """Warn that a later attempt may miss a state on a host without ranks."""
        if self._comm.attempt and self._comm.rank == 0 and isinstance(self._store, Disk):
            warnings.warn(
                f"attempt {self._comm.attempt} found no state in {self._store.path} on its"
                " hosts. If an earlier attempt has saved states, they are on a host without a rank"
                " now: pass a directory that the hosts share, or its URL",
                RuntimeWarning,
                stacklevel=3,
            )

    def _numbers(self) -> list[int]:
        """List the states that this rank may send."""
        if self._store.shared and self._comm.rank != 0:
            return []
        numbers = [_core.checkpoint_number(name) for name in self._store.names()]
        return [number for number in numbers if number is not None]

    def _broadcast(self, owner: int, number: int) -> bytes | None:
        """Broadcast a state from a rank; None when the state is incomplete."""
        data: memoryview | None = None
        if self._comm.rank == owner:
            file = self._store.read(_core.checkpoint_name(number))
            size = _core.checkpoint_length(file)
            data = None if size is None else memoryview(file)[:size]
        length = int(self._comm.broadcast(float(-1 if data is None else len(data)), owner))
        if length < 0:
            return None
        memory = np.empty(length, "uint8") if data is None else np.frombuffer(data, "uint8")
        return self._comm.broadcast(memory, owner).tobytes()


def find(path: str | bytes) -> Store:
    """Find the store of a path. Refuse a path that no later attempt could find."""
    if not isinstance(path, str) or not path:
        raise InvalidError("path is empty or no string: pass a directory")
    local = LOCAL.fullmatch(path)
    if local is None and "://" in path:
        return Remote(path)
    slash = None if local else SCHEME.match(path)
    if slash:
        raise InvalidError(
            f"the path {path} has one slash after {slash[1]}: write {slash[1]}:// for a URL, and"
            f" ./{path} for a directory of that name"
        )
    directory = Path(local[1] if local else path).expanduser()
    if not directory.is_absolute():
        base = run_state.working_directory()
        if not base:
            raise InvalidError(
                f"the path {path} is relative, and each executor has a working directory of its"
                " own, which a new attempt would not find: pass an absolute path, best of a"
                " directory that the hosts share, or a URL such as s3://bucket/job"
            )
        directory = base / directory
    return Disk(str(directory))
