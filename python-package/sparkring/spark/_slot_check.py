# SPDX-License-Identifier: Apache-2.0
"""Check that a barrier stage has enough slots: as many, at the same time, as it has tasks.

Spark itself retries for ten minutes before it fails such a stage. The check comes first, if
possible with the method that Spark uses, and its error has the arithmetic. R's spark-slot-check.R
has the same texts.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _preflight as preflight

if TYPE_CHECKING:
    from sparkring.spark._session import Spark

MISSING = 60.0  # seconds for executors that are known to be missing
REGISTRATION = 30.0  # seconds after the start of an application in which executors register
AGAIN = 0.25  # seconds between two checks


@dataclass(frozen=True)
class Executor:
    """An executor, or the driver of a local Spark."""

    host: str
    cores: int


@dataclass(frozen=True)
class Cluster:
    """The slots of a cluster, and the settings that determine them.

    Attributes
    ----------
    master : str
        The URL of the master.
    slots : int or None
        Tasks that can run at once; None when Spark does not report it.
    executors : tuple of Executor
        The executors that run tasks; may be empty when Spark does not report them.
    task_cpus : int
        Cores of a task.
    task_resources : str
        Further resources of a task, in words; may be empty.
    expected : int or None
        The number of executors that were asked for; None if it is unknown.
    cores : int or None
        The cores of all executors together, where Spark does not report each.
    """

    master: str
    slots: int | None
    executors: tuple[Executor, ...]
    task_cpus: int
    task_resources: str
    expected: int | None
    cores: int | None = None

    @property
    def complete(self) -> bool | None:
        """Return whether all executors have registered; None when their number is unknown."""
        if is_local(self.master):
            return True
        if not self.executors:
            return None if self.cores else False
        return None if self.expected is None else len(self.executors) >= self.expected


def is_local(master: str) -> bool:
    """Return whether Spark runs its tasks in the driver itself."""
    return master == "local" or master.startswith("local[")


def read(spark: Spark, resources: Any = None) -> Cluster:
    """Read slots, executors and settings from Spark.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark to read.
    resources : pyspark.resource.ResourceProfile, optional
        The resources of tasks, where they differ from the configuration.
    """
    wanted = {} if resources is None else dict(resources.taskResources)
    cpus = wanted.pop("cpus", None)
    others = [f"{request.amount:g} {name}" for name, request in wanted.items()]
    # Before the slots: an executor that registers in between would seem to have none.
    executors, cores = ask(spark.executors) or (), ask(spark.cores)
    return Cluster(
        master=spark.master,
        slots=ask(lambda: spark.slots(resources)),
        executors=executors,
        task_cpus=int(cpus.amount if cpus else spark.setting("spark.task.cpus", "1")),
        task_resources=" and ".join(others),
        expected=expected_executors(spark.master, spark.setting("spark.executor.instances")),
        cores=cores,
    )


def gpus_of_task(spark: Spark, resources: Any) -> int:
    """Return the number of GPUs of a task. A part of a GPU counts as one."""
    if resources is None:
        amount = float(spark.setting("spark.task.resource.gpu.amount", "0"))
    else:
        request = resources.taskResources.get("gpu")
        amount = 0.0 if request is None else request.amount
    return math.ceil(amount)


def ask(question: Callable[[], Any]) -> Any:
    """Ask Spark by an internal method; None when that fails."""
    try:
        return question()
    except Exception:
        return None


def expected_executors(master: str, instances: str) -> int | None:
    """Read the number of executors from the master's URL or the configuration."""
    pseudo = re.match(r"local-cluster\[\s*(\d+)", master)
    if pseudo:
        return int(pseudo[1])
    return int(instances) if instances.isdecimal() else None


# ---- Checks --------------------------------------------------------------------------------------


def check_settings(spark: Spark, resources: Any = None) -> None:
    """Refuse settings that Spark refuses for barrier stages, with the remedy."""
    dynamic = spark.setting("spark.dynamicAllocation.enabled").lower() == "true"
    if dynamic and not is_local(spark.master):
        raise UnsupportedError(preflight.DYNAMIC)
    if resources is None:
        check_gpus(spark)
        return
    if not hasattr(resources, "taskResources"):
        raise InvalidError(
            f"resources is of type {type(resources).__name__}: pass a ResourceProfile, as in"
            " ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build"
        )
    if resources.executorResources:
        raise UnsupportedError(
            "resources asks for executors of its own, which Spark starts with dynamic allocation"
            " only, and dynamic allocation excludes barrier stages: ask for resources of tasks"
            " (TaskResourceRequests), and set those of executors in the configuration"
        )
    check_kinds(spark, resources)
    try:
        spark.register(resources)
    except Exception as error:
        text = preflight.text_of(error)
        raise UnsupportedError(f"this Spark takes no resources: {text}") from error


def check_kinds(spark: Spark, resources: Any) -> None:
    """Refuse resources that no executor has, such as GPUs."""
    for name, request in resources.taskResources.items():
        setting = f"spark.executor.resource.{name}.amount"
        if name in ("cpus", "memory", "offHeap") or spark.setting(setting):
            continue
        advice = f"Set {setting} where Spark starts, with what finds them (discoveryScript)"
        if name == "gpu":
            count = math.ceil(request.amount)
            advice += f"; or leave gpu out, and call comm.gpus({count}) in f to share a host's GPUs"
        raise UnsupportedError(
            f"resources asks for {request.amount:g} {name} per task, but the executors of"
            f" {spark.master} have no {name}: {setting} is not set. {advice}"
        )


def check_gpus(spark: Spark) -> None:
    """Refuse GPUs with a local master: it has none to assign, so no task would start."""
    gpus = gpus_of_task(spark, None)
    if gpus and is_local(spark.master):
        raise UnsupportedError(
            f"each task is to have a GPU (spark.task.resource.gpu.amount), but {spark.master} has"
            " none to assign, so no task would ever start. Leave that setting out, and call"
            f" comm.gpus({gpus}) in the function to share out the GPUs of this machine"
        )


def wait_for(
    spark: Spark, resources: Any, num_proc: int | None, timeout: float, attempt: int = 0
) -> int:
    """Wait until the executors have slots for all ranks.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark that is to run the ranks.
    resources : pyspark.resource.ResourceProfile or None
        The resources of a task.
    num_proc : int or None
        The number of ranks; None for one rank a slot.
    timeout : float
        Seconds to wait for executors at most.
    attempt : int
        After the first attempt, lost executors may take all of ``timeout`` to register again.

    Returns
    -------
    int
        The number of ranks.

    Raises
    ------
    InvalidError
        When there are too few slots.
    """
    begin = time.monotonic()
    while True:
        cluster = read(spark, resources)
        if cluster.slots is None:  # Spark raises its own error later
            return num_proc or spark.parallelism
        enough = num_proc is not None and cluster.slots >= num_proc
        waited = time.monotonic() - begin
        if enough or waited >= min(timeout, patience(spark, cluster.complete, attempt)):
            break
        time.sleep(AGAIN)
    wanted = cluster.slots if num_proc is None else num_proc
    if wanted > cluster.slots or wanted < 1:
        raise InvalidError(explain(cluster, max(wanted, 1)))
    return wanted


def patience(spark: Spark, complete: bool | None, attempt: int) -> float:
    """Return the seconds that executors may take to register."""
    if complete:
        return 0.0
    if attempt:
        return math.inf
    if complete is False:
        return MISSING
    return max(2.0, REGISTRATION - spark.age)


def explain(cluster: Cluster, num_proc: int) -> str:
    """Write the error: how many slots there are, why, and what to do."""
    text = (
        f"{num_proc} {'rank needs' if num_proc == 1 else 'ranks need'} as many free task slots at"
        f" the same time, but {cluster.master} has {cluster.slots}: {arithmetic(cluster)}."
    )
    if not cluster.executors and not cluster.cores:
        return text + " Wait for executors, or look at why none has started"
    if is_local(cluster.master):
        more = f"start Spark with local[{num_proc * cluster.task_cpus}]"
    else:
        more = "start more or larger executors (spark.executor.instances, spark.executor.cores)"
    fewer = f"pass num_proc={cluster.slots} or less, or " if cluster.slots else ""
    return f"{text} To go on, {fewer}{more}"


def arithmetic(cluster: Cluster) -> str:
    """Explain the number of slots, as in ``2 executors x (8 cores / 2 per task) = 8``."""
    if not cluster.executors and not cluster.cores:
        return "no executor has registered"
    needs = f"{cluster.task_cpus} per task"
    sizes = sorted({executor.cores for executor in cluster.executors})
    if not sizes:
        text = f"executors with {cluster.cores} cores together / {needs}"
    elif is_local(cluster.master):
        text = f"{sizes[0]} cores / {needs}"
    elif len(sizes) == 1:
        count = len(cluster.executors)
        text = f"{count} executor{'s' * (count > 1)} x ({sizes[0]} cores / {needs})"
    else:
        cores = " + ".join(str(executor.cores) for executor in cluster.executors)
        text = f"executors with {cores} cores / {needs}, each rounded down"
    if sizes and cluster.expected is not None and len(cluster.executors) < cluster.expected:
        missing = cluster.expected - len(cluster.executors)
        text += f", and {missing} executor{' is' if missing == 1 else 's are'} missing"
    if cluster.task_resources:
        text += f", where a task needs {cluster.task_resources}, too"
    return text
