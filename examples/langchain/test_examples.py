"""Tests with the standard library alone; `paddock` must be on PATH.

LangChain is not needed: a class of the same fields stands in for its base
class, and the shell is driven as the middleware drives it.
"""

import os
import subprocess
import sys
import tempfile
import types
import unittest
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass
class BaseExecutionPolicy:
    command_timeout: float = 30.0
    startup_timeout: float = 30.0
    termination_timeout: float = 10.0
    max_output_lines: int = 100
    max_output_bytes: "int | None" = None


for name in ("langchain", "langchain.agents", "langchain.agents.middleware"):
    sys.modules.setdefault(name, types.ModuleType(name))
sys.modules["langchain.agents.middleware"].BaseExecutionPolicy = BaseExecutionPolicy

from paddock_policy import PaddockExecutionPolicy  # noqa: E402
from paddock_session import Session, SessionError  # noqa: E402


class Policy(unittest.TestCase):
    def test_command_line(self):
        line = PaddockExecutionPolicy(memory="1GiB", processes=50, args=["--seccomp", "strict"]).argv(
            Path("/w"), {"B": "secret", "A": "1", "PATH": "/x"}, ["/bin/bash"])
        self.assertEqual(line[1:], ["run", "--quiet", "--workspace", "/w", "--network", "none", "--memory", "1GiB", "--processes", "50",
                                    "--env-pass", "A", "--env-pass", "B", "--seccomp", "strict", "--", "/bin/bash"])
        with self.assertRaisesRegex(RuntimeError, "requires the 'no-such-paddock' CLI"):
            PaddockExecutionPolicy(binary="no-such-paddock").argv(Path("/w"), {}, ["sh"])

    def test_shell(self):
        with tempfile.TemporaryDirectory() as workspace:
            env = {**os.environ, "GIVEN": "by the middleware"}
            shell = PaddockExecutionPolicy().spawn(workspace=Path(workspace), env=env, command=["/bin/bash"])

            def do(command):
                marker = uuid.uuid4().hex
                shell.stdin.write(f"{command}\nprintf '{marker} %s\\n' $?\n")
                shell.stdin.flush()
                lines = []
                for line in shell.stdout:
                    if line.startswith(marker):
                        return "".join(lines), int(line.split()[1])
                    lines.append(line)
                raise AssertionError("the shell has ended: " + shell.stderr.read())

            self.assertEqual(do("pwd; x=1; echo $GIVEN"), ("/workspace\nby the middleware\n", 0))
            self.assertEqual(do("echo $x; touch made; false"), ("1\n", 1))
            self.assertTrue(Path(workspace, "made").exists())
            shell.stdin.close()
            self.assertEqual(shell.wait(timeout=30), 0)
            shell.stdout.close()
            shell.stderr.close()


class Client(unittest.TestCase):
    def test_session(self):
        with tempfile.TemporaryDirectory() as workspace, Session(workspace=workspace, startup=["y=2"]) as shell:
            shell.run("cd /tmp; x=1")
            answer = shell.run("pwd; echo $x$y; cat", stdin="in\n")
            self.assertEqual((answer["stdout"], answer["exit_code"]), ("/tmp\n12\nin\n", 0))
            self.assertEqual(shell.run("sleep 100", timeout="200ms")["text"], "Error: Command timed out after 0.2 seconds.")
            self.assertEqual(shell.run("(exit 3)")["text"], "<no output>\n\nExit code: 3")
            self.assertEqual(shell.restart()["text"], "Shell session restarted.")
            self.assertEqual(shell.run("echo [$x]")["text"], "[]")
            with self.assertRaisesRegex(SessionError, "requires either"):
                shell.ask({})

    def test_failures(self):
        shell = Session(startup=["false"])
        with self.assertRaisesRegex(SessionError, "ended with status 125"):
            shell.run("true")
        shell.close()


if __name__ == "__main__":
    unittest.main()
