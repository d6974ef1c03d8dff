#!/bin/bash
# Runs inside the machine of systemd-host.story.ts and says what it sees: one "FACT NAME VALUE" a line.
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec > >(cat) 2>&1 # no terminal
cluster() { node /opt/story/cluster/main.mjs "$@"; }
up() { cluster mini up --nodes-only --agent /opt/story/agent.deb --name "$1"; }
fact() { echo "FACT $1 $2"; }
code() { local name=$1; shift; "$@"; fact "$name" $?; }
in_node() { cluster mini exec --name one n1 -- "$@" 2> /dev/null; }
host_facts() {
  cut -d' ' -f5,9- /proc/self/mountinfo
  ip -br address
  nft list ruleset
  find /sys/fs/cgroup -name '*clustermini*'
  systemctl list-units --all --no-legend --plain '*clu[0-9]*' 'clustermini*'
  ls /run/cluster-mini /var/lib/cluster-mini 2>&1
  sysctl net.ipv4.ip_forward net.bridge vm.overcommit_memory kernel.panic
}
fact cgroups "$(stat -fc %T /sys/fs/cgroup)"
fact pid1 "$(cat /proc/1/comm)"
code preflight-before cluster mini preflight
modprobe br_netfilter
code preflight-after cluster mini preflight
host_facts > /tmp/before
code up-one up one
code up-two up two
fact state "$(in_node systemctl is-system-running --wait)"
fact controllers "$(in_node cat /sys/fs/cgroup/cgroup.controllers)"
fact writable "$(in_node sh -c 'mkdir /sys/fs/cgroup/probe && rmdir /sys/fs/cgroup/probe && echo yes')"
fact provisioning "$(in_node cat /etc/cluster/provisioning.json | tr -d '\n')"
fact scope "$(systemctl show --property=ActiveState --value clu1-n1.scope)"
code stop cluster mini stop --name one n1
code start cluster mini start --name one n1
code cut cluster mini stop --power-cut --name one n1
code start-again cluster mini start --name one n1
fact state-again "$(in_node systemctl is-system-running --wait)"
up torn &
sleep 10
pkill -KILL -f 'name torn'
for name in torn one two; do code "down-$name" cluster mini down --name "$name"; done
host_facts > /tmp/after
diff /tmp/before /tmp/after
fact changed $?
fact done yes
sync
poweroff -f
