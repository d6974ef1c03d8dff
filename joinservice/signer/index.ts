/**
 * What signs has no network: a process of its own with the cluster's CA keys, beside the join service that untrusted peers
 * reach.
 *
 *     joinservice ──SignMember──▶ signer.sock ─▶ MemberSigner ─▶ statement of the agent, evidence over it, address;
 *          ▲                                          │          for a control plane an owner's grant
 *          │                                          ├─ KeyRing (files), SignerMemory (its own directory)
 *          │                                          └─ records and owners' documents in etcd ──┐
 *          └── a pipe of bytes it cannot read ◀── etcd-pipe.sock ◀── TLS, as etcd's user "signer"┘
 *
 * Who the owners are, which cluster this is and which addresses are taken comes from the configuration, which root writes.
 * A join service that was taken over gets certificates for workers whose records it writes, and nothing of the control
 * plane (docs/threat-model.md §9).
 */
export { parseSignerConfig, type SignerConfig } from './signer-config.ts';
export { SignerError, signerErrors, type SignerErrorCode } from './errors.ts';
export { CONTROL_PLANE_KEYS, KeyRing } from './key-ring.ts';
export { signKubeconfig, type KubeconfigCredentials, type KubeconfigRequest } from './kubeconfig-signer.ts';
export { MemberSigner, type MemberCredentials, type MemberRequest } from './member-signer.ts';
export { SignerMemory } from './signer-memory.ts';
export { serveSigner, signerHandlers, type SignerPorts } from './serve-signer.ts';
