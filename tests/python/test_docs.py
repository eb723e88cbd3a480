# SPDX-License-Identifier: Apache-2.0
"""Everything public has a docstring, and the stubs match it."""

from __future__ import annotations

import ast
import doctest
import functools
import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sparkring
import sparkring.data
import sparkring.models
import sparkring.spark
from sparkring.spark._options import Options
from sparkring.spark._run import OURS

VIGNETTES = Path(__file__).parents[2] / "vignettes"
METHODS = [
    name
    for name, member in inspect.getmembers(sparkring.Communicator, callable)
    if not name.startswith("_")
]
FUNCTIONS = [
    sparkring.init,
    *(getattr(sparkring.Communicator, name) for name in METHODS),
    sparkring.Request.wait,
    sparkring.Request.test,
    sparkring.data.batches,
    sparkring.data.parquet,
    sparkring.data.write_parquet,
    sparkring.data.Loader.tf_dataset,
    sparkring.models.LinearRegression.fit,
    sparkring.models.GeneralizedLinearModel.fit,
    sparkring.models.CoxPH.fit,
    sparkring.models.quantile,
    sparkring.models.table,
    sparkring.models.load,
    sparkring.spark.run,
    sparkring.spark.mpi,
]


def test_public_names_are_documented():
    assert len(METHODS) == 81
    assert sparkring.__doc__
    for name in dir(sparkring):
        member = getattr(sparkring, name)
        if not isinstance(member, str):
            assert inspect.getdoc(member), name


@pytest.mark.parametrize(
    ("module", "some"),
    [
        ("sparkring", {"init", "Communicator", "TimeoutError", "data", "spark", "frameworks"}),
        ("sparkring.spark", {"run", "mpi", "Checkpoint", "RankError"}),
        ("sparkring.data", {"batches", "parquet", "write_parquet", "Loader"}),
        ("sparkring.frameworks", {"tf_config"}),
        ("sparkring.models", {"CoxPH", "LinearRegression", "load", "quantile"}),
    ],
)
def test_completion_shows_public_names(module, some):
    """In a process of its own: what is imported later becomes an attribute of its package."""
    code = f"import sparkring.spark._task_main, sparkring._tables.row; print(*dir({module}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = set(shown.stdout.split())
    assert some <= names
    modules = {path.stem for path in Path(sparkring.__file__).parent.rglob("*.py")} - {"gpus"}
    assert names & modules <= {"data", "models", "spark", "frameworks", "batches", "checkpoint"}


def test_other_modules_are_private():
    """The name of a module, or that of its folder, shows it."""
    modules = (found.name for found in pkgutil.walk_packages(sparkring.__path__, "sparkring."))
    public = {name for name in modules if "._" not in name}
    rooms = ("data", "frameworks", "keras", "models", "spark", "spark.ml", "tensorflow", "torch")
    assert public == {f"sparkring.{name}" for name in rooms}


def test_help_fits_two_screens_and_names_where_to_go_on():
    text = pydoc.plain(pydoc.render_doc(sparkring))
    assert len(text.splitlines()) <= 100
    further = re.findall(r"help\(([\w.]+)\)", text)
    assert {"sparkring.init", "sparkring.spark.run", "sparkring.Communicator"} <= {*further}
    for path in further:
        assert inspect.getdoc(functools.reduce(getattr, path.split(".")[1:], sparkring)), path
    assert "sparkring.spark.run" in text and "python -m sparkring" in text


def test_packages_are_imported_when_they_are_used():
    code = "import sys, sparkring; assert 'sparkring.spark' not in sys.modules; "
    code += "assert sparkring.spark.run and sparkring.data.batches; sparkring.nothing"
    job = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert job.stderr.endswith("AttributeError: module 'sparkring' has no attribute 'nothing'\n")


@pytest.mark.parametrize("documented", [sparkring, sparkring.spark.run], ids=["sparkring", "run"])
def test_examples_show_what_they_return(documented):
    """Those that need no Spark. Numbers of NumPy 2 look otherwise in a list than they look here."""
    names, shown = {"__name__": "__main__"}, 0
    for example in doctest.DocTestParser().get_examples(documented.__doc__):
        if example.source.startswith(("import", "from", "def")):
            exec(example.source, names)
        elif "num_proc=-" in example.source:
            values = eval(example.source, names)
            assert f"{values}\n" == example.want
            assert {type(value) for value in values} <= {int, float}
            shown += 1
    assert shown == 1


def test_properties_are_documented():
    properties = {
        name: member
        for name, member in inspect.getmembers(sparkring.Communicator)
        if isinstance(member, property)
    }
    assert len(properties) == 11
    for name, member in properties.items():
        assert member.__doc__ and member.__doc__.endswith("."), name


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_parameters_are_documented(function):
    text = inspect.getdoc(function)
    for name in inspect.signature(function).parameters:
        if name != "self":
            assert re.search(rf"\n(\w+, )*(\*\*)?{name}(, \w+)* : ", text), name
    if function.__name__ not in (
        "abort",
        "barrier",
        "close",
        "mpi",
        "mpi_init",
        "mpi_run",
        "port_release",
        "progress",
        "raft_handle",
        "send",
        "send_object",
        "start_timeline",
        "stop_timeline",
    ):
        assert "\nReturns\n-------\n" in text
    assert "\nRaises\n------\n" in text


def test_signatures_without_docstrings():
    """-OO strips the texts; the signatures stay."""
    code = "import inspect, sparkring; comm = sparkring.Communicator; "
    code += "print(inspect.signature(comm.send), comm.send.__doc__, comm.__doc__)"
    command = [sys.executable, "-OO", "-c", code]
    job = subprocess.run(command, capture_output=True, text=True, check=True)
    signature = "(self, x: 'Operand', peer: 'int', *, dtype: 'str | None' = None) -> 'None'"
    assert job.stdout == f"{signature} None None\n"


def test_starts_have_the_arguments_of_those_that_wait():
    starts = [name for name in METHODS if name.endswith("_start")]
    assert len(starts) == 20
    for name in starts:
        start, call = (
            getattr(sparkring.Communicator, which) for which in (name, name.removesuffix("_start"))
        )
        assert inspect.signature(start).parameters == inspect.signature(call).parameters, name
        assert f"\nStart `{call.__name__}`" in "\n" + inspect.getdoc(start)


@pytest.mark.parametrize("name", ["python", "train", "data", "mpi", "migration", "elsewhere"])
def test_vignettes_name_what_there_is(name):
    """Also in tables and in code that is only shown."""
    text = (VIGNETTES / f"{name}.Rmd").read_text()
    methods = set(re.findall(r"\bcomm[.]([a-z_]+)", text))
    functions = re.findall(r"\bsparkring[.](?:(spark|data|models)[.])?([A-Za-z_]+)", text)
    assert len(methods) > 1
    assert [method for method in methods if not hasattr(sparkring.Communicator, method)] == []
    for module, function in functions:
        if function in ("torch", "keras", "tensorflow"):  # packages that import a framework
            continue
        assert hasattr(getattr(sparkring, module) if module else sparkring, function), function


@pytest.mark.parametrize("page", VIGNETTES.glob("*.Rmd"), ids=lambda page: page.stem)
def test_guides_name_a_file_before_they_show_it(page):
    """A reader pastes a program into the file that the next command or line reads."""
    text = page.read_text()
    for chunk in re.finditer(r'^```\{cat.* file = "(.+?)"', text, re.MULTILINE):
        assert f"`{chunk[1]}`" in text[: chunk.start()], chunk[1]
    assert not re.findall(r"`vignettes/\w+\.Rmd`", text)  # a link leads there, on the site, too


def mypy(*arguments):
    job = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False
    )
    assert job.returncode == 0, job.stdout + job.stderr


def test_stubs_agree_with_the_extension():
    mypy("mypy.stubtest", "sparkring._core", "sparkring._numerics")


TYPED = """
import asyncio
from array import array
from typing import Any, Union

import numpy as np
import sparkring
from numpy.typing import NDArray
from sparkring.spark.ml import KerasEstimator, TorchEstimator, TorchModel
from typing_extensions import assert_type

with sparkring.init(timeout=3) as comm:
    x: NDArray[np.float32] = np.zeros((2, 3), np.float32)
    assert_type(comm, sparkring.Communicator)
    assert_type(comm.hosts, list[str])
    assert_type(comm.allreduce(x, "max"), NDArray[np.float32])
    assert_type(comm.allgather(x), NDArray[np.float32])
    assert_type(comm.broadcast(bytearray(3), out=x), NDArray[np.float32])
    assert_type(comm.allreduce(b"123"), NDArray[Any])
    assert_type(comm.allreduce(3), Any)
    assert_type(comm.allreduce(array("d"), out=array("d")), array[float])
    assert_type(comm.reduce(x), Union[NDArray[np.float32], None])
    assert_type(comm.gather(3), Union[NDArray[Any], None])
    assert_type(comm.reduce_scatter(x), NDArray[np.float32])
    assert_type(comm.reduce_scatterv(x, [2]), NDArray[np.float32])
    assert_type(comm.exscan(x), NDArray[np.float32])
    assert_type(comm.scatter(x, out=bytearray(24)), bytearray)
    assert_type(comm.alltoall(x), NDArray[np.float32])
    assert_type(comm.allgatherv(x), NDArray[np.float32])
    assert_type(comm.gatherv(x), Union[NDArray[np.float32], None])
    assert_type(comm.scatterv(x, [2]), NDArray[np.float32])
    assert_type(comm.alltoallv(x, np.array([2])), NDArray[np.float32])
    assert_type(comm.gather_object(3, root=0), Union[list[Any], None])
    assert_type(comm.allreduce_object({3}, set.union), Any)
    assert_type(comm.counters()["calls"], int)
    assert_type(comm.explain("allreduce", 8).runner_up, Union[str, None])
    assert_type(comm.allreduce_group([x, x]), list[NDArray[np.float32]])
    assert_type(comm.allreduce_group([b"1", 3]), list[Any])
    assert_type(comm.allreduce_start(x).wait(), NDArray[np.float32])
    assert_type(comm.allreduce_group_start([x], out=[x]).wait(), list[NDArray[np.float32]])
    assert_type(comm.reduce_start(x), sparkring.Request[Union[NDArray[np.float32], None]])
    assert_type(comm.barrier_start().test(), bool)
    assert_type(comm.empty(3, np.float32), NDArray[np.float32])
    assert_type(comm.empty((2, 3)), NDArray[Any])
    assert_type(comm.split(0), sparkring.Communicator)
    assert_type(comm.gpus(1), list[str])
    assert_type(comm.tf_config("chief"), dict[str, Any])
    assert_type(comm.torch_env(), dict[str, str])
    assert_type(comm.split(None if comm.rank else 0), Union[sparkring.Communicator, None])

    assert_type(asyncio.run(comm.allreduce_start(x)), NDArray[np.float32])

async def total(comm: sparkring.Communicator) -> NDArray[np.float32]:
    return await comm.allreduce_start(np.zeros(3, np.float32))

def estimators() -> None:
    estimator = TorchEstimator(model="nets:make", epochs=3, inputCols=["x"], validation=0.2)
    assert_type(estimator.setEpochs(4).setParams(dtype="float64"), TorchEstimator)
    assert_type(estimator.getEpochs(), int)
    assert_type(KerasEstimator(backend="jax").setBackend("torch"), KerasEstimator)
    TorchEstimator(epochs="3")  # type: ignore[arg-type]
    TorchEstimator(backend="jax")  # type: ignore[call-arg]
    estimator.setDtype("int8")  # type: ignore[arg-type]
    TorchModel(epochs=3)  # type: ignore[call-arg]
"""


JOBS = """
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sparkring import Communicator
from sparkring.spark import run
from typing_extensions import assert_type

X = np.zeros(3, np.float32)


def rank(comm: Communicator) -> int:
    return comm.rank


def fit(comm: Communicator, steps: int, rate: float = 0.5, *, deep: bool = False) -> float:
    return rate


def total(comm: Communicator, x: NDArray[np.float32], *rest: str) -> NDArray[np.float32]:
    return comm.allreduce(x)


def mean(comm: Communicator, rows: Any, column: str = "x") -> float:
    return float(rows[column].sum())


FRAME: Any = None


class Trainer:
    def __call__(self, comm: Communicator, steps: int) -> str:
        return ""


"""
GOOD = """
assert_type(run(rank), list[int])
assert_type(run(lambda comm: comm.size, num_proc=-2), list[int])
assert_type(run(lambda comm, x: comm.rank + x, args=(3,)), list[int])
assert_type(run(fit, args=(3,)), list[float])
assert_type(run(fit, (3, 1), num_proc=4, timeout=3, connections=2), list[float])
assert_type(run(fit, kwargs={"steps": 3}), list[float])
assert_type(run(fit, (3,), {"deep": True}), list[float])
assert_type(run(fit, args=[3]), list[float])
assert_type(run(total, args=(X, "a", "b")), list[NDArray[np.float32]])
assert_type(run(Trainer(), args=(3,)), list[str])
assert_type(run(partial(fit, rate=0.1), args=(3,)), list[float])
assert_type(run("train.py", args=["--rate", "0.5"], num_proc=4), list[None])
assert_type(run(mean, frame=FRAME), list[float])
assert_type(run(mean, ("y",), frame=FRAME, rows="arrow", num_proc=2, timeout=3), list[float])
assert_type(run(mean, frame=FRAME, schema="mean double"), Any)
assert_type(run(lambda comm, rows: comm.rank, frame=FRAME), list[int])
assert_type(run(lambda comm, rows, x: comm.rank * x, (0.5,), frame=FRAME), list[float])
run(lambda comm, rows: rows, frame=FRAME, schema="x double")
"""
BAD = """
run(fit, args=("three",))
run(mean)
run(mean, frame=FRAME, rows="polars")
run(rank, frame=FRAME)
run(fit)
run(rank, args=(3,))
run(fit, args=(3, 0.5, True))
run(total, args=(X, 3))
run(Trainer(), args=("three",))
run(fit, args=(3,), timeout="long")
run(fit, args=(3,), connection=2)
run(3)
run("train.py", args=[3])
names: list[str] = run(rank)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Give what mypy keeps: most of its work is reading NumPy's types, which both tests need."""
    return str(tmp_path_factory.mktemp("mypy"))


def test_no_types_are_missing(cache):
    settings = str(Path(__file__).parents[2] / "python-package" / "pyproject.toml")
    mypy("mypy", "--config-file", settings, "--cache-dir", cache, "--package", "sparkring")


def test_types_for_users(cache, tmp_path):
    script = tmp_path / "typed.py"
    script.write_text(TYPED)
    mypy("mypy", "--strict", "--cache-dir", cache, str(script))


def test_types_of_run(cache, tmp_path):
    """The lines of BAD are refused, each of them, and no other."""
    (tmp_path / "jobs.py").write_text(JOBS + GOOD + BAD)
    job = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(tmp_path / "jobs.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    first = (JOBS + GOOD).count("\n") + 2
    wrong = {int(line) - first for line in re.findall(r"jobs.py:(\d+): error:", job.stdout)}
    assert wrong == set(range(BAD.count("\n") - 1)), job.stdout


def test_types_of_estimators():
    """The stub has the methods that the classes get from their Params, and no others."""
    from sparkring.spark import ml

    stub = Path(ml.__file__).with_name("_methods.pyi").read_text()
    found = {
        part.name: [each.name if hasattr(each, "name") else each.target.id for each in part.body]
        for part in ast.parse(stub).body
        if isinstance(part, ast.ClassDef)
    }
    for kind, names in [
        (ml.TorchModel, ["Model"]),
        (ml.TorchEstimator, ["Model", "Learning", "Training"]),
        (ml.KerasEstimator, ["Model", "Learning", "Training", "Backend"]),
        (ml.XGBoostModel, ["Model", "BaseMargin"]),
        (ml.LightGBMEstimator, ["Model", "BaseMargin", "Learning", "Tree"]),
    ]:
        params = {param.name for param in kind().params}
        typed = [f"{name}Params".replace("Backend", "Keras") for name in names]
        typed += ["TreeOptions"] * ("Tree" in names)
        assert {param for name in typed for param in found[name]} == params
        methods = {name for each in names for name in found[f"{each}Methods"]}
        assert methods == {
            w + name[0].upper() + name[1:] for name in params for w in ("get", "set")
        }
        assert all(callable(getattr(kind, name)) for name in methods)


def test_options_of_run():
    """The types name all options that there are; those of a frame have signatures of their own."""
    run, init = (inspect.signature(f).parameters for f in (sparkring.spark.run, sparkring.init))
    own = [name for name, option in run.items() if option.kind is option.KEYWORD_ONLY]
    assert set(Options.__annotations__) == {*own, *init} - {*OURS, "frame", "rows", "schema"} | {
        "timeout",
        "encryption",
    }
