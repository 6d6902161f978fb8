from __future__ import annotations

import csv
import sqlite3
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Iterable, Iterator


class Unbalanced(ValueError):
    """The amounts of an entry do not add up to nothing."""


@dataclass(frozen=True)
class Entry:
    day: date
    text: str
    amounts: tuple[tuple[str, Decimal], ...]

    def __post_init__(self) -> None:
        if rest := sum((amount for _, amount in self.amounts), Decimal(0)):
            raise Unbalanced(f"{self.text}: {rest} too much")


class Book:
    """Keeps entries in a database."""

    def __init__(self, path: str = ":memory:") -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("CREATE TABLE IF NOT EXISTS amounts (day TEXT, text TEXT, account TEXT, amount TEXT)")

    def add(self, entry: Entry) -> None:
        with self._db:
            self._db.executemany(
                "INSERT INTO amounts VALUES (?, ?, ?, ?)",
                [(entry.day.isoformat(), entry.text, account, str(amount)) for account, amount in entry.amounts],
            )

    def balance(self, account: str, until: date = date.max) -> Decimal:
        """The balance of an account and of those below it."""
        rows = self._db.execute(
            "SELECT amount FROM amounts WHERE (account = ? OR account LIKE ? || ':%') AND day <= ?",
            (account, account, until.isoformat()),
        )
        return sum((Decimal(amount) for (amount,) in rows), Decimal(0))

    def accounts(self) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT DISTINCT account FROM amounts ORDER BY account")]

    def close(self) -> None:
        self._db.close()


def read(lines: Iterable[str]) -> Iterator[Entry]:
    """Entries from CSV: day, text, and accounts with amounts in turn."""
    for number, row in enumerate(csv.reader(lines), start=1):
        if not row:
            continue
        try:
            day, text, *rest = row
            pairs = zip(rest[::2], rest[1::2], strict=True)
            yield Entry(date.fromisoformat(day), text, tuple((account, Decimal(amount)) for account, amount in pairs))
        except (ArithmeticError, ValueError) as e:
            if isinstance(e, Unbalanced):
                raise
            raise ValueError(f"line {number}: {row}") from e
