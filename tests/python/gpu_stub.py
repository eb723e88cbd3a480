# SPDX-License-Identifier: Apache-2.0
"""Arrays on the GPU of the stub of CUDA (tests/core/libraries), for tests without a GPU.

The stub's memory has an address that the process cannot touch, and another mapping that the tests
use. `build` makes the libraries under the names that the system would look for. Nothing here is
like a GPU but the functions.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import sysconfig
import types
from pathlib import Path

import dlpack_producer
import numpy as np

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "core" / "libraries"


def build(folder):
    """Compile the stubs of CUDA, NVRTC and NCCL."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    flags = ["-std=gnu11", "-O1", "-D_GNU_SOURCE", "-fPIC", "-pthread", f"-I{ROOT / 'core'}"]
    cuda, nccl = folder / "libcuda.so.1", folder / "libnccl.so.2"
    made = [SOURCES / name for name in ("cuda.c", "cuda_kernels.c", "cuda_streams.c")]
    strict = ["-fno-strict-aliasing", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*compiler, *flags, *strict, "-shared", *made, "-o", cuda], check=True)
    made = [SOURCES / "nvrtc.c", "-o", folder / "libnvrtc.so.12"]
    subprocess.run([*compiler, *flags, "-shared", *made], check=True)
    made = [SOURCES / "nccl_calls.c", SOURCES / "nccl_ranks.c", ROOT / "core" / "core.c", cuda]
    plain = ["-shared", f"-I{SOURCES}", "-Wl,-Bsymbolic", "-Wl,-rpath,$ORIGIN"]
    linked = ["-Wl,--version-script", str(version_script(folder)), "-lssl", "-lcrypto", "-lm"]
    subprocess.run([*compiler, *flags, *plain, *made, *linked, "-o", nccl], check=True)
    return folder


def version_script(folder):
    """Export NCCL's functions alone: the core inside is not that of the process."""
    script = folder / "nccl.map"
    script.write_text("{ global: nccl*; local: *; };\n")
    return script


class Gpu:
    """The stub in this process, with the context of a GPU on this thread."""

    def __init__(self, number=0):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.number = number
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number) == 0
        assert self.cuda.cuCtxPushCurrent_v2(context) == 0
        self.cuda.stub_cuda_host.restype = ctypes.c_void_p
        self.cuda.stub_cuda_host.argtypes = [ctypes.c_void_p]

    def live(self):
        """Return how many things of CUDA there are."""
        return self.cuda.stub_cuda_live()

    def stream(self):
        """Make a stream."""
        stream = ctypes.c_void_p()
        assert self.cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
        return stream.value

    def array(self, values, kind=None, **facts):
        """Copy an array of NumPy to the GPU."""
        return (kind or Interface)(self, np.array(values, order="C"), **facts)


class Memory:
    """Memory of the GPU; `host` is the array that tests see."""

    def __init__(self, gpu, shape, dtype):
        self.gpu, self.shape, self.dtype = gpu, tuple(shape), np.dtype(dtype)
        bytes_ = max(int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize, 1)
        address = ctypes.c_uint64()
        assert gpu.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(bytes_)) == 0
        self.address = address.value
        self.host = seen(gpu, self.address, self.shape, self.dtype)

    def __del__(self):
        assert self.gpu.cuda.cuMemFree_v2(ctypes.c_uint64(self.address)) == 0


def seen(gpu, address, shape, dtype):
    """Return what is in memory of the GPU, as an array of NumPy that shares it."""
    dtype = np.dtype(dtype)
    bytes_ = max(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, 1)
    room = (ctypes.c_char * bytes_).from_address(gpu.cuda.stub_cuda_host(address))
    return np.frombuffer(room, dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)


class Interface:
    """An array with __cuda_array_interface__ alone, like those of Numba."""

    def __init__(self, gpu, values, stream=None, **facts):
        self.memory = Memory(gpu, values.shape, values.dtype)
        self.memory.host[...] = values
        self.stream, self.facts = stream, facts

    @property
    def host(self):
        return self.memory.host

    @property
    def address(self):
        return self.memory.address

    @property
    def __cuda_array_interface__(self):
        return {
            "version": 3,
            "shape": self.memory.shape,
            "typestr": self.memory.dtype.str,
            "data": (self.memory.address, False),
            "strides": None,
            "stream": self.stream,
            **self.facts,
        }


class Lent(dlpack_producer.Producer):
    """An array with DLPack alone; it records the streams that a consumer passes."""

    def __init__(self, gpu, values, **facts):
        self.memory = Memory(gpu, values.shape, values.dtype)
        self.memory.host[...] = values
        self.streams = []
        super().__init__(
            self.memory.host,
            device=(dlpack_producer.CUDA, gpu.number),
            data=self.memory.address,
            **facts,
        )

    @property
    def host(self):
        return self.memory.host

    def __dlpack__(self, stream=None, max_version=None, **_):
        self.streams.append(stream)
        return super().__dlpack__(max_version)


def result(gpu, array):
    """Return the values of a result, through its interface."""
    facts = array.__cuda_array_interface__
    return seen(gpu, facts["data"][0], facts["shape"], facts["typestr"])


# ---- Modules that look like PyTorch, CuPy and JAX as far as sparkring looks


class FakeTensor:
    """A tensor on the GPU of the stub, under the name of PyTorch's."""

    def __init__(self, gpu, values, stream=None):
        self.memory = Memory(gpu, values.shape, values.dtype)
        self.memory.host[...] = values
        self.requires_grad = False

    is_cuda, is_sparse, is_cpu = True, False, False
    shape = property(lambda self: self.memory.shape)
    host = property(lambda self: self.memory.host)
    dtype = property(lambda self: f"torch.{self.memory.dtype.name}")
    device = property(lambda self: types.SimpleNamespace(index=self.memory.gpu.number, type="cuda"))

    def is_conj(self):
        return False

    is_neg = is_conj

    def detach(self):
        return self

    contiguous = detach

    def data_ptr(self):
        return self.memory.address

    def __dlpack_device__(self):
        return dlpack_producer.CUDA, self.memory.gpu.number

    def __dlpack__(self, **_):
        raise AssertionError("the memory of a tensor is read by its address")


FakeTensor.__name__, FakeTensor.__module__ = "Tensor", "torch"


class FakeArray:
    """An array of the GPU of the stub, under the name of CuPy's."""

    def __init__(self, gpu, values, stream=None):
        self.memory = Memory(gpu, values.shape, values.dtype)
        self.memory.host[...] = values

    shape = property(lambda self: self.memory.shape)
    host = property(lambda self: self.memory.host)
    dtype = property(lambda self: self.memory.dtype)
    device = property(lambda self: types.SimpleNamespace(id=self.memory.gpu.number))
    data = property(lambda self: types.SimpleNamespace(ptr=self.memory.address))

    def reshape(self, shape):
        assert tuple(shape) == self.shape
        return self

    def __dlpack_device__(self):
        return dlpack_producer.CUDA, self.memory.gpu.number

    def __dlpack__(self, **_):
        raise AssertionError("the memory of an array is read by its address")


FakeArray.__name__, FakeArray.__module__ = "ndarray", "cupy"


class FakeJax(Lent):
    """An array of the GPU of the stub, under the name of JAX's."""

    @property
    def __cuda_array_interface__(self):
        raise AssertionError("the interface of JAX has no stream")


FakeJax.__name__, FakeJax.__module__ = "ArrayImpl", "jaxlib.xla_client"


def fake_modules(gpu, stream):
    """Pretend that the modules are loaded; the current stream of two of them is this one."""

    def torch_empty(shape, dtype, device):
        return FakeTensor(gpu, np.zeros(shape, dtype.partition(".")[2]))

    def cupy_empty(shape, dtype):
        return FakeArray(gpu, np.zeros(shape, dtype))

    current = types.SimpleNamespace(cuda_stream=stream, ptr=stream)
    torch = types.ModuleType("torch")
    torch.empty, torch.Tensor = torch_empty, FakeTensor
    torch.cuda = types.SimpleNamespace(current_stream=lambda device=None: current)
    cupy = types.ModuleType("cupy")
    cupy.empty, cupy.ndarray, cupy.ascontiguousarray = cupy_empty, FakeArray, lambda x: x
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: current)
    jax = types.ModuleType("jax")
    jax.dlpack = types.SimpleNamespace(from_dlpack=lambda array: ("jax", array))
    sys.modules.update(torch=torch, cupy=cupy, jax=jax)
