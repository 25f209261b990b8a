#!/usr/bin/env bash
# Prepares a Debian 12 machine to build ztc: system packages, then the headers of cudnn-frontend, cuDNN for a test, the
# ONNX C++ library. Idempotent and quick when there is nothing to do. Options: --runtime-only leaves out LLVM, cuDNN, ONNX.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runtime_only=0
[ "${1:-}" = --runtime-only ] && runtime_only=1

runtime_packages=(clang-22 lld-22 libprotobuf-dev protobuf-compiler libgloo-dev nlohmann-json3-dev
  libcli11-dev libyaml-cpp-dev libtomlplusplus-dev libgtest-dev libgmock-dev libfmt-dev libpcre2-dev libutf8proc-dev cmake ninja-build ccache git ca-certificates
  python3 python3-venv python3-pip)
compiler_packages=(libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools liblld-22-dev clang-format-22
  clang-tidy-22 libclang-rt-22-dev fortunes openmpi-bin iproute2 cmark-gfm xz-utils)
packages=("${runtime_packages[@]}")
[ $runtime_only = 1 ] || packages+=("${compiler_packages[@]}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
"$here/get-cudnn-frontend.sh" || echo "setup: without cudnn-frontend; attention on GPUs will not go through cuDNN"
[ $runtime_only = 1 ] || "$here/build-onnx.sh"
