#!/usr/bin/env bash
# In a root that holds the Debian packages, what they depend on and what they suggest, and nothing else, the guide that is installed leads to a plugin
# (debian_guide.py says what is done there). Files of other packages are links to this machine's; build/packages is made by cmake/package-debian.sh.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
packages=("$root"/build/packages/ztc-run_*.deb "$root"/build/packages/ztc_*.deb)
[ -f "${packages[1]}" ] || "$root/cmake/package-debian.sh"
packages=("$root"/build/packages/ztc-run_*.deb "$root"/build/packages/ztc_*.deb)
clean=$(mktemp -d -p "$root/build")
trap 'rm -rf "$clean"' EXIT
wanted=$(for package in "${packages[@]}"; do
  for field in Depends Suggests; do dpkg-deb -f "$package" $field; done
done | tr ',|' '\n\n' | sed 's/(.*//; s/ //g' | grep -vx 'ztc-run' | sort -u)
essential=$(dpkg-query -W -f '${Essential} ${Package}\n' | grep '^yes' | cut -d' ' -f2) # which no package names
# shellcheck disable=SC2086
closure=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances --installed $wanted $essential |
  grep '^[a-z0-9]' | sort -u)
for package in $closure; do dpkg -L "$package" 2>/dev/null || true; done | sort -u >"$clean.files"
trap 'rm -rf "$clean" "$clean.files"' EXIT
mkdir -p "$clean/usr/bin" "$clean/usr/lib" "$clean/usr/lib64" "$clean/usr/sbin" "$clean"/{proc,dev,tmp,etc}
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$clean/$name"; done
while read -r file; do # what is a link or a file; the packages' /lib is /usr/lib here
  if [ -L "$file" ] || [ -f "$file" ]; then
    case $file in /bin/* | /lib/* | /lib64/* | /sbin/*) file=/usr$file ;; esac
    [ -L "$file" ] || [ -f "$file" ] || continue
    printf '%s\0' ".$file"
  fi
done <"$clean.files" >"$clean.links"
trap 'rm -rf "$clean" "$clean.files" "$clean.links"' EXIT
cd / # links where the file system allows it
xargs -0 cp -a --link --parents -t "$clean" <"$clean.links" 2>/dev/null || xargs -0 cp -a --parents -t "$clean" <"$clean.links"
# Programs that maintainer scripts make links to.
for name in /etc/alternatives /usr/bin/python3; do [ -e "$clean$name" ] || cp -a "$name" "$clean$name"; done
for package in "${packages[@]}"; do dpkg-deb -x "$package" "$clean.new" && cp -a "$clean.new/." "$clean" && rm -rf "$clean.new"; done
/sbin/ldconfig -r "$clean"
cp "$root/tests/long/debian_guide.py" "$clean/tmp/guide.py"
mkdir "$clean/tmp/model" && cp "$root"/tests/golden/grouped/{model.onnx*,golden.json,data.safetensors} "$clean/tmp/model"
unshare -rm bash -c 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec /usr/sbin/chroot "$0" /usr/bin/env -i PATH=/usr/bin HOME=/tmp /usr/bin/python3 /tmp/guide.py' "$clean"
echo "passed"
