#!/bin/sh
# Prints the path of a Python of the wanted version that can make virtual environments; says what to install if none is.
#   tools/find_python.sh 3.13
# PYTHON313=PATH (or PYTHON311) decides at once. Looked at: PATH, pyenv, uv, Homebrew, python.org's installer, conda.
set -u
wanted=${1:?usage: find_python.sh 3.13}
digits=$(printf %s "$wanted" | tr -d .)
eval "chosen=\${PYTHON$digits:-}"
pyenv=${PYENV_ROOT:-$HOME/.pyenv}
uv=${UV_PYTHON_INSTALL_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/uv/python}

fits() {
  # Debian splits ensurepip off; a pyenv shim of a version that isn't selected exists, but doesn't run.
  "$1" -I -c "import sys, ensurepip, venv, ssl, sqlite3
v = '%d.%d' % sys.version_info[:2]
sys.exit(v != '$wanted' or sys.implementation.name != 'cpython')" >/dev/null 2>&1
}

report() { exec "$1" -I -c "import os, sys; print(os.path.realpath(sys.executable))"; }

if [ -n "$chosen" ]; then
  fits "$chosen" && report "$chosen"
  echo "PYTHON$digits=$chosen is no CPython $wanted with venv, ensurepip, ssl and sqlite3." >&2
  exit 1
fi

IFS=:
for folder in $PATH; do
  for name in "python$wanted" python3 python; do
    [ -x "$folder/$name" ] && fits "$folder/$name" && report "$folder/$name"
  done
done
unset IFS
for candidate in \
  "$pyenv"/versions/"$wanted".*/bin/"python$wanted" \
  "$uv"/cpython-"$wanted"*/bin/"python$wanted" \
  /opt/homebrew/bin/"python$wanted" /usr/local/bin/"python$wanted" \
  /Library/Frameworks/Python.framework/Versions/"$wanted"/bin/"python$wanted" \
  "$HOME"/miniconda3/envs/*/bin/"python$wanted" "$HOME"/miniforge3/envs/*/bin/"python$wanted"
do
  [ -x "$candidate" ] && fits "$candidate" && report "$candidate"
done

cat >&2 <<EOT
No CPython $wanted was found (PATH, pyenv, uv, Homebrew, python.org, conda). Install one, for example with one of

  uv python install $wanted
  pyenv install $wanted
  apt-get install python$wanted python$wanted-venv      (where the distribution has it)
  brew install python@$wanted

or name one: make PYTHON$digits=/path/to/python$wanted
EOT
exit 1
