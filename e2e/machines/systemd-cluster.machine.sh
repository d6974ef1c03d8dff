#!/bin/bash
# Runs inside the machine of systemd-cluster.story.ts and says what it sees: one "FACT NAME VALUE" a line.
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec > >(cat) 2>&1 # no terminal
cluster() { node /opt/story/cluster/main.mjs "$@"; }
fact() { echo "FACT $1 $2"; }
in_node() { cluster mini exec n1 -- "$@" 2> /dev/null; }
# Until it says something that fits, for as long as an emulated machine may need.
until_says() {
  local pattern=$1 answer=
  shift
  for _ in $(seq 300); do
    answer=$("$@" 2> /dev/null | tr '\n' ' ')
    if [[ $answer =~ $pattern ]]; then break; fi
    sleep 2
  done
  echo "$answer"
}
# "198.18.1.11:30080" spoken by bash: the virtual machine has no curl.
hello() { exec 3<> /dev/tcp/198.18.1.11/30080 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && timeout 5 tail -n 1 <&3; }
host_facts() {
  cut -d' ' -f5,9- /proc/self/mountinfo
  ip -br address
  nft list ruleset
  find /sys/fs/cgroup -name '*clustermini*'
  systemctl list-units --all --no-legend --plain '*clu[0-9]*' 'clustermini*'
  ls /run/cluster-mini /var/lib/cluster-mini 2>&1
  sysctl net.ipv4.ip_forward net.bridge vm.overcommit_memory kernel.panic
}
modprobe br_netfilter
fact cgroups "$(stat -fc %T /sys/fs/cgroup)"
fact pid1 "$(cat /proc/1/comm)"
host_facts > /tmp/before
# Emulated machines can miss a deadline that real ones do not; the same command goes on then.
for round in 1 2 3 4; do
  cluster mini up --demo --agent /opt/story/agent.deb
  status=$?
  fact up-round "$round: $status after $SECONDS s"
  [ "$status" = 0 ] && break
  in_node journalctl -u bootstrapper --no-pager -n 20
done
[ "$status" = 0 ] || in_node journalctl -u cluster-joinservice -u "cluster-etcd-*" -u kubelet --no-pager -n 40
fact up "$status"
fact node-cgroups "$(in_node stat -fc %T /sys/fs/cgroup)"
fact provisioning "$(in_node cat /etc/cluster/provisioning.json | tr -d '\n')"
fact nodes "$(in_node kubectl get nodes --no-headers | head -n 1)"
fact hello "$(until_says 'pod=hello-' hello)"
fact cgroup-driver "$(in_node kubectl get --raw /api/v1/nodes/n1/proxy/configz | grep -o '"cgroupDriver":"[^"]*"' | cut -d'"' -f4)"
fact pod-cgroups "$(in_node find /sys/fs/cgroup -type d -name 'kubepods*.slice' | tr '\n' ' ')"
# Emulated, a controller can lose its lease and start again; all of them run in the end.
unready() { in_node kubectl get pods -A --no-headers | grep -v ' Running ' || echo none; }
fact not-running "$(until_says '^none $' unready)"
in_node kubectl get pods -A
cluster mini down
fact down $?
host_facts > /tmp/after
diff /tmp/before /tmp/after
fact changed $?
fact done yes
sync
poweroff -f
