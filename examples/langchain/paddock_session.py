"""A client of `paddock session --json`: one shell that stays, behind walls.

    with Session(workspace="/home/me/project") as shell:
        shell.run("cd src; x=1")
        print(shell.run("pwd; echo $x")["text"])

Needs nothing but the standard library and the program `paddock`.
"""

from __future__ import annotations

import json
import subprocess
import threading


class SessionError(RuntimeError):
    """A request that nothing came of; its text is what Paddock said."""


class Session:
    """Starts `paddock session --json` with flags made of the keywords:
    workspace="/x", memory="1GiB", startup=["…", "…"], read_only_rootfs=True."""

    def __init__(self, binary: str = "paddock", **flags) -> None:
        line = [binary, "session", "--json"]
        for name, value in flags.items():
            flag = "--" + name.replace("_", "-")
            for one in value if isinstance(value, (list, tuple)) else [value]:
                line.append(flag if one is True else f"{flag}={one}")
        self._lock = threading.Lock()
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def ask(self, request: dict) -> dict:
        """One request, one answer. An answer with the key "error" is raised."""
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
            except BrokenPipeError:
                line = ""
        if not line:
            raise SessionError(f"paddock session has ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise SessionError(answer["error"])
        return answer

    def run(self, command: str, **options) -> dict:
        """Runs a command: "text" is for a model, "stdout" and "stderr" for
        programs. Options: stdin, timeout="5s", max_output_lines, max_output_bytes."""
        return self.ask({"command": command, **options})

    def restart(self) -> dict:
        """Gives the session a new shell, without the state of the old one."""
        return self.ask({"restart": True})

    def close(self) -> int:
        """Ends the session with all that runs in it; the exit status."""
        if self._process.stdin and not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        status = self._process.wait()
        self._process.stdout.close()
        return status

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_) -> None:
        self.close()
