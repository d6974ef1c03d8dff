import { defineErrors, errorClass, retryable } from '../errors/index.ts';

const again = 'then run the same command again.';

/** One error for each check. */
export const preflightErrors = defineErrors({
  'preflight-provisioning': retryable.operator.usage(
    'The provisioning file of this machine is invalid. Nothing was changed.',
    'Correct the key named in the message in /etc/cluster/provisioning.json. `cluster provisioning validate` checks the file, and docs/provisioning.md describes every key.',
  ),
  'preflight-tpm': retryable.operator.precondition(
    'The TPM of the provisioning file does not exist or does not respond.',
    'Enable the TPM in the firmware setup (or give the virtual machine one); for a machine without a TPM write `"tpm": {"kind": "none"}` in /etc/cluster/provisioning.json.',
  ),
  'preflight-swap': retryable.operator.swap(
    'Swap is enabled, and the kubelet does not start with swap. Nothing was changed.',
    `Disable swap with \`swapoff -a\` and remove it from /etc/fstab, ${again}`,
  ),
  'preflight-port': retryable.operator.port(
    'A required port of this machine is in use. Nothing was changed.',
    `Find the program that listens on the port with \`ss -ltnp\` and stop it, ${again}`,
  ),
  'preflight-address': retryable.operator.address(
    'The machine has no address that other machines can reach, or does not have the configured address.',
    'Configure a fixed address (or repair DHCP), or correct `address` in /etc/cluster/provisioning.json and restart bootstrapper.service; then run the same command again.',
  ),
  'preflight-address-family': retryable.operator.address(
    'The networks of the cluster have an IP family (IPv4 or IPv6) of which this machine has no address, or the address of this machine is not of the first family.',
    'Give the machine an address of the missing family, on the same interface as its other address. If the first networks are IPv6, also write the IPv6 address as `address` into /etc/cluster/provisioning.json and restart bootstrapper.service. Or create the cluster with networks of one family (`networking` in cluster.yaml).',
  ),
  'preflight-address-changed': retryable.operator.addressChanged(
    'The machine no longer has the address in the certificates and the etcd membership of this node. Nothing was changed.',
    'Configure the old address again (fixed, or reserved at the DHCP server): the node then continues by itself, and an init continues with the same command.',
  ),
  'preflight-hostname': retryable.operator.hostname(
    'The name of the node is not usable: it resolves to another machine, or is not unique.',
    'Correct the DNS record or /etc/hosts, or give the node another name (`hostnamectl set-hostname NAME`, or `firstNode.name` in cluster.yaml), then run the same command again.',
  ),
  'preflight-dns': retryable.operator.preflight(
    'Pods cannot use the DNS configuration of this machine. The cluster works nevertheless.',
    'Configure one to three DNS servers in /etc/resolv.conf that are not on the loopback address.',
  ),
  'preflight-disk': retryable.operator.diskFull(
    'Not enough disk space for the components of the cluster. Nothing was changed.',
    `Free space on the file system named in the message, ${again}`,
  ),
  'preflight-read-only': retryable.operator.readOnly(
    'A directory that a node writes to is not writable. The kernel makes a file system read-only after an error of its disk.',
    `Look for errors of the disk in the kernel log (\`dmesg\`), replace a disk that has them, repair the file system with \`fsck\` and mount it writable, ${again}`,
  ),
  'preflight-kernel': retryable.operator.preflight(
    'The kernel of this machine is too old for Kubernetes. Nothing was changed.',
    `Boot a newer kernel, ${again}`,
  ),
  'preflight-module': retryable.operator.preflight(
    'A required kernel module is not loaded. Nothing was changed.',
    'Run `modprobe MODULE`, or `cluster preflight --fix` on the machine. The package cluster-agent loads the module at each boot.',
  ),
  'preflight-wireguard': retryable.operator.preflight(
    'The kernel of this machine has no WireGuard, with which the cluster encrypts packets of pods between nodes (`networking.backend`).',
    `Boot a kernel with WireGuard (the module wireguard, since Linux 5.6; the kernels of Debian, Fedora and Ubuntu have it), ${again} The kernel of a machine in a container is that of its host: run \`modprobe wireguard\` there. Without WireGuard, create the cluster with \`networking.backend: vxlan\`, which encrypts nothing.`,
  ),
  'preflight-sysctl': retryable.operator.preflight(
    'A kernel parameter does not have the required value. Nothing was changed.',
    'Run `sysctl -w KEY=VALUE`, or `cluster preflight --fix` on the machine. The package cluster-agent sets the parameter at each boot: if it has changed, remove it from the other files in /etc/sysctl.d.',
  ),
  'preflight-cgroup': retryable.operator.preflight(
    'The kubelet does not support the cgroup version or controllers of this machine. Nothing was changed.',
    'Boot with cgroup v2: `systemd.unified_cgroup_hierarchy=1` on the kernel command line. Only a local machine (`cluster mini`) may run with cgroup v1.',
  ),
  'preflight-clock': retryable.operator.clock(
    'The clock of this machine is wrong: other machines would reject its certificates.',
    `Start a time service (systemd-timesyncd or chrony) and wait until the clock is synchronized, ${again}`,
  ),
  'preflight-size': retryable.operator.preflight(
    'The machine has less memory or fewer processors than a control plane needs. The machine is sufficient for a worker.',
    'Add memory or processors, or use the machine as a worker.',
  ),
  'preflight-program': retryable.operator.preflight(
    'A program that Kubernetes needs on every node is not installed.',
    `Install the package named in the message, ${again}`,
  ),
});

/** The fix of a check, for somebody who has run no command that could be run again. */
export function fixOf(code: PreflightErrorCode): string {
  return preflightErrors[code].fix.replace(`, ${again}`, '.');
}

/** A code of this directory. */
export type PreflightErrorCode = keyof typeof preflightErrors;

/** A check has failed before anything was changed. */
export class PreflightError extends errorClass(preflightErrors) {}
