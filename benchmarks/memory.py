"""A process's own memory: without the pages of mapped files, which the system can drop."""

import threading
from pathlib import Path


class Memory(threading.Thread):
    """Watches this process's own memory (RssAnon), from its making to `stop`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.largest, self.done = 0, threading.Event()
        self.start()

    def run(self) -> None:
        """Look every tenth of a second."""
        while not self.done.wait(0.1):
            status = Path("/proc/self/status").read_text()
            anonymous = status.split("RssAnon:")[1].split()[0]
            self.largest = max(self.largest, int(anonymous))

    def stop(self) -> float:
        """The most that was seen, GiB."""
        self.done.set()
        return self.largest / 2**20
