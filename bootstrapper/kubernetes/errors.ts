import { defineErrors, errorClass } from '../../internal/errors/index.ts';

export const kubernetesErrors = defineErrors({
  'kubernetes-component-missing': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'A component that the bundle promises is not in the store of this machine.',
    fix: 'Run the same `cluster init` again: it uploads what is missing.',
  },
  'kubernetes-kubeadm-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A phase of kubeadm ended with an error; its last words are in the message.',
    fix: 'Mend what kubeadm names, then run the same `cluster init` again: it goes on with this phase.',
  },
  'kubernetes-keys-damaged': {
    fault: 'system',
    exit: 'partial',
    retryable: false,
    meaning:
      'A key that all control planes are to share is damaged, or half of it is gone, on the disk of the machine that creates the cluster. It is not made anew: what was made with it would be refused.',
    fix: 'Look at the disk of the machine. Then `cluster node reset` puts the machine back, and `cluster init` makes a new cluster.',
  },
  'kubernetes-component-damaged': {
    fault: 'system',
    exit: 'image',
    retryable: true,
    meaning:
      'A component in the store of the machine is no longer what it was when it came. It was not used; what the machine itself had stored of it is removed.',
    fix: 'Run the same `cluster init` again: it uploads the component anew. Then look at the disk of the machine: something has changed bytes on it.',
  },
  'kubernetes-image-broken': {
    fault: 'system',
    exit: 'image',
    retryable: true,
    meaning: 'containerd could not import a container image of the bundle.',
    fix: '`cluster bundle verify` at the workstation says whether the image was damaged before it came; if it was not, check disk and free space of the machine.',
  },
  'kubernetes-kubelet-failed': {
    fault: 'system',
    exit: 'kubelet',
    retryable: true,
    meaning: 'The kubelet does not stay up; its last words are in the message.',
    fix: 'Mend what the kubelet names (`journalctl -u kubelet` on the machine shows more), then run the same `cluster init` again: it goes on with this phase.',
  },
  'kubernetes-metadata-unguarded': {
    fault: 'system',
    exit: 'kubelet',
    retryable: true,
    meaning:
      'The rules that keep pods away from the metadata service of the cloud could not be loaded; the last words of nft are in the message. The kubelet was not started.',
    fix: 'See that nftables is installed on the machine and that its kernel has it (`nft list tables`), then run the same `cluster init` again. A cluster may also be made with `podSecurity.allowCloudMetadata: true`.',
  },
  'kubernetes-credentials-missing': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: "A file that the kubelet proves itself with is not on this node's disk.",
    fix: 'Restart bootstrapper.service: it asks a control plane for new ones; `cluster explain NODE` shows why it gets none.',
  },
  'kubernetes-still-running': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'A part of the control plane did not stop in time after its role had gone. Its keys are still there.',
    fix: 'Look at the kubelet of the node, which stops its static pods: `cluster node logs NODE`.',
  },
  'kubernetes-api-timeout': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'The API server did not get ready in time; what it and the kubelet said last is in the message.',
    fix: 'Mend what the last words name; a slow machine needs only the same `cluster init` again.',
  },
});

export type KubernetesErrorCode = keyof typeof kubernetesErrors;

export class KubernetesError extends errorClass(kubernetesErrors) {}
