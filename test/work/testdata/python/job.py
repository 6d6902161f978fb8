"""Threads, processes of every kind, a database and temporary files."""

import asyncio
import concurrent.futures
import hashlib
import multiprocessing
import multiprocessing.shared_memory
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading


def square(n):
    return n * n


def threads():
    found = []
    lock = threading.Lock()

    def work(n):
        with lock:
            found.append(square(n))

    all_of_them = [threading.Thread(target=work, args=(n,)) for n in range(100)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(found), sum(pool.map(square, range(100)))


def processes():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, sum(pool.map(square, range(50))))
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        p = multiprocessing.Process(target=shared.update, args=({"from": "a child"},))
        p.start()
        p.join()
        print("manager", dict(shared), p.exitcode)
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[:5] = b"hello"
    print("shared", bytes(memory.buf[:5]))
    memory.close()
    memory.unlink()


def children():
    done = subprocess.run(["sh", "-c", "cat; echo err >&2; exit 6"], input="in", text=True, capture_output=True)
    print("subprocess", done.returncode, done.stdout, done.stderr.strip())
    killed = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    os.killpg(killed.pid, signal.SIGTERM)
    print("killed", killed.wait())
    try:
        subprocess.run(["sleep", "1000"], timeout=0.1)
    except subprocess.TimeoutExpired:
        print("timed out")
    print("terminal", pty.spawn(["true"]))


def database():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "db")
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT)")
            db.executemany("INSERT INTO t VALUES (?, ?)", ((n, str(n) * 10) for n in range(5000)))
        other = sqlite3.connect(path)
        print("sqlite", *other.execute("SELECT count(*), sum(n), max(length(s)) FROM t").fetchone())
        other.close()
        db.close()


def files():
    with tempfile.NamedTemporaryFile(dir=".") as f:
        f.write(b"x" * (8 << 20))
        f.flush()
        os.posix_fallocate(f.fileno(), 0, 16 << 20)
        print("file", os.stat(f.name).st_size)
        os.lockf(f.fileno(), os.F_TLOCK, 0)
        os.setxattr(f.name, "user.job", b"yes")
        print("attribute", os.getxattr(f.name, "user.job"))
    with tempfile.TemporaryFile() as f:
        f.write(b"unnamed")
        print("unnamed", f.tell())
    with tempfile.SpooledTemporaryFile() as f:
        f.write(b"spooled")
        print("spooled", f.tell())


async def loop():
    async def handle(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"asyncio\n")
    print((await reader.readline()).decode().strip())
    writer.close()
    child = await asyncio.create_subprocess_exec("echo", "awaited", stdout=subprocess.PIPE)
    print((await child.communicate())[0].decode().strip())
    server.close()


if __name__ == "__main__":
    print(*threads())
    sys.stdout.flush()
    processes()
    children()
    database()
    files()
    asyncio.run(loop())
    print(hashlib.sha256(open(__file__, "rb").read()).hexdigest())
    sys.exit(7)
