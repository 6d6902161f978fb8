import subprocess
import sys

from ledger.cli import main


def test_main(tmp_path, capsys):
    file = tmp_path / "book.csv"
    file.write_text("2024-01-01,shop,home,1.50,bank,-1.50\n\n")
    assert main([str(file)]) == 0
    assert capsys.readouterr().out == "bank                           -1.50\nhome                            1.50\n"


def test_module(tmp_path):
    done = subprocess.run([sys.executable, "-m", "ledger.cli", str(tmp_path / "none")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No such file" in done.stderr
