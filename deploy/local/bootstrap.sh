#!/usr/bin/env bash
# Gets what this checkout needs on a fresh Debian-like machine: Debian packages, uv, the Python environment. Quick when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
export HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}
cache=${MODELFLEET_CACHE:-$HOME/.cache/modelfleet}
uv_version=0.13.9 # also in modelfleet_local/paths.py

fail() { echo "modelfleet: $*" >&2; exit 1; }

# sbin is not on every root's PATH (su without a dash).
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

present() { # any of the alternatives in $1 (a program or an absolute path, separated by |)
  local one
  for one in ${1//|/ }; do
    case $one in /*) [ -e "$one" ] && return ;; *) command -v "$one" > /dev/null && return ;; esac
  done
  return 1
}

missing=()
while read -r what package; do
  case $what in '' | '#'*) continue ;; esac
  present "$what" || missing+=("$package")
done < deploy/local/debian-packages.txt

command -v python3 > /dev/null || missing+=(python3)
# A Debian python3 without python3-venv has the module venv, but not ensurepip.
python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  [ "$(id -u)" = 0 ] || fail "missing Debian packages (${missing[*]}) and not root; run this as root, or install them first"
  command -v apt-get > /dev/null || fail "missing ${missing[*]}, and this machine has no apt-get; install them first"
  mkdir -p "$cache/logs"
  log=$cache/logs/apt.log
  echo "installing Debian packages: ${missing[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  # --no-remove: a package of another vendor is never pushed out (docker's containerd.io, say).
  { apt-get update -q && apt-get install -y -q --no-install-recommends --no-remove "${missing[@]}"; } > "$log" 2>&1 \
    || fail "installing Debian packages failed; see $log: $(tail -n 1 "$log")"
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "Python 3.11 or newer is needed, python3 is $(python3 --version 2>&1)"

uv=$cache/uv-$uv_version/bin/uv
if [ ! -x "$uv" ]; then
  mkdir -p "$cache/logs"
  log=$cache/logs/uv.log
  echo "installing uv $uv_version into $cache" >&2
  rm -rf "$cache/uv-$uv_version"
  { python3 -m venv "$cache/uv-$uv_version" && "$cache/uv-$uv_version/bin/pip" install --quiet "uv==$uv_version"; } > "$log" 2>&1 \
    || fail "installing uv failed; see $log: $(tail -n 1 "$log")"
fi

mkdir -p build
UV_PYTHON_DOWNLOADS=never "$uv" sync --frozen --quiet || fail "making the Python environment .venv failed; the lines above say why"
