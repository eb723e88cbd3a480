# SPDX-License-Identifier: Apache-2.0
"""Check that a barrier stage has room: as many free slots, at the same time, as it has tasks.

Spark itself retries for ten minutes before it fails such a stage. The check asks first, if possible
with the method that Spark uses for it, and its error shows the arithmetic.
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

MISSING = 60.0  # seconds for executors of which it is known that they should be here
REGISTRATION = 30.0  # seconds after the start of an application in which others still come
AGAIN = 0.25  # seconds between two looks


@dataclass(frozen=True)
class Executor:
    """An executor, or the driver of a local Spark."""

    host: str
    cores: int


@dataclass(frozen=True)
class Cluster:
    """What Spark tells about the room that it has.

    Attributes
    ----------
    master : str
        The URL of the master.
    slots : int or None
        Tasks that can run at once; None when Spark does not tell.
    executors : tuple of Executor
        Those who run tasks; may be empty when Spark does not tell.
    task_cpus : int
        Cores of a task.
    task_resources : str
        What else a task needs, in words; may be empty.
    expected : int or None
        How many executors there should be, if that is known.
    cores : int or None
        The cores of all executors, where Spark does not tell which has how many.
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
        """Whether all executors are here; None when nobody knows how many there should be."""
        if is_local(self.master):
            return True
        if not self.executors:
            return None if self.cores else False
        return None if self.expected is None else len(self.executors) >= self.expected


def is_local(master: str) -> bool:
    """Whether Spark runs its tasks in the driver itself."""
    return master == "local" or master.startswith("local[")


def read(spark: Spark, resources: Any = None) -> Cluster:
    """Ask Spark.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark to ask.
    resources : pyspark.resource.ResourceProfile, optional
        What tasks need, if not what the configuration says.
    """
    wanted = {} if resources is None else dict(resources.taskResources)
    cpus = wanted.pop("cpus", None)
    others = [f"{request.amount:g} {name}" for name, request in wanted.items()]
    # First, as one that comes meanwhile would seem to be there, and without slots.
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
    """How many GPUs a task is to get; one of which it gets a part counts as one."""
    if resources is None:
        amount = float(spark.setting("spark.task.resource.gpu.amount", "0"))
    else:
        request = resources.taskResources.get("gpu")
        amount = 0.0 if request is None else request.amount
    return math.ceil(amount)


def ask(question: Callable[[], Any]) -> Any:
    """Ask Spark what it tells, but does not promise to; None when it does not."""
    try:
        return question()
    except Exception:
        return None


def expected_executors(master: str, instances: str) -> int | None:
    """How many executors there should be, from the master's URL or the configuration."""
    pseudo = re.match(r"local-cluster\[\s*(\d+)", master)
    if pseudo:
        return int(pseudo[1])
    return int(instances) if instances.isdecimal() else None


# ---- Checks --------------------------------------------------------------------------------------


def check_settings(spark: Spark, resources: Any = None) -> None:
    """Refuse what Spark refuses for barrier stages, with the way out."""
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
            "resources asks for executors of its own, which Spark gives with dynamic allocation"
            " only, and that excludes barrier stages: ask for what tasks need"
            " (TaskResourceRequests), and give executors theirs in the configuration"
        )
    check_kinds(spark, resources)
    try:
        spark.register(resources)
    except Exception as error:
        text = preflight.text_of(error)
        raise UnsupportedError(f"this Spark takes no resources: {text}") from error


def check_kinds(spark: Spark, resources: Any) -> None:
    """Refuse resources that Spark knows of no executor to have, such as GPUs."""
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
    """Refuse what would wait for ever: a master of one machine has no GPUs to hand out."""
    gpus = gpus_of_task(spark, None)
    if gpus and is_local(spark.master):
        raise UnsupportedError(
            f"each task is to have a GPU (spark.task.resource.gpu.amount), but {spark.master} has"
            " none to hand out, so that none would ever start. Leave that setting out, and call"
            f" comm.gpus({gpus}) in the function to share out the GPUs of this machine"
        )


def wait_for(
    spark: Spark, resources: Any, num_proc: int | None, timeout: float, attempt: int = 0
) -> int:
    """Wait until executors have come that have room for all ranks.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark that is to run them.
    resources : pyspark.resource.ResourceProfile or None
        What a task needs.
    num_proc : int or None
        How many ranks; None for as many as there is room for.
    timeout : float
        Seconds to wait for executors at most.
    attempt : int
        After the first, executors that were lost may take all of it to come back.

    Returns
    -------
    int
        How many ranks.

    Raises
    ------
    InvalidError
        When there is no room.
    """
    begin = time.monotonic()
    while True:
        cluster = read(spark, resources)
        if cluster.slots is None:  # Spark will say it, later
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
    """How many seconds executors may take."""
    if complete:
        return 0.0
    if attempt:
        return math.inf
    if complete is False:
        return MISSING
    return max(2.0, REGISTRATION - spark.age)


def explain(cluster: Cluster, num_proc: int) -> str:
    """Say how many slots there are, why, and what to do."""
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
    """Say how slots come about, as in ``2 executors x (8 cores / 2 per task) = 8``."""
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
        text += f", and {cluster.expected - len(cluster.executors)} executors are missing"
    if cluster.task_resources:
        text += f", where a task needs {cluster.task_resources}, too"
    return text
