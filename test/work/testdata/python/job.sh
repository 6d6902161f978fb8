# A virtual environment, the tests of a program, and the program.
export PYTHONDONTWRITEBYTECODE=1
python3 -m venv --without-pip env
env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'
env/bin/python -m unittest -q 2>/dev/null
env/bin/python -m compileall -q job.py
env/bin/python job.py
