#!/usr/bin/env bash
# Fetches ONNX's node tests (models, inputs and outputs of single ops) once per machine, into
# ${ZTC_CACHE:-~/.cache/ztc}/onnx-node-tests-VERSION, from the source distribution that cmake/build-onnx.sh builds.
set -euo pipefail
version=1.22.0
sha256=ef40c0aaf0b643857ea9306fc7eddce17eaf9fb0407e4801f1fc5758443a38e0
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once onnx-node-tests "$version" "fetching the node tests of ONNX $version (once)"
pip_download --no-binary onnx --no-build-isolation "onnx==$version" 2>"$work/pip.log" ||
  pip_download --no-binary onnx "onnx==$version"
echo "$sha256  $work/onnx-$version.tar.gz" | sha256sum --check --quiet
mkdir -p "$prefix"
tar -xzf "$work/onnx-$version.tar.gz" -C "$prefix" --strip-components=5 "onnx-$version/onnx/backend/test/data/node"
end_once
