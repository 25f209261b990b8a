#!/usr/bin/env bash
# AVX-512 on a processor that lacks it: a Linux in Bochs, which emulates one that has it, runs the matrix products' tests and trains a model with either
# instruction set: the same bits, and nothing large is allocated that the planner does not know. ZTC_BOCHS is the program of Bochs 3, built with
# --enable-x86-64 --enable-avx --enable-evex --with-nogui (Debian's has no AVX). Needs Debian's bochsbios, vgabios, isolinux, syslinux-common, genisoimage,
# busybox-static, and the network for a kernel (70 MB); five minutes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=${ZTC_BIN:-$root/build/bin}
for tool in "${ZTC_BOCHS:-bochs-with-avx512}" genisoimage busybox cc; do
  command -v "$tool" >/dev/null || { echo "left out: $tool is not installed"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
mkdir download && (cd download && apt-get download -q "$kernel" >/dev/null)
dpkg-deb -x download/*.deb kernel

# What runs there: the tests and a plan, each program with its libraries.
guest=$work/guest
mkdir -p "$guest"/{bin,proc,dev,tmp}
cp "$(command -v busybox)" "$guest/bin/busybox"
for name in sh cat grep mount sleep tail; do ln -s busybox "$guest/bin/$name"; done
with_libraries() {
  ldd "$1" | grep -oE '/[^ ]+' | while read -r library; do
    mkdir -p "$guest$(dirname "$library")"
    cp -Ln "$library" "$guest$library"
  done
}
for program in ztc-run ztc-runtime-tests; do
  install -s "$bin/$program" "$guest/bin/$program"
  with_libraries "$bin/$program"
done
model=$root/tests/golden/grouped
mkdir -p "$guest$model"
cp "$model"/* "$guest$model/"
for precision in fp32 bf16; do
  "$bin/ztc" compile "$model/model.onnx" --batch=2 --seq=16 --precision=$precision -o "$guest/$precision.plan"
done
python3 - "$root/tests/e2e/run-memory.py" >shim.c <<'PYTHON' # the counter of large allocations
import re, sys
print(re.search(r'SHIM = r"""(.*?)"""', open(sys.argv[1]).read(), re.S)[1])
PYTHON
cc -shared -fPIC -O1 -o "$guest/shim.so" shim.c -ldl
cat >"$guest/init" <<INIT
#!/bin/busybox sh
export PATH=/bin
mount -t proc none /proc; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
exec >/dev/ttyS0 2>&1
grep -qm1 avx512f /proc/cpuinfo && echo "has AVX-512"
ztc-runtime-tests --gtest_brief=1 --gtest_filter='Sgemm.*:GemmConformance.*:ProductTest.*:-*Threads*' | tail -n 2
for precision in fp32 bf16; do
  for set in x86-64-v3 x86-64-v4; do
    LD_PRELOAD=/shim.so SHIM_OUT=/tmp/shim ztc-run /\$precision.plan --data=$model/data.safetensors --device=cpu --threads=1 --steps=6 --no-save \\
      --instruction-set=\$set --log-json=/tmp/\$precision.\$set >/tmp/said || cat /tmp/said
    echo "\$precision \$set allocations \$(cat /tmp/shim)"
    echo "\$precision \$set bits" \$(grep '"step"' /tmp/\$precision.\$set | grep -oE '"(loss|grad_norm)": [0-9.e+-]+')
  done
done
echo "guest done"
sleep 1
/bin/busybox poweroff -f
INIT
chmod +x "$guest/init"

mkdir -p iso/isolinux
cp kernel/boot/vmlinuz-* iso/vmlinuz
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 iso/isolinux/
(cd "$guest" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -6) >iso/initrd.gz
cat >iso/isolinux/isolinux.cfg <<'CONFIG'
default linux
prompt 0
label linux
kernel /vmlinuz
append initrd=/initrd.gz console=ttyS0 lpj=1000000 mitigations=off nosmp noapic nolapic acpi=off nokaslr tsc=reliable quiet
CONFIG
genisoimage -quiet -o boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table iso
cat >bochsrc <<CONFIG
config_interface: textconfig
display_library: nogui
megs: 1024
cpu: model=corei7_skylake_x, count=1, ips=100000000, reset_on_triple_fault=0
romimage: file=/usr/share/bochs/BIOS-bochs-legacy
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
log: $work/log
panic: action=fatal
error: action=ignore
info: action=ignore
CONFIG
"$ZTC_BOCHS" -q -f bochsrc >screen 2>&1 </dev/null &
emulator=$!
trap 'kill $emulator 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 360); do # an hour at most
  sleep 10
  if grep -q 'guest done' serial 2>/dev/null; then break; fi
  kill -0 $emulator 2>/dev/null || break
done

failures=0
said() { grep -a "^$1" serial | tr -d '\r'; }
check() { if [ "$2" = "$3" ]; then echo "ok   $1"; else echo "FAIL $1: '$2', expected '$3'"; failures=$((failures + 1)); fi; }
check "the emulated processor" "$(said 'has AVX-512')" "has AVX-512"
check "products" "$(said '\[  PASSED' | grep -c PASSED)" 1
for precision in fp32 bf16; do
  for set in x86-64-v3 x86-64-v4; do
    check "$precision, $set: no allocation above 64 KiB after the first step" "$(said "$precision $set allocations")" "$precision $set allocations 0 0"
  done
  narrow=$(said "$precision x86-64-v3 bits") wide=$(said "$precision x86-64-v4 bits")
  check "$precision: the bits of both instruction sets" "${wide#* * }" "${narrow#* * }"
  check "$precision: six steps" "$(grep -o loss <<<"$wide" | wc -l)" 6
done
echo "$failures failures"
[ $failures = 0 ]
