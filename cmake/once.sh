#!/usr/bin/env bash
# Sourced by the scripts that fetch or build something from PyPI once per machine.

# begin_once NAME VERSION TEXT: `prefix` becomes ${ZTC_CACHE:-~/.cache/ztc}/NAME-VERSION, which is not there yet, and `work` a folder
# with a virtual environment that goes away with the script. Ends the script where the prefix is complete already.
begin_once() {
  local cache=${ZTC_CACHE:-$HOME/.cache/ztc}
  prefix=$cache/$1-$2
  [ -e "$prefix/complete" ] && exit 0
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # two builds at once would write the same folder
  [ -e "$prefix/complete" ] && exit 0
  echo "setup: $3"
  rm -rf "$prefix"
  work=$(mktemp -d "$cache/$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m venv "$work/venv" # Debian's pip refuses to run outside a virtual environment
}

# pip_download ARGUMENT...: into `work`.
pip_download() {
  "$work/venv/bin/python" -m pip download -q --no-deps -d "$work" "$@"
}

# fetch_wheel SHA256 ARGUMENT...: the same of a wheel, which is checked; `wheel` becomes its path.
fetch_wheel() {
  local sha256=$1
  shift
  pip_download --only-binary :all: "$@"
  wheel=$(echo "$work"/*.whl)
  echo "$sha256  $wheel" | sha256sum --check --quiet
}

end_once() {
  touch "$prefix/complete"
}
