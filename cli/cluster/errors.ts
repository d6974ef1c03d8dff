import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error catalog of creating, joining and reading a cluster: exit code, meaning and fix by code. */
export const clusterErrors = defineErrors({
  'cluster-no-node': fault.operator.usage(
    'No machine was named that is to become the first node.',
    'Name the address of the first machine: `cluster init --node ADDRESS`, or `firstNode.endpoint` in cluster.yaml.',
  ),
  'cluster-identity-not-granted': fault.operator.precondition(
    'This operator identity has a key but no grant: no owner has added the operator to a cluster, or the grant was not accepted yet.',
    'Send the request file that `cluster operator key NAME` wrote to an owner, who runs `cluster operator add NAME --role ROLE --request FILE --out GRANT`. Then run `cluster operator accept GRANT` here.',
  ),
  'cluster-ca-file-invalid': fault.operator.precondition(
    'The file with the CA of the cluster that this workspace trusts is damaged. Without it, the workspace would trust a CA that an owner has replaced.',
    'Restore the file from a copy of the workspace. As an operator, ask an owner for a new grant (`cluster operator add`) and accept it.',
  ),
  'cluster-variant-unknown': fault.operator.usage(
    'Unknown kind of evidence. Nothing was created.',
    'Use `tpm`, `machine-key`, or both separated by a comma. `cluster config schema` describes all kinds.',
  ),
  'cluster-variant-values': fault.operator.usage(
    'This kind of evidence needs reference values that only you know, such as minimum firmware versions and allowed processors. No configuration can be generated for it. Nothing was created.',
    'Generate the configuration with `--attestation tpm`, then edit `attestation` in cluster.yaml as described in docs/attestation.md and run `cluster config validate`.',
  ),
  'cluster-no-fingerprint': fault.operator.usage(
    'The fingerprint of the machine is not known, and there is no terminal at which you could confirm it.',
    'Read the fingerprint of the machine above the login prompt of its console or serial line, in `systemctl status bootstrapper`, or in /var/lib/cluster/machine/fingerprint. Then pass it: `cluster init --fingerprint sha256:…`, or `firstNode.fingerprint` in cluster.yaml.',
  ),
  'cluster-other-machine': fault.peer.refused(
    'The machine at this address is not the expected one: its fingerprint or its TPM differs. Another machine may answer at this address, perhaps of an attacker. Nothing secret was sent to it.',
    'Compare the fingerprint with the console of the machine. If the console shows the expected one, find out which machine answers at the address. To resume an interrupted init, use the machine that it was started with. If that machine was reinstalled, start again in a new workspace.',
  ),
  'cluster-evidence-unknown': fault.peer.refused(
    'The evidence of the machine is of a kind that cluster.yaml does not accept, or it contradicts itself.',
    'Compare `attestation` in cluster.yaml with the hardware of the machine. A machine that showed a TPM before must show it again.',
  ),
  'cluster-owner-refused': fault.operator.refused(
    'The machine does not know the owner key of this workspace and refused the connection.',
    'Use the workspace whose owner key is in /etc/cluster/provisioning.json on the machine, or add the owner key of this workspace there.',
  ),
  'cluster-unreachable': retryable.peer.unreachable(
    'The machine could not be reached within the time limit. If an init runs on the machine, the init continues.',
    'Check that the machine is running, that its address is still correct (`--node` sets a new one) and that no firewall blocks the port. On a new machine, check that /etc/cluster/provisioning.json exists: without it the agent does not start.',
  ),
  'cluster-machine-taken': fault.operator.precondition(
    'The machine belongs to a different cluster than this workspace. Nothing was changed.',
    'Use the workspace of the cluster that the error names; there, `cluster node reset NODE` releases the machine. If that cluster no longer exists, reset the machine as root on the machine itself (see `cluster node reset --help`).',
  ),
  'cluster-machine-is-node': fault.operator.precondition(
    'The machine is a node of a cluster already: it has closed its init port, and its kubelet responds. Nothing was changed.',
    'To use that cluster, run the command in its workspace. To create another cluster on the machine, release it first: `cluster node reset NODE` there, or as root on the machine (see `cluster node reset --help`).',
  ),
  'cluster-init-port-closed': retryable.peer.unreachable(
    'Nothing listens at the init port of the machine. The agent opens this port only while the machine belongs to no cluster.',
    'Copy the output of `cluster provisioning generate` to /etc/cluster/provisioning.json on the machine, if that file is missing, and run `systemctl restart bootstrapper` there: without the file the agent does not start. If the machine is a node already, this is expected: run `cluster preflight` without --node on the machine itself. In every other case `systemctl status bootstrapper` on the machine shows why the agent does not run.',
  ),
  'cluster-clocks-differ': retryable.operator.clock(
    'The clocks of the machine and of this workstation differ by more than five minutes, so certificates issued by one would not be valid on the other. Nothing was changed.',
    'Correct the clock that is wrong (`timedatectl set-ntp true`, or `timedatectl set-time`), then run the same command again.',
  ),
  'cluster-config-exists': fault.operator.precondition(
    'The workspace has a cluster.yaml, which `cluster config generate` does not change, and the flags ask for different values.',
    'Edit cluster.yaml, or run the command in another workspace (--workspace DIRECTORY), or leave out the flags that the message names.',
  ),
  'cluster-config-changed': fault.operator.precondition(
    'An init is in progress on the machine, and cluster.yaml has changed since it started.',
    'Restore cluster.yaml to its contents when the init started (charts and the address of the node may differ) and run the same command again; change settings once the cluster runs. To start over, reset the machine as root on the machine itself (see `cluster node reset --help`).',
  ),
  'cluster-bundle-missing': fault.operator.preflight(
    'The component bundle of this Kubernetes version is missing on this workstation, or incomplete.',
    'Run `cluster bundle build` or `cluster bundle fetch` for the Kubernetes version and architecture that the error names.',
  ),
  'cluster-machine-unfit': retryable.operator.preflight(
    'The machine failed a check that this version of the program does not know. Nothing was changed.',
    'Fix the problem that the machine reports, or upgrade this program to the version of the agent.',
  ),
  'cluster-node-disk-full': retryable.system.diskFull(
    'The disk of the machine has not enough free space for the missing components. Nothing was changed.',
    'Free the required space below /var/lib/cluster on the machine.',
  ),
  'cluster-init-failed': retryable.peer.partial(
    'A phase of the init failed on the machine. The error contains the machine’s own code and message.',
    'Fix the problem that the machine reports, then run the same command again to resume the init.',
  ),
  'cluster-result-invalid': fault.peer.refused(
    'The machine returned a result that does not match the request. The result was discarded.',
    'Treat the machine as compromised and check the log of its bootstrapper.service.',
  ),
  'cluster-not-initialized': fault.operator.precondition(
    'The workspace has no cluster yet.',
    'Run `cluster init` first.',
  ),
  'cluster-no-kubeconfig': fault.operator.precondition(
    'The workspace has no kubeconfig, which this command needs to use the Kubernetes API. Nothing was changed.',
    'Run `cluster kubeconfig --renew`. If your grant lacks the required data, ask an owner to run `cluster operator add` for you again with the same request, and accept the new grant.',
  ),
  'cluster-quorum-lost': retryable.peer.unhealthy(
    'Control planes respond, but none has an etcd quorum: too few voting members are available to read or write.',
    'Start the other control planes, then run the command again. If they are permanently lost, run `cluster recover quorum` as root on a control plane that survived.',
  ),
  'cluster-curator-unreachable': retryable.peer.unreachable(
    'No curator of the cluster responded.',
    'Check that a control-plane node is running and that its port 9091 can be reached from this workstation.',
  ),
  'cluster-join-no-agent': retryable.operator.precondition(
    'The agent of this machine does not respond, or this user may not use it.',
    'Run the command as root on a machine whose bootstrapper.service is active. From a workstation, pass the machine with --node ADDRESS.',
  ),
  'cluster-join-node-unreachable': retryable.peer.unreachable(
    'The machine does not respond on its init port, which it closes when it has joined a cluster.',
    'Check the address of the machine and that its bootstrapper.service is active. `cluster node ls` lists the machines that have joined.',
  ),
  'cluster-join-no-endpoint': fault.operator.usage(
    'No control-plane node was given, and this workspace has no cluster yet.',
    'Pass a control-plane node with --endpoint ADDRESS.',
  ),
  'cluster-join-wait-timeout': retryable.operator.unreachable(
    'The machine did not become a running node in time; the error contains its current stage. The join continues without this command.',
    'If the machine waits for approval, run `cluster node approve`. Run the same command again to continue waiting.',
  ),
});

/** An error about creating, joining and reading a cluster, with a code of the catalog. */
export class ClusterError extends errorClass(clusterErrors) {}
