# SPDX-License-Identifier: Apache-2.0
"""A standalone cluster of Spark: a master and workers, each worker on a host of its own.

Hosts are network namespaces on one bridge, with cables of 1 Gbit/s (bench/network.py). The last
one is that of the master, and of the driver: a thread that enters `driver()` opens its sockets
there, and so do the processes that it starts. Java is started without Spark's scripts, as each of
these starts a Java of its own first, only to find out the command.

When a cluster ends, so does all that runs in its namespaces; `remains()` returns what is left.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from network import Network, enter, inside, remove_leftovers

PURPOSE = "spark"
RATE = "1gbit"
PORT = 7077
HERE_NOW = "/proc/thread-self/ns/net"
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # Java that starts soon, on few processors
TICK = 0.05
SOON = 400  # seconds, of which a machine that does nothing else needs few
PR_SET_PDEATHSIG = 1
LOST_AFTER = 30  # seconds without a word


def missing():
    """Return why there can be no cluster here, if so."""
    if os.geteuid() != 0:
        return "network namespaces can be made by root alone"
    absent = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    assert not absent, f"scripts/setup installs what is missing: {', '.join(absent)}"
    return None


class Cluster:
    """A master, and workers with one core each; a context manager."""

    def __init__(self, workers, folder):
        self.workers = workers
        self.folder = Path(folder)  # of the cluster alone; removed at the end
        self.network = Network(RATE, workers + 1, PURPOSE)
        self.addresses = self.network.addresses[:workers]
        self.host = self.network.addresses[workers]
        self.url = f"spark://{self.host}:{PORT}"
        self.daemons = []
        self.places = {}  # the inode of each namespace: its name

    def configure(self, builder):
        """Make a session's builder use this cluster."""
        settings = {
            "spark.driver.host": self.host,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": SMALL,
            # An executor that is cut off is declared lost soon.
            "spark.executor.heartbeatInterval": "2s",
            "spark.network.timeout": f"{LOST_AFTER}s",
            "spark.network.timeoutInterval": "1s",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        return builder.master(self.url)

    def wait_for_executors(self, context):
        """Wait until each worker has one."""
        wait_for_executors(context, self.workers, self.logs)

    @contextlib.contextmanager
    def driver(self):
        """Be on the driver's host: this thread, and what it starts."""
        with open(HERE_NOW, "rb") as before:
            enter(self.network.namespace(self.workers))
            try:
                yield
            finally:
                enter(f"/proc/self/fd/{before.fileno()}")

    # ---- Making it

    def __enter__(self):
        remove_leftovers(PURPOSE)
        self.folder.mkdir()
        try:
            self.network.__enter__()
            self.places = {os.stat(f"/run/netns/{name}").st_ino: name for name in self.network.made}
            words = f"master.Master --host {self.host} --port {PORT} --webui-port 0"
            self.start(self.workers, "master", words)
            with self.driver():
                until(self.answers, self.logs)
            for host, address in enumerate(self.addresses):
                words = f"worker.Worker --host {address} --port 0 --webui-port 0 --cores 1"
                words += f" --memory 600m --work-dir {self.folder / f'work{host}'} {self.url}"
                self.start(host, f"worker{host}", words)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, host, name, words):
        """Start a daemon of Spark on a host; it dies with this process."""
        home = Path(_find_spark_home())
        kind, *options = words.split()
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java")
        java = [java, *SMALL.split(), "-Xmx128m", "-cp", f"{home}/jars/*"]
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [*self.network.enter(host), *java, f"org.apache.spark.deploy.{kind}", *options],
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_SCALA_VERSION": scala_version(home),
                    "SPARK_LOCAL_IP": self.network.addresses[host],
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self.daemons.append(process)

    def answers(self):
        """Whether the master takes connections."""
        with contextlib.suppress(OSError), socket.create_connection((self.host, PORT), 1):
            return True
        return False

    def logs(self):
        """Give the ends of the daemons' logs."""
        return "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))

    # ---- What can happen to it

    def pull_cable(self, host):
        """Take a host off the network, without a notice to anyone."""
        inside(self.network.switch, "ip", "link", "set", f"port{host}", "nomaster")

    def plug_cable(self, host):
        """Bring a host back."""
        inside(self.network.switch, *f"ip link set port{host} master bridge up".split())

    # ---- Ending it

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()
        self.network.__exit__()
        shutil.rmtree(self.folder)

    def remains(self):
        """List what is left: processes, namespaces, files."""
        left = [f"{name} of {self.places[place]}" for name, place in running(self.places)]
        left += [name for name in self.places.values() if Path("/run/netns", name).exists()]
        left += [str(path) for path in self.folder.parent.glob(self.folder.name)]
        return left


def stop(session):
    """End Spark and its Java process, so that the next master starts with its own environment."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


def running(places):
    """Find the processes in namespaces: the number and name of each, and where it is."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            place = (path / "ns" / "net").stat().st_ino
            if place in places:
                yield f"process {path.name} ({(path / 'comm').read_text().strip()})", place


def wait_for_executors(context, count, explain=str):
    """Wait until an application has them all."""
    status = context._jsc.sc().statusTracker()
    until(lambda: len(status.getExecutorInfos()) == count + 1, explain)  # with the driver


def until(condition, explain=str):
    """Wait for it; `explain` returns what is known when it does not come."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, f"it has not come about after {SOON} s: {explain()}"
        time.sleep(TICK)


def alive(process):
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def scala_version(home):
    """Which Scala this Spark is built with; Spark's scripts pass that to what they start."""
    jar = next(home.glob("jars/spark-core_*.jar"))
    return jar.name.split("_")[1].split("-")[0]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
