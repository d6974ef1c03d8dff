// The two shell scripts of local nodes. They are text in the code, because the CLI is shipped as a bundle without other files. Each
// cluster has its own copy.

/**
 * Starts a program in its cgroups and with its mounts, so that no child process runs outside of them.
 *   -l FILE            stdout and stderr go to the end of FILE
 *   -c CGROUP          join this cgroup, created if needed; may be repeated
 *   -m OPTIONS TARGET  mount an overlay, in the mount namespace of the caller
 */
export const launchScript = `#!/bin/sh
set -eu
join() {
  mkdir -p "$1"
  if [ -e "$1/cgroup.clone_children" ]; then
    # cgroup v1: a new cpuset has no processors and takes no process
    for directory in "\${1%/*}" "$1"; do
      for file in cpuset.cpus cpuset.mems; do
        if [ -e "$directory/$file" ] && [ -z "$(cat "$directory/$file")" ]; then cat "$directory/../$file" > "$directory/$file"; fi
      done
    done
  fi
  echo $$ > "$1/cgroup.procs"
}
while [ "$1" != -- ]; do
  case $1 in
    -l) exec >> "$2" 2>&1; shift 2 ;;
    -c) join "$2"; shift 2 ;;
    -m) mount -t overlay overlay -o "$2" "$3"; shift 3 ;;
    *) echo "launch: unknown option $1" >&2; exit 2 ;;
  esac
done
shift
exec "$@"
`;

/**
 * Process 1 of a node until it executes systemd. Mounts or creates the files that the kubelet needs and that
 * systemd-nspawn leaves read-only or missing.
 */
export const nodeInitScript = `#!/bin/sh
set -eu
# 1. cgroup v1 controllers come read-only, and "remount,rw" is refused (EBUSY) once a hierarchy has
#    children; a fresh mount inside the cgroup namespace is writable and shows this node alone.
cp /proc/self/mounts /run/mounts-at-start
while read -r _ point type options _; do
  [ "$type" = cgroup ] || continue
  controllers=
  named=
  for option in $(echo "$options" | tr , ' '); do
    case $option in
      ro|rw|nosuid|nodev|noexec|relatime|seclabel|xattr|clone_children|release_agent=*) ;;
      name=*) named=yes ;;
      *) controllers="$controllers,$option" ;;
    esac
  done
  [ -z "$named" ] || continue
  umount "$point"
  mount -t cgroup -o "rw,nosuid,nodev,noexec$controllers" cgroup "$point"
done < /run/mounts-at-start
# 2. Kubernetes shares mounts with pods; systemd does not do this inside a container.
mount --make-rshared /
# 3. The kubelet's watcher for out-of-memory kills opens it.
[ -e /dev/kmsg ] || mknod -m 600 /dev/kmsg c 1 11
# 4. Files of /proc that belong to the whole host (kernel tunables, swap): the node sees and changes
#    a copy of its own, the host's stay as they are.
cd /usr/lib/cluster-mini/proc
find . -type f | while read -r file; do
  mkdir -p "/run/cluster-mini/proc/\${file%/*}"
  cp "$file" "/run/cluster-mini/proc/$file"
  mount --bind "/run/cluster-mini/proc/$file" "/proc/$file"
done
cd /
exec /lib/systemd/systemd
`;

/**
 * The kernel parameters that the kubelet sets. Each node gets its own files with these values, so that the kubelet does
 * not change the parameters of the host.
 */
export const kubeletTunables: Readonly<Record<string, string>> = {
  'sys/vm/overcommit_memory': '1\n',
  'sys/vm/panic_on_oom': '0\n',
  'sys/kernel/panic': '10\n',
  'sys/kernel/panic_on_oops': '1\n',
  'sys/kernel/keys/root_maxkeys': '1000000\n',
  'sys/kernel/keys/root_maxbytes': '25000000\n',
};
