# SPDX-License-Identifier: Apache-2.0
"""What outlives an attempt: rank 0 writes states, and after a restart all ranks get the last one.

A folder has the last states, one a file, with a rising number in its name. A file begins with a
digest of the rest, so one that was not written to its end, on a file system that cannot rename, is
told from a whole one, and the one before it counts.

A new attempt may have its rank 0 on another host. So on local disks every rank looks into its own
folder, and the one with the newest state sends it. Folders with a URL are the same for all, but for
those that name a local disk. What no later attempt could find is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparkring import _run_state as run_state
from sparkring._core import Communicator, InvalidError, UnsupportedError
from sparkring.spark import _closure_codec as closure_codec

KEPT = 2  # states in a folder
MAGIC = b"sparkring checkpoint 1\n"
NAME = re.compile(r"state-(\d{12})")
LOCAL = re.compile(r"(?:file|local):(?://(?:localhost(?=/))?)?(.*)", re.DOTALL)
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")  # of a URL with one slash


class Store(Protocol):
    """A folder of files."""

    shared: bool  # whether all ranks see the same

    def names(self) -> list[str]:
        """List the files; none where there is no folder."""

    def read(self, name: str) -> bytes:
        """Read a file."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, if possible all at once."""

    def remove(self, name: str) -> None:
        """Remove a file."""


class Disk:
    """A folder of this host, or one that hosts share."""

    shared = False

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def names(self) -> list[str]:
        """List the files; none where there is no folder."""
        return os.listdir(self.path) if self.path.is_dir() else []

    def read(self, name: str) -> bytes:
        """Read a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Write a file to the disk, and then give it its name."""
        self.path.mkdir(parents=True, exist_ok=True)
        new = self.path / f"new-{name}"
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / name)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink(missing_ok=True)


class Remote:
    """A folder that fsspec knows."""

    shared = True

    def __init__(self, url: str) -> None:
        if url.rpartition("::")[2].startswith("memory:"):
            raise InvalidError(
                f"the path {url} is memory of this process, which ends with its attempt: pass a"
                " folder that the hosts share, or the URL of one"
            )
        try:
            from fsspec.core import url_to_fs  # type: ignore
        except ImportError as error:
            raise UnsupportedError(
                f"the folder {url} needs the package fsspec: pip install fsspec, and what it"
                " asks for that kind of storage; or pass the path of a folder"
            ) from error
        from fsspec.spec import AbstractFileSystem  # type: ignore

        self.files, self.path = url_to_fs(url)
        self.moves = type(self.files).mv is not AbstractFileSystem.mv  # that one copies

    def names(self) -> list[str]:
        """List the files; none where there is no folder."""
        self.files.invalidate_cache()
        try:
            paths = self.files.ls(self.path, detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def read(self, name: str) -> bytes:
        """Read a file."""
        return bytes(self.files.cat_file(f"{self.path}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """Write a file, and then give it its name; object stores do both at once."""
        self.files.makedirs(self.path, exist_ok=True)
        new = f"{self.path}/new-{name}" if self.moves else f"{self.path}/{name}"
        self.files.pipe_file(new, data)
        if self.moves:
            self.files.mv(new, f"{self.path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(f"{self.path}/{name}")


class Checkpoint:
    """The last states of a job, in a folder.

    Parameters
    ----------
    comm : Communicator
        Who saves and restores.
    path : str or path
        A folder, which need not exist: of this host, or shared by the hosts, or a URL that fsspec
        knows, such as ``s3://bucket/job``. It is for this job alone. States are pickles: whoever
        can write to it can have the ranks run code. A folder of one host is found again while a
        rank runs there. A relative one is in the working directory of the program that calls
        `run`, where that has started all ranks itself (``local[n]``, or a negative ``num_proc``),
        and refused elsewhere, as with any server of Spark Connect that was there before.

    Raises
    ------
    InvalidError
        When no later attempt could find what is saved there: ``memory://``, or a relative path in
        executors, which have working directories of their own.

    Notes
    -----
    A file appears with its name when it is whole, on disks, on object stores (S3, GCS, Azure) and
    where fsspec can move files (HDFS, SFTP, SMB, ...). Elsewhere one that was not written to its
    end is told by its digest, and the state before it counts.

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
        self.comm = comm
        self.store = find(os.fspath(path))
        self.last: int | None = None  # the number of the newest state; None if not known yet

    def save(self, state: Any) -> None:
        """Write a state; rank 0 does, the others return at once.

        The state before stays until this one is whole. Nothing waits for the other ranks.

        Parameters
        ----------
        state : object
            Anything that can be pickled; looked at on rank 0 only.
        """
        if self.comm.rank != 0:
            return
        if self.last is None:
            self.last = max(self.numbers(), default=-1)
        self.last += 1
        data = closure_codec.dumps(state)
        self.store.write(name_of(self.last), MAGIC + hashlib.sha256(data).digest() + data)
        for number in self.numbers():
            if number <= self.last - KEPT:
                self.store.remove(name_of(number))

    def restore(self, default: Any = None) -> Any:
        """Give every rank the newest state that is whole. A collective.

        Parameters
        ----------
        default : object
            What to return when there is none.

        Returns
        -------
        object
            The state, unpickled from the same bytes on every rank.

        Raises
        ------
        OSError
            What reading it has raised, on the rank that did.
        """
        below = np.inf
        while True:
            mine = max((number for number in self.numbers() if number < below), default=-1)
            newest = self.comm.allgather(float(mine))
            owner = int(np.argmax(newest))
            below = float(newest[owner])
            if below < 0:
                self.doubt()
                return default
            data = self.offer(owner, int(below))
            if data is not None:
                self.last = int(below)
                return closure_codec.loads(data)

    def doubt(self) -> None:
        """Say that a later attempt begins anew, where a state may be on a host without ranks."""
        if self.comm.attempt and self.comm.rank == 0 and isinstance(self.store, Disk):
            warnings.warn(
                f"attempt {self.comm.attempt} found no state in {self.store.path} on its hosts. If"
                " an earlier one has saved some, they are on a host without a rank now: pass a"
                " folder that the hosts share, or the URL of one",
                RuntimeWarning,
                stacklevel=3,
            )

    def numbers(self) -> list[int]:
        """List the states that this rank answers for."""
        if self.store.shared and self.comm.rank != 0:
            return []
        found = [NAME.fullmatch(name) for name in self.store.names()]
        return [int(match[1]) for match in found if match]

    def offer(self, owner: int, number: int) -> bytes | None:
        """Let a rank send a state to all; None when it is not whole."""
        data = None
        if self.comm.rank == owner:
            data = whole(self.store.read(name_of(number)))
        length = int(self.comm.broadcast(float(-1 if data is None else len(data)), owner))
        if length < 0:
            return None
        memory = np.empty(length, "uint8") if data is None else np.frombuffer(data, "uint8")
        return self.comm.broadcast(memory, owner).tobytes()


def find(path: str | bytes) -> Store:
    """Find the store that a path names; refuses what no later attempt could find."""
    if not isinstance(path, str) or not path:
        raise InvalidError("path is empty or no text: pass a folder")
    local = LOCAL.fullmatch(path)
    if local is None and "://" in path:
        return Remote(path)
    slash = None if local else SCHEME.match(path)
    if slash:
        raise InvalidError(
            f"the path {path} has one slash after {slash[1]}: write {slash[1]}:// for a URL, and"
            f" ./{path} for a folder of that name"
        )
    folder = Path(local[1] if local else path).expanduser()
    if not folder.is_absolute():
        base = run_state.folder()
        if not base:
            raise InvalidError(
                f"the path {path} is relative, and executors have working directories of their own,"
                " not that of the program that has called run(): pass an absolute path, best of a"
                " folder that the hosts share, or a URL such as s3://bucket/job"
            )
        folder = base / folder
    return Disk(str(folder))


def name_of(number: int) -> str:
    """Name the file of a state."""
    return f"state-{number:012}"


def whole(data: bytes) -> bytes | None:
    """Take the pickle out of a file; None when the file is not whole."""
    start = len(MAGIC) + hashlib.sha256().digest_size
    digest = hashlib.sha256(data[start:]).digest()
    return data[start:] if data[:start] == MAGIC + digest else None
