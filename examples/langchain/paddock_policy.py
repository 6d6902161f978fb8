"""An execution policy for LangChain's shell middleware whose walls are Paddock's.

    from langchain.agents.middleware import ShellToolMiddleware
    from paddock_policy import PaddockExecutionPolicy

    ShellToolMiddleware(execution_policy=PaddockExecutionPolicy(memory="1GiB"))

The middleware starts its shell through the policy's spawn(); here that is
`paddock run`, which hands standard input and both outputs on. The shell sees
the middleware's workspace, and may change that and nothing else; it has no
network, no file of the user's, and nothing of the environment but what the
middleware passes. What it has started ends with it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

try:
    from langchain.agents.middleware import BaseExecutionPolicy
except ImportError:
    try:
        from langchain.agents.middleware.shell_tool import BaseExecutionPolicy
    except ImportError as missing:
        raise ImportError("PaddockExecutionPolicy needs the package langchain") from missing

# What the middleware sets for its own shell means nothing inside the walls.
_OUTSIDE = {"PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "TMPDIR", "_"}


@dataclass
class PaddockExecutionPolicy(BaseExecutionPolicy):
    """Runs the shell by `paddock run`.

    binary: the program, by name or path.
    memory, cpus, processes: bounds of all that runs, as `paddock run` takes
        them ("512MiB", "1.5", 200); None is its default.
    network: "none" (only loopback) or "host".
    args: more arguments for `paddock run`, before the shell.
    """

    binary: str = "paddock"
    memory: str | None = None
    cpus: str | None = None
    processes: int | None = None
    network: str = "none"
    args: Sequence[str] = field(default_factory=tuple)

    def argv(self, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> list[str]:
        """The whole command line. Values of variables are not in it."""
        program = shutil.which(self.binary)
        if program is None:
            raise RuntimeError(f"Paddock execution policy requires the '{self.binary}' CLI to be installed and available on PATH.")
        line = [program, "run", "--quiet", "--workspace", str(workspace), "--network", self.network]
        for flag, value in (("--memory", self.memory), ("--cpus", self.cpus), ("--processes", self.processes)):
            if value is not None:
                line += [flag, str(value)]
        for name in sorted(set(env) - _OUTSIDE):
            line += ["--env-pass", name]
        return [*line, *self.args, "--", *command]

    def spawn(self, *, workspace: Path, env: Mapping[str, str], command: Sequence[str]) -> subprocess.Popen[str]:
        """Starts the shell. Its session is its own: to kill Paddock is enough
        to end all that is inside."""
        return subprocess.Popen(
            self.argv(workspace, env, command),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=workspace, env=dict(env), text=True, encoding="utf-8", errors="replace", bufsize=1,
            start_new_session=True,
        )
