"""A Slurm of one node, this machine, that lives as long as a `with` block."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo", "scancel")

CONFIG = """\
ClusterName=espalier
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=0
SlurmdParameters=config_overrides
MinJobAge=600
ReturnToService=2
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class NotUpError(RuntimeError):
    """The daemons do not start on this machine."""


def obstacle() -> str | None:
    """Why no node can be brought up here, or None."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=path()) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "slurmd needs root to start other users' jobs"
    return None


def path() -> str:
    """PATH with the folders where Debian puts daemons."""
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


@contextmanager
def running(folder: Path, *, cpus: int, memory: int) -> Iterator[dict[str, str]]:
    """Bring the node up with so many CPUs and MB, whatever it has; yields its environment.

    All files are below `folder`, and commands find this Slurm by SLURM_CONF alone, so that one
    which the machine may have of its own is not touched. Ends the jobs and the three daemons.
    """
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    munge = folder / "munge.socket"
    controller, daemon = free_ports()
    host = socket.gethostname().split(".")[0]
    config.write_text(
        CONFIG.format(
            folder=folder, host=host, munge=munge, controller=controller, daemon=daemon,
            cpus=cpus, memory=memory,
        )
    )  # fmt: skip
    # Snakemake's plugin takes SLURM_CONF from the environment in which a job calls srun.
    wrapper = folder / "bin" / "srun"
    wrapper.parent.mkdir()
    srun = shutil.which("srun", path=path())
    wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={config} exec {srun} "$@"\n')
    wrapper.chmod(0o755)
    first = os.pathsep.join([str(wrapper.parent), path()])
    environment = {**os.environ, "PATH": first, "SLURM_CONF": str(config)}
    own = [f"--{part}-file={folder}/munge.{part}" for part in ("key", "log", "pid", "seed")]
    commands = [
        ["munged", "--foreground", "--force", f"--socket={munge}", *own],
        ["slurmctld", "-D", "-f", str(config), "-L", str(folder / "slurmctld.log")],
        ["slurmd", "-D", "-f", str(config), "-L", str(folder / "slurmd.log")],
    ]
    daemons = []
    try:
        for command in commands:
            output = (folder / f"{command[0]}.out").open("w")
            daemons.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            if command[0] == "munged":
                wait_for(munge.exists, daemons, folder)
        wait_for(lambda: state(environment) == "idle", daemons, folder)
        yield environment
    finally:
        if len(daemons) == len(commands):
            subprocess.run(
                ["scancel", "--full", "--user=root"], env=environment, check=False, timeout=30
            )
            wait_for(lambda: state(environment) == "idle", daemons, folder)
        for process in reversed(daemons):
            process.terminate()
            process.wait(timeout=30)


def state(environment: dict[str, str]) -> str:
    """What sinfo says of the node; empty while the controller does not answer."""
    command = ["sinfo", "--noheader", "--format=%T"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def wait_for(ready, daemons, folder: Path, seconds: float = 60) -> None:
    """Wait until `ready()`; NotUpError, with the daemons' logs, when one ends or time is out."""
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until or any(process.poll() is not None for process in daemons):
            logs = [*sorted(folder.glob("*.log")), *sorted(folder.glob("*.out"))]
            text = "\n".join(f"{log.name}:\n{log.read_text()[-1500:]}" for log in logs)
            raise NotUpError(f"Slurm does not start here\n{text}")
        time.sleep(0.2)


def free_ports() -> list[int]:
    """Two ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
