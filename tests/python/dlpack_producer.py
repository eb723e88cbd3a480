# SPDX-License-Identifier: Apache-2.0
"""A producer of DLPack with whatever fields a test wants, and counts the calls of its deleters."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64

INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
CPU, CUDA = 1, 2
READ_ONLY, IS_COPIED = 1, 2


class Tensor(ctypes.Structure):
    _fields_ = [  # noqa: RUF012 (ctypes wants a list or tuple)
        ("data", ctypes.c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


class Old(ctypes.Structure):
    pass


MANAGED_DELETER = CFUNCTYPE(None, POINTER(Managed))
OLD_DELETER = CFUNCTYPE(None, POINTER(Old))
Managed._fields_ = [
    ("major", c_uint32),
    ("minor", c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", MANAGED_DELETER),
    ("flags", c_uint64),
    ("tensor", Tensor),
]
Old._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", OLD_DELETER)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME, OLD_NAME = b"dltensor_versioned", b"dltensor"  # a capsule borrows its name


class Producer:
    """An array over the memory of a NumPy array. Keywords replace fields of the tensor.

    Strides are in elements, and count from the element `first` of the memory.
    """

    def __init__(self, array, *, old=False, major=1, flags=0, device=(CPU, 0), first=0, **fields):
        self.array, self.old, self.major, self.flags = array, old, major, flags
        self.device, self.first, self.fields = device, first, fields
        self.made, self.deleted, self.kept = 0, 0, []

    def tensor(self):
        codes = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL}
        fields = {
            "data": self.array.ctypes.data,
            "shape": self.array.shape,
            "strides": [stride // self.array.itemsize for stride in self.array.strides],
            "code": codes[self.array.dtype.kind],
            "bits": 8 * self.array.itemsize,
            "lanes": 1,
            "byte_offset": self.first * self.array.itemsize,
            "device_type": self.device[0],
            "device_id": self.device[1],
            **self.fields,
        }
        if "ndim" not in fields:
            fields["ndim"] = len(fields["shape"])
        for name in ("shape", "strides"):
            numbers = fields.pop(name)
            if numbers is not None:
                fields[name] = (c_int64 * max(len(numbers), 1))(*numbers)
                self.kept.append(fields[name])
        return Tensor(**fields)

    def delete(self, _):
        self.deleted += 1

    def __dlpack__(self, max_version=None, **_):
        self.made += 1
        if self.old:
            managed = Old(self.tensor(), None, OLD_DELETER(self.delete))
        else:
            assert max_version[0] >= 1
            deleter = MANAGED_DELETER(self.delete)
            managed = Managed(self.major, 0, None, deleter, self.flags, self.tensor())
        self.kept.append(managed)
        return new_capsule(ctypes.addressof(managed), OLD_NAME if self.old else NAME, None)

    def __dlpack_device__(self):
        return self.device
