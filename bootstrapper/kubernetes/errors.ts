import { defineErrors, errorClass, fault, retryable } from '../../internal/errors/index.ts';

/** Error codes for Kubernetes on a node. */
export const kubernetesErrors = defineErrors({
  'kubernetes-component-missing': retryable.operator.precondition(
    'A component that the bundle lists is missing in the component store of this machine.',
    'Run the same `cluster init` again: it uploads what is missing.',
  ),
  'kubernetes-kubeadm-failed': retryable.system.partial(
    'A kubeadm phase failed. The message has the end of its output.',
    'Fix the cause that kubeadm reports, then run the same `cluster init` again: it resumes with this phase.',
  ),
  'kubernetes-keys-damaged': fault.system.partial(
    'A key that all control planes share is damaged or incomplete on the machine that creates the cluster. The key is not replaced, because everything that was signed with the key would be refused.',
    'Check the disk of the machine. Then reset the machine with `cluster node reset` and create a new cluster with `cluster init`.',
  ),
  'kubernetes-encryption-changed': fault.operator.precondition(
    'The configuration with which the API servers encrypt objects in etcd is not the one that the agent wrote, so the encryption key cannot be replaced.',
    'Restore /etc/kubernetes/encryption/config.json as on the other control planes: one secretbox key, and identity after it. Write all objects that are encrypted with another configuration again before you restore the file.',
  ),
  'kubernetes-component-damaged': retryable.system.image(
    'The checksum of a component in the store of the machine is wrong. The component was not used, and the stored copy was deleted.',
    'Run the same `cluster init` again: it uploads the component again. Then check the disk of the machine, which changed stored bytes.',
  ),
  'kubernetes-image-broken': retryable.system.image(
    'containerd could not import a container image of the bundle.',
    'Check the bundle with `cluster bundle verify` on the workstation. If the bundle is intact, check the disk and the free space of the machine.',
  ),
  'kubernetes-kubelet-failed': retryable.system.kubelet(
    'The kubelet keeps failing. The message has the end of its log.',
    'Fix the cause that the kubelet reports (`journalctl -u kubelet` on the machine shows more), then run the same `cluster init` again: it resumes with this phase.',
  ),
  'kubernetes-metadata-unguarded': retryable.system.kubelet(
    'The nftables rules that block pods from the metadata service of the cloud could not be loaded. The message has the end of the output of nft. The kubelet was not started.',
    'Install nftables on the machine, check that its kernel supports it (`nft list tables`), then run the same `cluster init` again. Or create the cluster with `podSecurity.allowCloudMetadata: true`.',
  ),
  'kubernetes-credentials-missing': retryable.system.partial(
    'A certificate or key of the kubelet is missing on this node.',
    'Restart bootstrapper.service: it requests new credentials from a control plane. `cluster explain NODE` shows why the node gets no credentials.',
  ),
  'kubernetes-still-running': retryable.system.partial(
    'A component of the control plane did not stop in time after this node lost the role. Its keys still exist.',
    'Read the log of the kubelet, which stops static pods: `cluster node logs NODE`.',
  ),
  'kubernetes-api-timeout': retryable.system.partial(
    'The API server did not become ready in time. The message has the end of its log or of the log of the kubelet.',
    'Fix the cause in the log, then run the same `cluster init` again. On a slow machine, running it again is enough.',
  ),
});

/** A failed step in setting up or running Kubernetes on this node. */
export class KubernetesError extends errorClass(kubernetesErrors) {}
