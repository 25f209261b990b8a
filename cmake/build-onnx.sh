#!/usr/bin/env bash
# Builds the ONNX C++ library once per machine, into ${ZTC_CACHE:-~/.cache/ztc}/onnx-VERSION, from its PyPI source distribution.
# Debian's package is too old (no opset 18 inference of the operators that exporters write).
set -euo pipefail
version=1.22.0
sha256=ef40c0aaf0b643857ea9306fc7eddce17eaf9fb0407e4801f1fc5758443a38e0
. "$(dirname "${BASH_SOURCE[0]}")/once.sh"
begin_once onnx "$version" "building ONNX $version (once, about a minute)"
pip_download --no-binary onnx --no-build-isolation "onnx==$version" 2>"$work/pip.log" ||
  pip_download --no-binary onnx "onnx==$version"
echo "$sha256  $work/onnx-$version.tar.gz" | sha256sum --check --quiet
tar -xzf "$work/onnx-$version.tar.gz" -C "$work"
# Debian 12 has CMake 3.25, ONNX asks for 3.26 and uses nothing of it.
sed -i 's/cmake_minimum_required(VERSION 3.26)/cmake_minimum_required(VERSION 3.25)/' "$work/onnx-$version/CMakeLists.txt"
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# Many files at a time and with few optimisations: a third of the time. The library reads a model once; its schemas are tables.
cmake -S "$work/onnx-$version" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DONNX_USE_UNITY_BUILD=ON -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_C_COMPILER=clang-22 \
  "${launcher[@]}" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_STANDARD=20 -DONNX_ML=ON -DONNX_USE_PROTOBUF_SHARED_LIBS=ON -DONNX_BUILD_PYTHON=OFF \
  -DONNX_BUILD_TESTS=OFF -DONNX_GEN_PB_TYPE_STUBS=OFF -DONNX_INSTALL=ON -DFETCHCONTENT_FULLY_DISCONNECTED=ON \
  -DPython3_EXECUTABLE="$work/venv/bin/python" -DCMAKE_INSTALL_PREFIX="$prefix" >"$work/log" 2>&1 &&
  cmake --build "$work/build" >>"$work/log" 2>&1 && cmake --install "$work/build" >>"$work/log" 2>&1 ||
  { tail -40 "$work/log"; echo "setup: ONNX $version did not build"; exit 1; }
end_once
