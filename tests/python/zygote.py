# SPDX-License-Identifier: Apache-2.0
"""A process that has imported what ranks import, and forks the jobs of tests.

A rank that imports NumPy takes 0.3 s of a processor before it does anything, and 3 s with PyTorch.
The zygote imports these modules once. It forks the launcher of each job, with the launcher's own
sources as a library (forked_ranks.c): its supervisor forks ranks where it would otherwise start
programs. All else is as with sparkring-run: each rank is a process with the environment, the
signals and the output that it has there.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import itertools
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).parent

CONTROL_BYTES = 4096
NUMBER_BYTES = 4  # of a process or an exit code
# A process reads these at its start only: jobs that differ in one of them have their own zygotes.
READ_AT_START = ("LD_", "PYTHON", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "KMP_")


class Zygote:
    """The zygote, seen from the process of the tests, with whose environment it starts."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            command = [sys.executable, __file__, library(), str(other.fileno()), *modules]
            self.process = subprocess.Popen(command, pass_fds=[other.fileno()])

    def launch(self, size: int, folder: Path, deadline: float) -> tuple[int, str]:
        """Run ``ranks.main(folder)`` on each rank; return the exit code and output of the job."""
        job = (size, dict(os.environ), os.getcwd())
        (folder / "job").write_bytes(pickle.dumps(job))
        reader, writer = os.pipe()
        with open(folder / "output", "wb") as output, open(reader, "rb", buffering=0) as ended:
            files = [output.fileno(), writer]
            socket.send_fds(self.control, [os.fsencode(folder)], files)
            os.close(writer)
            code = self.wait(ended, deadline)
        return code, (folder / "output").read_text(errors="replace")

    def wait(self, ended: Any, deadline: float) -> int:
        """Wait until a job ends; kill its launcher at the deadline."""
        process = ended.read(NUMBER_BYTES)
        assert process, "the zygote has ended: are its modules installed?"
        if not select.select([ended], [], [], deadline)[0]:
            os.kill(int.from_bytes(process, sys.byteorder), signal.SIGKILL)
            raise subprocess.TimeoutExpired("the job", deadline)
        code = ended.read(NUMBER_BYTES)
        assert code, "the launcher has been killed"
        return int.from_bytes(code, sys.byteorder)

    def end(self) -> None:
        """End the zygote, and wait for that."""
        self.control.close()
        self.process.wait()


@functools.cache
def library() -> str:
    """Compile the launcher; return the path, which is removed with this process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = os.path.join(folder.name, "forked_ranks.so")
    core = f"-I{HERE.parents[1] / 'core'}"
    options = ["-std=c11", "-D_GNU_SOURCE", "-DRING_API=", core, "-shared", "-fPIC", "-o", path]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *options, str(HERE / "forked_ranks.c")], check=True)
    return path


zygotes: dict[Any, Zygote] = {}


def zygote_of(modules: tuple[str, ...]) -> Zygote:
    """Return the zygote with these modules, and with the environment as it is now."""
    read = {name: text for name, text in os.environ.items() if name.startswith(READ_AT_START)}
    key = (modules, tuple(sorted(read.items())))
    if key not in zygotes:
        zygotes[key] = Zygote(modules)
        atexit.register(zygotes[key].end)
    return zygotes[key]


# ---- In the zygote


def serve(launcher: ctypes.PyDLL, control: socket.socket, modules: list[str]) -> None:
    """Fork jobs until the process of the tests ends."""
    for module in modules:
        importlib.import_module(module)
    while True:
        folder, files, _, _ = socket.recv_fds(control, CONTROL_BYTES, 2)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not folder:
            return
        if os.fork() == 0:
            control.close()
            start_job(launcher, Path(os.fsdecode(folder)), *files)
        for file in files:
            os.close(file)


def start_job(launcher: ctypes.PyDLL, folder: Path, output: int, ended: int) -> NoReturn:
    """Be the launcher of a job."""
    os.write(ended, os.getpid().to_bytes(NUMBER_BYTES, sys.byteorder))
    size, environment, directory = pickle.loads((folder / "job").read_bytes())
    set_environment(environment)
    os.chdir(directory)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    main = ctypes.PYFUNCTYPE(None)(functools.partial(be_rank, folder))
    pointer = ctypes.c_void_p.in_dll(launcher, "forked_ranks_main")
    pointer.value = ctypes.cast(main, ctypes.c_void_p).value
    words = [b"sparkring-run", b"-n", str(size).encode(), b"rank"]
    code = launcher.forked_ranks_launch(4, (ctypes.c_char_p * 5)(*words))
    os.write(ended, code.to_bytes(NUMBER_BYTES, sys.byteorder))
    os._exit(0)


def set_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def be_rank(folder: Path) -> NoReturn:
    """Be a rank, in place of a program that is executed."""
    try:
        entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
        pairs = [os.fsdecode(entry).split("=", 1) for entry in itertools.takewhile(bool, entries)]
        set_environment(dict(pairs))
        reset_process()
        import ranks

        ranks.main(folder)
        end_process()
    finally:
        os._exit(1)


def reset_process() -> None:
    """Do what the start of Python does: handlers of signals, and buffers of output."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def end_process() -> NoReturn:
    """End as Python does after the last line of a program."""
    ctypes.pythonapi.Py_Exit(0)
    raise AssertionError


if __name__ == "__main__":
    serve(ctypes.PyDLL(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])), sys.argv[3:])
