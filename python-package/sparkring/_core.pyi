# SPDX-License-Identifier: Apache-2.0
import builtins
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import GenericAlias, TracebackType
from typing import Any, Final, Generic, Literal, NoReturn, Protocol, TypeVar, final, overload

from numpy import dtype as _dtype
from numpy import generic, int64
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer, Self, TypeAlias

from sparkring._device.device import Device
from sparkring._explanation import Explanation
from sparkring._messages import Messages
from sparkring._reducer import Reducer

_Number: TypeAlias = bool | int | float | complex | generic
_Array: TypeAlias = (
    Buffer | NDArray[Any]
)  # NumPy's stubs make an array a Buffer only from Python 3.12 on
_Shape: TypeAlias = int | Sequence[int]

class _DLPack(Protocol):
    def __dlpack__(self) -> Any: ...

class _Column(Protocol):  # of pandas or pyarrow
    def __array__(self) -> NDArray[Any]: ...

class _ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _TorchDtype(Protocol):
    @property
    def is_floating_point(self) -> bool: ...

_Other: TypeAlias = _DLPack | _Column | _ArrayInterface  # arrays of other libraries
_Output = TypeVar("_Output", bound=_Array | _Other)
_Library = TypeVar("_Library", bound=_Other)
_Scalar = TypeVar("_Scalar", bound=generic)
_Result = TypeVar("_Result", covariant=True)

version: Final[str]
openssl: Final[str]  # of the library that the extension uses, which need not be Python's

def open(
    rank: int,
    size: int,
    addresses: tuple[str, ...] | None,
    root_address: str | None,
    token: str | bytes | None,
    job: str | None,
    ports: tuple[int, int],
    timeout: float,
    call_timeout: float,
    warn_after: float,
    algorithms: str | None,
    exchange: Callable[[str], Sequence[str]] | None,
    shared_memory: bool,
    connections: int,
    encryption: bool | None,
    watch_parent: bool,
    backend: str | None,
    /,
) -> Communicator: ...
def reducer_open(
    comm: Communicator,
    threshold: int,
    cycle_time: float,
    cache_capacity: int,
    stall_timeout: float,
    autotune: bool,
    autotune_log: str | None,
    /,
) -> ReducerHandle: ...
def messages_open(comm: Communicator, /) -> MessagesHandle: ...
def pmi_serve(comm: Communicator, pmix: bool, /) -> PmiHandle: ...
def device_read(object: Any, stream: int, /) -> DeviceTensor: ...
def end() -> None: ...
def document(type: type, name: str, text: str, /) -> None: ...
def blame_weight(statuses: list[str], /) -> float: ...
def blame_first(failures: list[tuple[float, float, int]], /) -> int: ...
def checkpoint_name(number: int, /) -> str: ...
def checkpoint_number(name: str, /) -> int | None: ...
def checkpoint_is_old(number: int, newest: int, /) -> bool: ...
def checkpoint_trailer(state: Buffer, /) -> bytes: ...
def checkpoint_length(file: Buffer, /) -> int | None: ...
def file_write(
    directory: str | os.PathLike[str], name: str, data: Buffer, trailer: Buffer, /
) -> None: ...
def envelope_trailer(length: int, /) -> bytes: ...
def envelope_failure(text: bytes, /) -> bytes: ...
def envelope_split(received: Buffer, count: int, /) -> list[int] | None: ...
def envelope_check(envelope: Buffer, rank: int, /) -> str | None: ...

class RingError(RuntimeError):
    status: str
    rank: int | None
    errno: int | None

class InvalidError(RingError, ValueError): ...
class OnGpuError(InvalidError): ...
class TimeoutError(RingError, builtins.TimeoutError): ...
class PeerLostError(RingError, ConnectionError): ...
class MismatchError(RingError): ...
class AuthError(RingError): ...
class AbortedError(RingError): ...
class BusyError(RingError): ...
class UnsupportedError(RingError): ...
class NoMemoryError(RingError, MemoryError): ...
class SystemCallError(RingError): ...

@final
class Memory: ...

@final
class Tls:
    def __new__(cls, fd: int, connects: bool, key: bytes) -> Self: ...
    def send(self, data: Buffer, /) -> int: ...
    def recv(self, most: int, /) -> bytes: ...
    def recv_into(self, buffer: Buffer, /) -> int: ...
    def wants(self, events: int, /) -> int: ...
    def close(self) -> None: ...

@final
class Request(Coroutine[Any, Any, _Result], Generic[_Result]):
    def __class_getitem__(cls, result: Any, /) -> GenericAlias: ...
    def wait(self) -> _Result: ...
    def test(self) -> bool: ...
    # Methods of sparkring._request, which adds them.
    def __await__(self) -> Generator[Any, None, _Result]: ...
    def send(self, _: None, /) -> Any: ...
    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> NoReturn: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class MessagesHandle:
    def send(self, x: Any, peer: int, tag: int, dtype: str | None, /) -> None: ...
    def send_start(self, x: Any, peer: int, tag: int, dtype: str | None, /) -> TransferHandle: ...
    def recv_start(
        self, source: int, tag: int, out: Any, dtype: str | None, /
    ) -> TransferHandle: ...
    def probe(self, source: int, tag: int, waits: bool, /) -> tuple[int, int, str, int] | None: ...
    def close(self) -> None: ...
    def abort(self, reason: str | None, /) -> None: ...

@final
class TransferHandle:
    def wait(self) -> Any: ...
    def test(self) -> bool: ...
    def cancel(self) -> None: ...
    def info(self) -> tuple[int, int, str, int] | None: ...

@final
class DeviceMemory:
    @property
    def address(self) -> int: ...
    def dlpack(self, dtype: str, shape: tuple[int, ...], gpu: int, versioned: bool, /) -> Any: ...

@final
class DeviceTensor:
    def numbers(self) -> tuple[int, int, int, str, tuple[int, ...], int, int]: ...

@final
class DeviceHandle:
    @property
    def gpu(self) -> int: ...
    def allreduce(
        self, input: int, output: int, count: int, dtype: str, op: str, stream: int, /
    ) -> None: ...
    def reduce(
        self, input: int, output: int, count: int, dtype: str, op: str, root: int, stream: int, /
    ) -> None: ...
    def reduce_scatter(
        self, input: int, output: int, count: int, dtype: str, op: str, stream: int, /
    ) -> None: ...
    def broadcast(
        self, input: int, output: int, count: int, dtype: str, root: int, stream: int, /
    ) -> None: ...
    def allgather(
        self, input: int, output: int, count: int, dtype: str, stream: int, /
    ) -> None: ...
    def alltoall(self, input: int, output: int, count: int, dtype: str, stream: int, /) -> None: ...
    def alltoallv(
        self,
        input: int,
        sends: tuple[int, ...],
        output: int,
        receives: tuple[int, ...],
        dtype: str,
        stream: int,
        /,
    ) -> None: ...
    def send(self, input: int, count: int, dtype: str, peer: int, stream: int, /) -> None: ...
    def recv(self, output: int, count: int, dtype: str, peer: int, stream: int, /) -> None: ...
    def allreduce_group(
        self,
        buffers: list[tuple[int, int, int]],
        dtype: str,
        wire: str,
        op: str,
        prescale: float,
        postscale: float,
        stream: int,
        /,
    ) -> None: ...
    def cast(
        self,
        input: int,
        dtype: str,
        output: int,
        output_dtype: str,
        count: int,
        scale: float,
        stream: int,
        /,
    ) -> None: ...
    def wait(self, stream: int, /) -> None: ...
    def test(self, stream: int, /) -> bool: ...
    def check(self) -> None: ...
    def explain(self) -> tuple[str, str, int, str, int, int, int, int, int, str]: ...
    def alloc(self, bytes: int, /) -> DeviceMemory: ...
    def abort(self, reason: str | None, /) -> None: ...

@final
class PmiHandle:
    def environment(self) -> list[str]: ...
    def pmix_problem(self) -> str | None: ...
    def fd(self) -> int: ...
    def started(self) -> None: ...
    def test(self) -> tuple[str, int]: ...
    def close(self) -> None: ...
    def abort(self, reason: str, /) -> None: ...
    def free(self) -> None: ...

@final
class ReducerHandle:
    def submit(
        self,
        kind: int,
        name: str,
        x: Any,
        out: Any,
        op: str,
        root: int,
        dtype: str | list[str | None] | None,
        prescale: float,
        postscale: float,
        splits: list[int] | None,
        note: str | None,
        /,
    ) -> Submission: ...
    def join(self) -> int: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...
    def abort(self, reason: str | None, /) -> None: ...
    def counters(self) -> dict[str, Any]: ...

@final
class Submission:
    @property
    def rows(self) -> list[int] | None: ...
    def wait(self) -> Any: ...
    def test(self) -> bool: ...

@final
class Communicator:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def hosts(self) -> list[str]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def authenticated(self) -> bool: ...
    @property
    def encrypted(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def usable(self) -> bool: ...
    # NumPy scalars have the buffer protocol, and Python's bool, int and float have not, so the
    # order of the overloads is: out, array, number, any other buffer.
    @overload
    def allreduce(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Output: ...
    @overload
    def allreduce(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[_Scalar]: ...
    @overload
    def allreduce(
        self,
        x: _Number,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Any: ...
    @overload
    def allreduce(
        self,
        x: _Array,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[Any]: ...
    @overload
    def allreduce(
        self,
        x: _Library,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Library: ...
    @overload
    def allreduce_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[_Output]: ...
    @overload
    def allreduce_group(
        self,
        xs: Iterable[NDArray[_Scalar]],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[NDArray[_Scalar]]: ...
    @overload
    def allreduce_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[Any]: ...
    @overload
    def reduce_scatter_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[_Output]: ...
    @overload
    def reduce_scatter_group(
        self,
        xs: Iterable[NDArray[_Scalar]],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[NDArray[_Scalar]]: ...
    @overload
    def reduce_scatter_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> list[Any]: ...
    @overload
    def allgather_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
    ) -> list[_Output]: ...
    @overload
    def allgather_group(
        self,
        xs: Iterable[NDArray[_Scalar]],
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> list[NDArray[_Scalar]]: ...
    @overload
    def allgather_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> list[Any]: ...
    @overload
    def broadcast_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        root: int = 0,
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
    ) -> list[_Output]: ...
    @overload
    def broadcast_group(
        self,
        xs: Iterable[NDArray[_Scalar]],
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> list[NDArray[_Scalar]]: ...
    @overload
    def broadcast_group(
        self,
        xs: Iterable[_Number | _Array | _Other],
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> list[Any]: ...
    @overload
    def reduce(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        root: int = 0,
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Output | None: ...
    @overload
    def reduce(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def reduce(
        self,
        x: _Number,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Any: ...
    @overload
    def reduce(
        self,
        x: _Array,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[Any] | None: ...
    @overload
    def reduce(
        self,
        x: _Library,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Library | None: ...
    @overload
    def reduce_scatter(
        self,
        x: _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Output: ...
    @overload
    def reduce_scatter(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[_Scalar]: ...
    @overload
    def reduce_scatter(
        self,
        x: _Array,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[Any]: ...
    @overload
    def reduce_scatter(
        self,
        x: _Library,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Library: ...
    @overload
    def reduce_scatterv(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[_Scalar]: ...
    @overload
    def reduce_scatterv(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> NDArray[Any]: ...
    @overload
    def reduce_scatterv(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> _Library: ...
    @overload
    def scan(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
    ) -> _Output: ...
    @overload
    def scan(
        self, x: NDArray[_Scalar], op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def scan(
        self, x: _Number, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Any: ...
    @overload
    def scan(
        self, x: _Array, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def scan(
        self, x: _Library, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> _Library: ...
    @overload
    def exscan(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
    ) -> _Output: ...
    @overload
    def exscan(
        self, x: NDArray[_Scalar], op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def exscan(
        self, x: _Number, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Any: ...
    @overload
    def exscan(
        self, x: _Array, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def exscan(
        self, x: _Library, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> _Library: ...
    @overload
    def broadcast(
        self, x: _Number | _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> _Output: ...
    @overload
    def broadcast(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def broadcast(
        self, x: _Number, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Any: ...
    @overload
    def broadcast(
        self, x: _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def broadcast(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> _Library: ...
    @overload
    def allgather(
        self, x: _Number | _Array | _Other, *, out: _Output, dtype: str | None = None
    ) -> _Output: ...
    @overload
    def allgather(
        self, x: NDArray[_Scalar], *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def allgather(
        self, x: _Number | _Array, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def allgather(self, x: _Library, *, out: None = None, dtype: str | None = None) -> _Library: ...
    @overload
    def allgatherv(self, x: NDArray[_Scalar], *, dtype: str | None = None) -> NDArray[_Scalar]: ...
    @overload
    def allgatherv(self, x: _Array, *, dtype: str | None = None) -> NDArray[Any]: ...
    @overload
    def allgatherv(self, x: _Library, *, dtype: str | None = None) -> _Library: ...
    @overload
    def gather(
        self, x: _Number | _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> _Output | None: ...
    @overload
    def gather(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def gather(
        self, x: _Number | _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any] | None: ...
    @overload
    def gather(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> _Library | None: ...
    @overload
    def gatherv(
        self, x: NDArray[_Scalar], root: int = 0, *, dtype: str | None = None
    ) -> NDArray[_Scalar] | None: ...
    @overload
    def gatherv(
        self, x: _Array, root: int = 0, *, dtype: str | None = None
    ) -> NDArray[Any] | None: ...
    @overload
    def gatherv(
        self, x: _Library, root: int = 0, *, dtype: str | None = None
    ) -> _Library | None: ...
    @overload
    def scatter(
        self, x: _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> _Output: ...
    @overload
    def scatter(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def scatter(
        self, x: _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def scatter(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> _Library: ...
    @overload
    def scatterv(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> NDArray[_Scalar]: ...
    @overload
    def scatterv(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def scatterv(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> _Library: ...
    @overload
    def alltoall(
        self, x: _Array | _Other, *, out: _Output, dtype: str | None = None
    ) -> _Output: ...
    @overload
    def alltoall(
        self, x: NDArray[_Scalar], *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def alltoall(
        self, x: _Array, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def alltoall(self, x: _Library, *, out: None = None, dtype: str | None = None) -> _Library: ...
    @overload
    def alltoallv(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> NDArray[_Scalar]: ...
    @overload
    def alltoallv(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> tuple[NDArray[_Scalar], NDArray[int64]]: ...
    @overload
    def alltoallv(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> NDArray[Any]: ...
    @overload
    def alltoallv(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> tuple[NDArray[Any], NDArray[int64]]: ...
    @overload
    def alltoallv(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> _Library: ...
    @overload
    def alltoallv(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> tuple[_Library, NDArray[int64]]: ...
    def barrier(self) -> None: ...
    def send(
        self, x: _Number | _Array | _Other, peer: int, *, dtype: str | None = None
    ) -> None: ...
    @overload
    def recv(
        self, x: _Number | _Array | _Other, peer: int, *, out: _Output, dtype: str | None = None
    ) -> _Output: ...
    @overload
    def recv(
        self, x: NDArray[_Scalar], peer: int, *, out: None = None, dtype: str | None = None
    ) -> NDArray[_Scalar]: ...
    @overload
    def recv(self, x: _Number, peer: int, *, out: None = None, dtype: str | None = None) -> Any: ...
    @overload
    def recv(
        self, x: _Array, peer: int, *, out: None = None, dtype: str | None = None
    ) -> NDArray[Any]: ...
    @overload
    def recv(
        self, x: _Library, peer: int, *, out: None = None, dtype: str | None = None
    ) -> _Library: ...
    # The starts have the arguments of the methods above, and return a request of their results.
    @overload
    def allreduce_start(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Output]: ...
    @overload
    def allreduce_start(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def allreduce_start(
        self,
        x: _Number,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[Any]: ...
    @overload
    def allreduce_start(
        self,
        x: _Array,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[Any]]: ...
    @overload
    def allreduce_start(
        self,
        x: _Library,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Library]: ...
    @overload
    def allreduce_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[_Output]]: ...
    @overload
    def allreduce_group_start(
        self,
        xs: Iterable[NDArray[_Scalar]],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[NDArray[_Scalar]]]: ...
    @overload
    def allreduce_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[Any]]: ...
    @overload
    def reduce_scatter_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[_Output]]: ...
    @overload
    def reduce_scatter_group_start(
        self,
        xs: Iterable[NDArray[_Scalar]],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[NDArray[_Scalar]]]: ...
    @overload
    def reduce_scatter_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[list[Any]]: ...
    @overload
    def allgather_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
    ) -> Request[list[_Output]]: ...
    @overload
    def allgather_group_start(
        self,
        xs: Iterable[NDArray[_Scalar]],
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> Request[list[NDArray[_Scalar]]]: ...
    @overload
    def allgather_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> Request[list[Any]]: ...
    @overload
    def broadcast_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        root: int = 0,
        *,
        out: Iterable[_Output],
        dtype: str | None = None,
    ) -> Request[list[_Output]]: ...
    @overload
    def broadcast_group_start(
        self,
        xs: Iterable[NDArray[_Scalar]],
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> Request[list[NDArray[_Scalar]]]: ...
    @overload
    def broadcast_group_start(
        self,
        xs: Iterable[_Number | _Array | _Other],
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
    ) -> Request[list[Any]]: ...
    @overload
    def reduce_start(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        root: int = 0,
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Output | None]: ...
    @overload
    def reduce_start(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[_Scalar] | None]: ...
    @overload
    def reduce_start(
        self,
        x: _Number,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[Any]: ...
    @overload
    def reduce_start(
        self,
        x: _Array,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[Any] | None]: ...
    @overload
    def reduce_start(
        self,
        x: _Library,
        op: str = "sum",
        root: int = 0,
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Library | None]: ...
    @overload
    def reduce_scatter_start(
        self,
        x: _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Output]: ...
    @overload
    def reduce_scatter_start(
        self,
        x: NDArray[_Scalar],
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def reduce_scatter_start(
        self,
        x: _Array,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[Any]]: ...
    @overload
    def reduce_scatter_start(
        self,
        x: _Library,
        op: str = "sum",
        *,
        out: None = None,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Library]: ...
    @overload
    def reduce_scatterv_start(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def reduce_scatterv_start(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[NDArray[Any]]: ...
    @overload
    def reduce_scatterv_start(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        op: str = "sum",
        *,
        dtype: str | None = None,
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> Request[_Library]: ...
    @overload
    def scan_start(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
    ) -> Request[_Output]: ...
    @overload
    def scan_start(
        self, x: NDArray[_Scalar], op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def scan_start(
        self, x: _Number, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[Any]: ...
    @overload
    def scan_start(
        self, x: _Array, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def scan_start(
        self, x: _Library, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def exscan_start(
        self,
        x: _Number | _Array | _Other,
        op: str = "sum",
        *,
        out: _Output,
        dtype: str | None = None,
    ) -> Request[_Output]: ...
    @overload
    def exscan_start(
        self, x: NDArray[_Scalar], op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def exscan_start(
        self, x: _Number, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[Any]: ...
    @overload
    def exscan_start(
        self, x: _Array, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def exscan_start(
        self, x: _Library, op: str = "sum", *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def broadcast_start(
        self, x: _Number | _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> Request[_Output]: ...
    @overload
    def broadcast_start(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def broadcast_start(
        self, x: _Number, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[Any]: ...
    @overload
    def broadcast_start(
        self, x: _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def broadcast_start(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def allgather_start(
        self, x: _Number | _Array | _Other, *, out: _Output, dtype: str | None = None
    ) -> Request[_Output]: ...
    @overload
    def allgather_start(
        self, x: NDArray[_Scalar], *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def allgather_start(
        self, x: _Number | _Array, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def allgather_start(
        self, x: _Library, *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def allgatherv_start(
        self, x: NDArray[_Scalar], *, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def allgatherv_start(self, x: _Array, *, dtype: str | None = None) -> Request[NDArray[Any]]: ...
    @overload
    def allgatherv_start(self, x: _Library, *, dtype: str | None = None) -> Request[_Library]: ...
    @overload
    def gather_start(
        self, x: _Number | _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> Request[_Output | None]: ...
    @overload
    def gather_start(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar] | None]: ...
    @overload
    def gather_start(
        self, x: _Number | _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any] | None]: ...
    @overload
    def gather_start(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[_Library | None]: ...
    @overload
    def gatherv_start(
        self, x: NDArray[_Scalar], root: int = 0, *, dtype: str | None = None
    ) -> Request[NDArray[_Scalar] | None]: ...
    @overload
    def gatherv_start(
        self, x: _Array, root: int = 0, *, dtype: str | None = None
    ) -> Request[NDArray[Any] | None]: ...
    @overload
    def gatherv_start(
        self, x: _Library, root: int = 0, *, dtype: str | None = None
    ) -> Request[_Library | None]: ...
    @overload
    def scatter_start(
        self, x: _Array | _Other, root: int = 0, *, out: _Output, dtype: str | None = None
    ) -> Request[_Output]: ...
    @overload
    def scatter_start(
        self, x: NDArray[_Scalar], root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def scatter_start(
        self, x: _Array, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def scatter_start(
        self, x: _Library, root: int = 0, *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def scatterv_start(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def scatterv_start(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> Request[NDArray[Any]]: ...
    @overload
    def scatterv_start(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        root: int = 0,
        *,
        dtype: str | None = None,
    ) -> Request[_Library]: ...
    @overload
    def alltoall_start(
        self, x: _Array | _Other, *, out: _Output, dtype: str | None = None
    ) -> Request[_Output]: ...
    @overload
    def alltoall_start(
        self, x: NDArray[_Scalar], *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def alltoall_start(
        self, x: _Array, *, out: None = None, dtype: str | None = None
    ) -> Request[NDArray[Any]]: ...
    @overload
    def alltoall_start(
        self, x: _Library, *, out: None = None, dtype: str | None = None
    ) -> Request[_Library]: ...
    @overload
    def alltoallv_start(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> Request[NDArray[_Scalar]]: ...
    @overload
    def alltoallv_start(
        self,
        x: NDArray[_Scalar],
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> Request[tuple[NDArray[_Scalar], NDArray[int64]]]: ...
    @overload
    def alltoallv_start(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> Request[NDArray[Any]]: ...
    @overload
    def alltoallv_start(
        self,
        x: _Array,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> Request[tuple[NDArray[Any], NDArray[int64]]]: ...
    @overload
    def alltoallv_start(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[False] = False,
    ) -> Request[_Library]: ...
    @overload
    def alltoallv_start(
        self,
        x: _Library,
        counts: Sequence[int] | NDArray[Any],
        *,
        dtype: str | None = None,
        return_counts: Literal[True],
    ) -> Request[tuple[_Library, NDArray[int64]]]: ...
    def barrier_start(self) -> Request[None]: ...
    @overload
    def empty(self, shape: _Shape, dtype: type[_Scalar] | _dtype[_Scalar]) -> NDArray[_Scalar]: ...
    @overload
    def empty(self, shape: _Shape, dtype: DTypeLike = "float64") -> NDArray[Any]: ...
    @overload
    def empty(self, shape: _Shape, dtype: _TorchDtype) -> Any: ...
    @overload
    def split(self, color: int, key: int = 0) -> Communicator: ...
    @overload
    def split(self, color: None, key: int = 0) -> None: ...
    @overload
    def split(self, color: int | None, key: int = 0) -> Communicator | None: ...
    # Methods for objects, of sparkring._objects.collectives, which adds them.
    def broadcast_object(self, x: Any, root: int = 0) -> Any: ...
    def allgather_object(self, x: Any) -> list[Any]: ...
    def gather_object(self, x: Any, root: int = 0) -> list[Any] | None: ...
    def scatter_object(self, xs: Iterable[Any] | None, root: int = 0) -> Any: ...
    def alltoall_object(self, xs: Iterable[Any]) -> list[Any]: ...
    def allreduce_object(self, x: Any, op: Callable[[Any, Any], Any] = ...) -> Any: ...
    def send_object(self, x: Any, peer: int) -> None: ...
    def recv_object(self, peer: int) -> Any: ...
    # Methods of sparkring._locations.
    def minloc(self, x: _Number | _Array | _Other) -> tuple[Any, Any]: ...
    def maxloc(self, x: _Number | _Array | _Other) -> tuple[Any, Any]: ...
    # Method of sparkring._messages.
    def messages(self) -> Messages: ...
    # Method of sparkring._device.device.
    def device(
        self,
        path: str = "auto",
        gpu: int | None = None,
        *,
        nccl: str | os.PathLike[str] | None = None,
        cuda: str | os.PathLike[str] | None = None,
    ) -> Device: ...
    # Method of sparkring._mpi.mpi_init.
    def mpi_init(
        self, *, allow_plain: bool = False, pmix: bool | None = None
    ) -> AbstractContextManager[Any]: ...
    # Method of sparkring._mpi.mpi_run.
    def mpi_run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        allow_plain: bool = False,
        pmix: bool | None = None,
        output: Callable[[str], object] | None = None,
    ) -> None: ...
    # Method of sparkring._reducer.
    def reducer(
        self,
        *,
        threshold: int | None = None,
        cycle_time: float | None = None,
        cache_capacity: int | None = None,
        stall_timeout: float | None = None,
        autotune: bool = False,
        autotune_log: str | os.PathLike[str] | None = None,
    ) -> Reducer: ...
    # Methods for frameworks, which are also functions of sparkring.frameworks.
    def gpus(comm, /, count: int | None = None) -> list[str]: ...  # noqa: N805
    def tf_config(comm, /, role: str = "worker") -> dict[str, Any]: ...  # noqa: N805
    def torch_env(comm, /) -> dict[str, str]: ...  # noqa: N805
    def jax_config(comm, /) -> dict[str, Any]: ...  # noqa: N805
    def xgboost_config(comm, /) -> dict[str, Any]: ...  # noqa: N805
    def lightgbm_config(comm, /) -> dict[str, Any]: ...  # noqa: N805
    def nccl_id(
        comm,  # noqa: N805
        /,
        library: str | os.PathLike[str] | None = None,
    ) -> bytes: ...
    def ray_config(comm, /) -> dict[str, Any]: ...  # noqa: N805
    # A method of sparkring.frameworks._torch_group; the result is PyTorch's ProcessGroup.
    def torch_group(self, timeout: float = 600.0) -> Any: ...
    # A method of sparkring.frameworks._raft; the handle is one of pylibraft.
    def raft_handle(
        self, *, n_streams: int = 0, timeout: float = 120.0, allow_plain: bool = False
    ) -> AbstractContextManager[Any]: ...
    def _agree(self, failure: str | None, /) -> tuple[int, str] | None: ...
    def _allgather_strings(self, strings: list[str], /) -> list[list[str]]: ...
    def _device_open(
        self, path: str, gpu: int, nccl: str | None, cuda: str | None, /
    ) -> DeviceHandle: ...
    def _device_get(self) -> DeviceHandle | None: ...
    def _nccl_id(self, libraries: bytes, /) -> bytes: ...
    # Methods of sparkring._timeline.
    def start_timeline(self, path: str | os.PathLike[str], mark_cycles: bool = False) -> None: ...
    def stop_timeline(self) -> None: ...
    def _measure_clock(self) -> tuple[int, int, int]: ...
    def _start_trace(
        self, directory: str, clock: tuple[int, int, int], mark_cycles: bool, /
    ) -> None: ...
    def _stop_trace(self) -> None: ...
    def port_reserve(self) -> int: ...
    def port_release(self, port: int | None = None) -> None: ...
    # Methods of sparkring._run_state.
    @property
    def attempt(self) -> int: ...
    def progress(self, step: float, total: float | None = None, **metrics: float) -> None: ...
    def close(self, timeout: float | None = None) -> None: ...
    def abort(self, reason: str | None = None) -> None: ...
    def counters(self, peer: int | None = None) -> dict[str, int]: ...
    def link(self, peer: int) -> str: ...
    def explain(
        self, collective: str, nbytes: int, dtype: str = "float32", root: int = 0
    ) -> Explanation: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
