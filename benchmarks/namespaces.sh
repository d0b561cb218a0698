#!/usr/bin/env bash
# Ranks on separate hosts, as far as the network can tell: each in a network namespace of its own, joined by veth links
# and a bridge. Needs root and iproute2.   usage: namespaces.sh [ranks]   (PYTHON=... for another interpreter)
set -euo pipefail
n=${1:-3}
python=${PYTHON:-python3}
mpiexec=$(dirname "$(command -v "$python")")/mpiexec
[ -x "$mpiexec" ] || mpiexec=$(command -v mpiexec)
tag=sl$$
work=$(mktemp -d)
clean() {
    for i in $(seq 1 "$n"); do
        ip netns pids "$tag-$i" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns del "$tag-$i" 2>/dev/null || true
    done
    ip link del "$tag" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

ip link add "$tag" type bridge
ip addr add 10.213.7.254/24 dev "$tag"
ip link set "$tag" up
for i in $(seq 1 "$n"); do
    ip netns add "$tag-$i"
    ip link add "$tag-v$i" type veth peer name eth0 netns "$tag-$i"
    ip link set "$tag-v$i" master "$tag" up
    ip netns exec "$tag-$i" ip addr add "10.213.7.$i/24" dev eth0
    ip netns exec "$tag-$i" ip link set eth0 up
    ip netns exec "$tag-$i" ip link set lo up
done

# what MPI's launcher uses in place of ssh: the host's last number is the namespace
cat >"$work/remote" <<REMOTE
#!/usr/bin/env bash
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1; shift
exec ip netns exec "$tag-\${host##*.}" bash -c "\$*"
REMOTE
chmod +x "$work/remote"

"$python" - "$work" <<'PYTHON'
import sys
from pathlib import Path
from sparseleaf.data import make_xc, save_xc
X, Y = make_xc(2_000, 60, 100)
for i in range(8):
    save_xc(Path(sys.argv[1]) / f"part-{i}.txt", X[i * 250 : (i + 1) * 250], Y[i * 250 : (i + 1) * 250])
PYTHON
settings=(-q -j 1 -s n_trees=5 -s projection=none)
"$python" -m sparseleaf train "$work"/part-*.txt -m "$work/alone" "${settings[@]}"
hosts=$(seq -s, -f "10.213.7.%g" 1 "$n")
for layout in rows features; do
    FI_PROVIDER=tcp "$mpiexec" -launcher ssh -launcher-exec "$work/remote" -iface "$tag" -hosts "$hosts" -n "$n" -ppn 1 \
        "$python" -m sparseleaf train "$work"/part-*.txt -m "$work/model" "${settings[@]}" --engine mpi --layout "$layout"
    cmp "$work/alone" "$work/model"
    echo "by $layout, $n ranks in $n network namespaces: the same model"
done
