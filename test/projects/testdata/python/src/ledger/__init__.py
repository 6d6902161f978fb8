"""A ledger of accounts, with double entries."""

from .book import Book, Entry, Unbalanced

__all__ = ["Book", "Entry", "Unbalanced"]
