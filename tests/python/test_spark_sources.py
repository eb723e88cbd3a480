# SPDX-License-Identifier: Apache-2.0
"""What travels beside a function: modules that are not installed, and lines of notebook cells."""

from __future__ import annotations

import importlib
import io
import linecache
import operator
import sys
import types
import zipfile

import pytest
import sparkring
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _sources as sources
from sparkring.spark import run

pytestmark = pytest.mark.quick


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder on the path of the driver: a module, what it imports, and what must stay."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "only_here.py").write_text(
        "import json, numpy, sparkring\nfrom pack_here import inner\nimport folder_here.part\n"
        "class Value:\n    pass\ndef work(comm):\n    return inner.TWO\n"
    )
    for name, text in {
        "pack_here/__init__.py": "",
        "pack_here/inner.py": "TWO = 2",
        "pack_here/words.txt": "two",
        "pack_here/__pycache__/inner.pyc": "",
        "folder_here/part.py": "import late_here",
        "folder_here/data.csv": "1,2",
        "late_here.py": "",
        "compiled_here/__init__.py": "",
        "compiled_here/fast.so": "",
        "large_here/__init__.py": "",
        "large_here/table.bin": "x" * (sources.LARGEST + 1),
        "never_named.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    known = set(sys.modules)
    yield importlib.import_module("only_here")
    for name in set(sys.modules) - known:
        del sys.modules[name]


def inside(work):
    return set(zipfile.ZipFile(io.BytesIO(work.sources.archive)).namelist())


def test_modules_that_are_not_installed(beside):
    work = closure_codec.dumps_work(beside.work, (), None)
    assert inside(work) == {
        "only_here.py",
        "pack_here/__init__.py",
        "pack_here/inner.py",
        "pack_here/words.txt",
        "folder_here/part.py",
        "late_here.py",
    }
    assert work.sources.left_out == {}
    assert work.here().sources.archive is None


def test_what_the_pickle_speaks_of(beside):
    def late(comm):
        import late_here

        return late_here

    late.__module__ = "__main__"  # travels by value
    assert inside(closure_codec.dumps_work(late, (), None)) == {"late_here.py"}
    takes = closure_codec.dumps_work(lambda comm, value: value, (beside.Value(),), None)
    assert "only_here.py" in inside(takes)
    assert closure_codec.dumps_work(operator.attrgetter("size"), (), None).sources.archive == b""


def test_modules_that_stay(beside, tmp_path):
    def compiled(comm):
        import compiled_here
        import large_here

        return compiled_here, large_here

    compiled.__module__ = "__main__"
    found = closure_codec.dumps_work(compiled, (), None).sources
    assert found.archive == b""
    assert found.left_out == {
        "compiled_here": "it has compiled modules",
        "large_here": "modules take more than 8 MiB",
    }
    error = ModuleNotFoundError("No module named 'large_here.part'", name="large_here.part")
    found.advise(error)
    assert "no large_here.part (it is not sent: modules take more than 8 MiB)" in str(error)
    assert 'spark.sparkContext.addPyFile("large_here.py")' in str(error)


def test_a_rank_has_them_in_a_folder_of_its_own(beside, tmp_path, monkeypatch):
    work = closure_codec.dumps_work(beside.work, (), None)
    for name in ("only_here", "pack_here", "pack_here.inner", "folder_here", "late_here"):
        sys.modules.pop(name, None)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != sys.path[0]])
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"/nowhere,{tmp_path}")
    with work.sources.directory():
        work.sources.install()
        f, _, _ = closure_codec.loads(work.data)
        assert f(None) == 2
        folder = sources.sent("only_here.py").parent
        assert folder.parent == tmp_path
        assert sys.modules["only_here"].__file__ == str(folder / "only_here.py")
    assert not folder.exists()


# ---- Lines of code that is in no file


CELL = "def fail(comm):\n    wanted = 'paper'\n    raise ArithmeticError(wanted)  # of the cell\n"


@pytest.mark.parametrize("key", ["/tmp/ipykernel_7/123.py", "<python-input-0>", None])
def test_a_traceback_shows_the_lines_of_a_cell(key, monkeypatch):
    """Notebooks file them under the name, Python 3.13 what is typed in under the code."""
    name = key or "<python-input-3>"
    code = compile(CELL, name, "exec")
    cell = {"__name__": "__main__"}
    exec(code, cell)
    entry = (len(CELL), None, CELL.splitlines(keepends=True), name)
    monkeypatch.setitem(linecache.cache, key or code, entry)
    with pytest.raises(ArithmeticError) as caught:
        run(cell["fail"], num_proc=-1, verbose=0)
    trace = caught.value.__cause__.remote_traceback
    assert f'File "{name}", line 3, in fail\n    raise ArithmeticError(wanted)  # of the' in trace


def test_code_keeps_the_name_of_its_file(monkeypatch):
    """cloudpickle 3.1.3 replaces it, so that no line would be found."""
    table = closure_codec.find_cloudpickle().CloudPickler.dispatch_table
    reduce = table[types.CodeType]

    def without_file(code):
        make, parts = reduce(code)
        return make, tuple(closure_codec.NAMELESS if part == __file__ else part for part in parts)

    monkeypatch.setitem(table, types.CodeType, without_file)
    data, _ = closure_codec.dumps_noting(lambda: 0)
    assert closure_codec.loads(data).__code__.co_filename == __file__


# ---- Scripts


SCRIPT = """
import sys

import beside_script
import sparkring

if __name__ == "__main__":
    with sparkring.init(timeout=3) as comm:
        print(sys.argv[1:], comm.allreduce(beside_script.ONE), comm.attempt)
    with sparkring.init() as again:
        assert again.size == comm.size
    if "fail" in sys.argv:
        raise ValueError(sys.argv[2])
    sys.exit(0)
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside_script.py").write_text("ONE = 1\n")
    (tmp_path / "folder" / "train.py").write_text(SCRIPT)
    return tmp_path / "folder" / "train.py"


def test_script(script, capsys, monkeypatch):
    monkeypatch.chdir(script.parents[1])
    assert run("folder/train.py", args=["--rate", "0.5"], num_proc=-2) == [None, None]
    shown = sorted(capsys.readouterr().out.splitlines())
    assert shown == [f"[{rank}] ['--rate', '0.5'] 2 0" for rank in range(2)]
    with pytest.raises(ValueError, match="paper") as caught:
        run(script, args=["fail", "paper"], num_proc=-2, verbose=0)
    trace = caught.value.__cause__.remote_traceback
    assert "raise ValueError(sys.argv[2])" in trace
    assert trace.count("File ") == 1
    work = closure_codec.dumps_work(script, (), None)
    assert inside(work) == {"train.py", "beside_script.py"}


@pytest.mark.parametrize(
    ("f", "given", "text"),
    [
        ("nowhere.py", {}, r"f is 'nowhere\.py', and there is no such file here, in "),
        (__file__, {"args": "--rate"}, "args is '--rate': pass a list of str"),
        (__file__, {"args": [3]}, "args has 3: a script takes arguments of type str"),
        (__file__, {"kwargs": {"rate": 3}}, "a script takes no kwargs"),
    ],
)
def test_scripts_that_cannot_be(f, given, text):
    with pytest.raises(sparkring.InvalidError, match=text):
        run(f, num_proc=-1, **given)
