import { defineErrors, errorClass } from '../errors/index.ts';

const common = { fault: 'operator', retryable: true } as const;
const again = 'then run the same command again.';

export const preflightErrors = defineErrors({
  'preflight-provisioning': {
    ...common,
    exit: 'usage',
    meaning: 'The agent of this machine would refuse its provisioning file. Nothing was changed.',
    fix: 'Correct /etc/cluster/provisioning.json at the place named in the message (`cluster provisioning validate` checks it, docs/provisioning.md describes every key).',
  },
  'preflight-tpm': {
    ...common,
    exit: 'precondition',
    meaning: 'The provisioning names a TPM that this machine does not have, or that does not answer.',
    fix: 'Enable the TPM in the firmware setup (or give the virtual machine one); for a machine without a TPM write `"tpm": {"kind": "none"}` in /etc/cluster/provisioning.json.',
  },
  'preflight-swap': {
    ...common,
    exit: 'swap',
    meaning: 'Swap is on, and the kubelet does not start with it. Nothing was changed.',
    fix: `Turn it off with \`swapoff -a\` and take it out of /etc/fstab, ${again}`,
  },
  'preflight-port': {
    ...common,
    exit: 'port',
    meaning: 'A port that the cluster needs is in use on this machine. Nothing was changed.',
    fix: `Stop the program that listens there (\`ss -ltnp\` names it), ${again}`,
  },
  'preflight-address': {
    ...common,
    exit: 'address',
    meaning:
      'The machine has no address that other machines could use, or not the one it is configured with.',
    fix: 'Give the machine a fixed address (or see why DHCP gives it none), or correct `address` in /etc/cluster/provisioning.json and restart bootstrapper.service; then run the same command again.',
  },
  'preflight-address-changed': {
    ...common,
    exit: 'addressChanged',
    meaning:
      'The machine no longer has the address that etcd and the certificates of this node were made for. Nothing of them was changed.',
    fix: 'Give the machine its address back (a fixed one, or a reservation for it at the DHCP server): it goes on by itself; an init goes on with the same command.',
  },
  'preflight-hostname': {
    ...common,
    exit: 'hostname',
    meaning:
      'The name of the node cannot be used: another machine answers to it, or it is not a name of this machine alone.',
    fix: 'Correct the DNS record or /etc/hosts, or give the node another name (`hostnamectl set-hostname NAME`, or `firstNode.name` in cluster.yaml), then run the same command again.',
  },
  'preflight-dns': {
    ...common,
    exit: 'preflight',
    meaning: 'The resolver configuration of this machine is of no use to pods. The cluster works without it.',
    fix: 'Name at most three DNS servers in /etc/resolv.conf that other machines can reach too.',
  },
  'preflight-disk': {
    ...common,
    exit: 'diskFull',
    meaning: 'There is too little disk space for the cluster’s components. Nothing was changed.',
    fix: `Free space on the file system named in the message, ${again}`,
  },
  'preflight-read-only': {
    ...common,
    exit: 'readOnly',
    meaning: 'A directory that the cluster must write to cannot be written. Nothing was changed.',
    fix: 'Look for disk errors in the kernel log and remount the file system writable, then run the same command again.',
  },
  'preflight-kernel': {
    ...common,
    exit: 'preflight',
    meaning: 'The kernel of this machine is older than Kubernetes supports. Nothing was changed.',
    fix: `Boot a newer kernel, ${again}`,
  },
  'preflight-module': {
    ...common,
    exit: 'preflight',
    meaning: 'A kernel module that Kubernetes needs is not loaded. Nothing was changed.',
    fix: 'Load it with `modprobe MODULE`, or run `cluster preflight --fix` on the machine. The package cluster-agent loads it at each boot.',
  },
  'preflight-sysctl': {
    ...common,
    exit: 'preflight',
    meaning: 'A kernel parameter does not have the value that Kubernetes needs. Nothing was changed.',
    fix: 'Set it with `sysctl -w KEY=VALUE`, or run `cluster preflight --fix` on the machine. The package cluster-agent sets it at each boot; look for another file in /etc/sysctl.d that takes it back.',
  },
  'preflight-cgroup': {
    ...common,
    exit: 'preflight',
    meaning: 'The control groups of this machine are not as the kubelet needs them. Nothing was changed.',
    fix: 'Boot with cgroup v2 (`systemd.unified_cgroup_hierarchy=1` on the kernel command line), or, for as long as you must keep cgroup v1, set `kubelet.failCgroupV1` to false in /etc/cluster/provisioning.json.',
  },
  'preflight-clock': {
    ...common,
    exit: 'clock',
    meaning: 'The clock of this machine is wrong, so that certificates made here are not valid elsewhere.',
    fix: 'Start a time service (systemd-timesyncd or chrony) and wait until it has set the clock, then run the same command again.',
  },
  'preflight-size': {
    ...common,
    exit: 'preflight',
    meaning:
      'The machine has less memory or fewer processors than a control plane needs. A worker may be smaller.',
    fix: 'Give the machine more, or use it as a worker only.',
  },
  'preflight-program': {
    ...common,
    exit: 'preflight',
    meaning: 'A program that Kubernetes needs on every node is not on this machine.',
    fix: `Install the package named in the message, ${again}`,
  },
});

export type PreflightErrorCode = keyof typeof preflightErrors;

export class PreflightError extends errorClass(preflightErrors) {}
