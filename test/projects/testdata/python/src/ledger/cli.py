import argparse
import sys

from .book import Book, read


def main(argv: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(prog="ledger", description="print the balance of each account of a CSV file")
    parser.add_argument("file", type=argparse.FileType())
    args = parser.parse_args(argv)
    book = Book()
    with args.file as lines:
        for entry in read(lines):
            book.add(entry)
    for account in book.accounts():
        print(f"{account:<24}{book.balance(account):>12}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
