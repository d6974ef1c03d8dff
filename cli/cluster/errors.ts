import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const clusterErrors = defineErrors({
  'cluster-no-node': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'It was not said which machine is to become the first node.',
    fix: 'Name its address: `cluster init --node ADDRESS`, or `firstNode.endpoint` in cluster.yaml.',
  },
  'cluster-identity-not-granted': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'This operator identity has a key, but no grant: no owner has added it to a cluster, or their answer was not taken yet.',
    fix: 'Give the request that `cluster operator key NAME` wrote to an owner, who runs `cluster operator add NAME --role ROLE --request FILE --out GRANT`; then run `cluster operator accept GRANT` here.',
  },
  'cluster-variant-unknown': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'There is no such kind of evidence. Nothing was made.',
    fix: 'Name `tpm`, `machine-key` or both with a comma; `cluster config schema` describes all kinds.',
  },
  'cluster-variant-values': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning:
      'This kind of evidence is judged by values that only you know (minimum versions of firmware, allowed processors), so that no configuration can be made up for it. Nothing was made.',
    fix: 'Generate with `--attestation tpm`, then write `attestation` of cluster.yaml after docs/attestation.md and run `cluster config validate`.',
  },
  'cluster-no-fingerprint': {
    fault: 'operator',
    exit: 'usage',
    retryable: false,
    meaning: 'It was not said which machine is expected at the address, and nobody could be asked.',
    fix: 'Read the fingerprint of the machine (above the login prompt of its console or serial line; `systemctl status bootstrapper` and /var/lib/cluster/machine/fingerprint have it too) and name it: `cluster init --fingerprint sha256:…`, or `firstNode.fingerprint` in cluster.yaml.',
  },
  'cluster-other-machine': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning: 'Another machine answers than the one whose fingerprint is known. Nothing was sent to it.',
    fix: 'Compare with the fingerprint on the console of the machine. If an init is under way, find the machine it was begun with; if the machine was set up anew, begin anew in a new workspace.',
  },
  'cluster-evidence-unknown': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'The machine shows no evidence that the configuration can judge, or evidence that contradicts itself.',
    fix: 'Compare `attestation` in cluster.yaml with what the machine has; a machine that showed a TPM once cannot come back without it.',
  },
  'cluster-owner-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: 'The machine refused the evidence of our owner key: it does not know it.',
    fix: 'Use the workspace whose owner key is in /etc/cluster/provisioning.json of the machine, or add this key there.',
  },
  'cluster-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'The machine could not be reached for so long that this program gave up. A job on it goes on.',
    fix: 'Check that the machine runs, that its address is still the same (`--node` names a new one) and that nothing filters the port.',
  },
  'cluster-machine-taken': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The machine belongs to another cluster than the one of this workspace. Nothing was changed.',
    fix: 'Use the workspace of the cluster named in the message: in that one, `cluster node reset NODE` frees the machine. If that cluster is no more, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'cluster-clocks-differ': {
    fault: 'operator',
    exit: 'clock',
    retryable: true,
    meaning:
      'The clocks of the machine and of this workstation are more than five minutes apart: certificates that one makes would not be valid at the other. Nothing was changed.',
    fix: 'See which of the two times in the message is wrong and set that clock (`timedatectl set-ntp true`, or `timedatectl set-time`), then run the same command again.',
  },
  'cluster-config-changed': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'An init is under way on the machine, and cluster.yaml has changed since it began.',
    fix: 'Put cluster.yaml back as it was when the init began (charts and the address of the node may differ) and run the same command again; settings of a running cluster are changed in place. To begin anew instead, make the machine fresh as root on it (`cluster node reset --help` shows how).',
  },
  'cluster-bundle-missing': {
    fault: 'operator',
    exit: 'preflight',
    retryable: false,
    meaning:
      'The bundle with the components of this Kubernetes version is not on this machine, or not complete.',
    fix: 'Run `cluster bundle build` (or `cluster bundle fetch`) for the version and architecture in the message.',
  },
  'cluster-machine-unfit': {
    fault: 'operator',
    exit: 'preflight',
    retryable: true,
    meaning: 'A check of the machine failed that this program does not know. Nothing was changed.',
    fix: 'Remove the cause that the machine names, or update this program to the version of the agent.',
  },
  'cluster-node-disk-full': {
    fault: 'system',
    exit: 'diskFull',
    retryable: true,
    meaning: 'The machine has no room for the components that it lacks. Nothing was changed on it.',
    fix: 'Free the space named in the message below /var/lib/cluster on the machine.',
  },
  'cluster-init-failed': {
    fault: 'peer',
    exit: 'partial',
    retryable: true,
    meaning: 'A phase of the init failed on the machine; its own code and message are in the text.',
    fix: 'Remove the cause that the machine names, then run the same command again: it goes on from there.',
  },
  'cluster-result-invalid': {
    fault: 'peer',
    exit: 'refused',
    retryable: false,
    meaning:
      'What the machine sent as the result of the init does not fit what was asked for. It was not kept.',
    fix: 'Do not trust this machine; look at the log of its bootstrapper.service.',
  },
  'cluster-not-initialized': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning: 'The workspace has no cluster yet.',
    fix: 'Run `cluster init` first.',
  },
  'cluster-no-kubeconfig': {
    fault: 'operator',
    exit: 'precondition',
    retryable: false,
    meaning:
      'The workspace has no kubeconfig, and what was asked for needs the Kubernetes API. Nothing was changed.',
    fix: 'An owner makes one with `cluster kubeconfig --renew`; if that says that no grant says how, another owner answers the request once more with `cluster operator add`. Who is no owner gets a kubeconfig from an owner and puts it into the workspace.',
  },
  'cluster-quorum-lost': {
    fault: 'peer',
    exit: 'unhealthy',
    retryable: true,
    meaning:
      'Control planes answer, but none of them has a quorum: too few voters of etcd are there, so nothing can be read or written.',
    fix: 'Bring the other control planes back, then run the command again. If they are gone for good, run `cluster recover quorum` as root on a control plane that survived.',
  },
  'cluster-curator-unreachable': {
    fault: 'peer',
    exit: 'unreachable',
    retryable: true,
    meaning: 'No curator of the cluster answered.',
    fix: 'See whether a control-plane node runs and its port 9091 can be reached from here.',
  },
});

export type ClusterErrorCode = keyof typeof clusterErrors;

export class ClusterError extends errorClass(clusterErrors) {}
