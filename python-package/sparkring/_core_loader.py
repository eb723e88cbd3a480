# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module so that it finds OpenSSL's functions, and not those of the same names.

TensorFlow exports the functions of BoringSSL, which have the names of OpenSSL's. Without
RTLD_DEEPBIND the linker takes BoringSSL's if TensorFlow was imported first. A preloaded library,
such as an allocator or a sanitizer, must come before all others, so nothing is changed beside one;
`init` raises an error then if the functions are not OpenSSL's.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys


def load_core() -> None:
    flags = sys.getdlopenflags()
    taken = hasattr(ctypes.CDLL(None), "OpenSSL_version")
    if taken and not os.environ.get("LD_PRELOAD"):
        sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
    try:
        importlib.import_module("sparkring._core")
    finally:
        sys.setdlopenflags(flags)


load_core()
