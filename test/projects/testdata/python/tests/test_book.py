import os
from datetime import date, timedelta
from decimal import Decimal

import pytest

from ledger import Book, Entry, Unbalanced
from ledger.book import read


@pytest.fixture
def book(tmp_path):
    book = Book(str(tmp_path / "book.db"))
    yield book
    book.close()


def entry(day, amount, to="home:food"):
    return Entry(day, "shop", ((to, Decimal(amount)), ("bank", -Decimal(amount))))


def test_balance(book):
    book.add(entry(date(2024, 1, 1), "12.30"))
    book.add(entry(date(2024, 2, 1), "7.70", to="home:rent"))
    assert book.balance("home") == Decimal("20.00")
    assert book.balance("home:food") == Decimal("12.30")
    assert book.balance("home", until=date(2024, 1, 31)) == Decimal("12.30")
    assert book.balance("hom") == 0
    assert book.accounts() == ["bank", "home:food", "home:rent"]


def test_unbalanced():
    with pytest.raises(Unbalanced, match="0.01 too much"):
        Entry(date.today(), "shop", (("a", Decimal("1.01")), ("b", Decimal("-1.00"))))


@pytest.mark.parametrize("line", ["2024-13-01,x,a,1,b,-1", "2024-01-01,x,a,1,b", "2024-01-01,x,a,one,b,-1", "2024-01-01"])
def test_bad_lines(line):
    with pytest.raises(ValueError, match="line 2"):
        list(read(["2024-01-01,x,a,1,b,-1", line]))


def test_many():
    """Many entries, the more the larger ROUNDS is."""
    book = Book()  # in memory: a disk would be what is measured
    days = (int(os.environ.get("ROUNDS", 0)) + 1) * 100
    for n in range(days):
        book.add(entry(date(2000, 1, 1) + timedelta(n), "0.10"))
    for n in range(0, days, 20):
        assert book.balance("home", until=date(2000, 1, 1) + timedelta(n)) == Decimal("0.10") * (n + 1)
