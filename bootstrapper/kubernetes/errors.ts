import { defineErrors, errorClass } from '../../internal/errors/index.ts';

/** Error codes for Kubernetes on a node. */
export const kubernetesErrors = defineErrors({
  'kubernetes-component-missing': {
    fault: 'operator',
    exit: 'precondition',
    retryable: true,
    meaning: 'A component that the bundle lists is missing in the component store of this machine.',
    fix: 'Run the same `cluster init` again: it uploads what is missing.',
  },
  'kubernetes-kubeadm-failed': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A kubeadm phase failed. The message has the end of its output.',
    fix: 'Fix the cause that kubeadm reports, then run the same `cluster init` again: it resumes with this phase.',
  },
  'kubernetes-keys-damaged': {
    fault: 'system',
    exit: 'partial',
    meaning:
      'A key that all control planes share is damaged or incomplete on the machine that creates the cluster. It is not replaced, because everything that was signed with it would be refused.',
    fix: 'Check the disk of the machine. Then reset the machine with `cluster node reset` and create a new cluster with `cluster init`.',
  },
  'kubernetes-component-damaged': {
    fault: 'system',
    exit: 'image',
    retryable: true,
    meaning:
      'The checksum of a component in the store of the machine is wrong. The component was not used, and the stored copy was deleted.',
    fix: 'Run the same `cluster init` again: it uploads the component again. Then check the disk of the machine, which changed stored bytes.',
  },
  'kubernetes-image-broken': {
    fault: 'system',
    exit: 'image',
    retryable: true,
    meaning: 'containerd could not import a container image of the bundle.',
    fix: 'Check the bundle with `cluster bundle verify` on the workstation. If the bundle is intact, check the disk and the free space of the machine.',
  },
  'kubernetes-kubelet-failed': {
    fault: 'system',
    exit: 'kubelet',
    retryable: true,
    meaning: 'The kubelet keeps failing. The message has the end of its log.',
    fix: 'Fix the cause that the kubelet reports (`journalctl -u kubelet` on the machine shows more), then run the same `cluster init` again: it resumes with this phase.',
  },
  'kubernetes-metadata-unguarded': {
    fault: 'system',
    exit: 'kubelet',
    retryable: true,
    meaning:
      'The nftables rules that block pods from the metadata service of the cloud could not be loaded. The message has the end of the output of nft. The kubelet was not started.',
    fix: 'Install nftables on the machine, check that its kernel supports it (`nft list tables`), then run the same `cluster init` again. Or create the cluster with `podSecurity.allowCloudMetadata: true`.',
  },
  'kubernetes-credentials-missing': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning: 'A certificate or key of the kubelet is missing on this node.',
    fix: 'Restart bootstrapper.service: it requests new ones from a control plane. `cluster explain NODE` shows why it gets none.',
  },
  'kubernetes-still-running': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'A component of the control plane did not stop in time after this node lost the role. Its keys still exist.',
    fix: 'Read the log of the kubelet, which stops static pods: `cluster node logs NODE`.',
  },
  'kubernetes-api-timeout': {
    fault: 'system',
    exit: 'partial',
    retryable: true,
    meaning:
      'The API server did not become ready in time. The message has the end of its log or of the log of the kubelet.',
    fix: 'Fix the cause in the log, then run the same `cluster init` again. On a slow machine, running it again is enough.',
  },
});

/** Error code of a `KubernetesError`. */
export type KubernetesErrorCode = keyof typeof kubernetesErrors;

/** A failed step in setting up or running Kubernetes on this node. */
export class KubernetesError extends errorClass(kubernetesErrors) {}
