/**
 * What signs has no network: a process of its own with the cluster's CA keys, beside the join service that strangers reach.
 *
 *     joinservice ──SignMember──▶ signer.sock ─▶ MemberSigner ─▶ is the node UP on record? did it sign these keys?
 *          ▲                                          │                    ▲
 *          │                                          └─ KeyRing (files)   │ TLS, as etcd's user "signer"
 *          └── a pipe of bytes it can't read ◀── etcd-pipe.sock ◀──────────┘
 *
 * A join service that was taken over gets certificates for machines on record that asked for them, and no key. What it
 * can still do is write records; each is in the audit.
 */
export { parseSignerConfig, type SignerConfig } from './config.ts';
export { SignerError, signerErrors, type SignerErrorCode } from './errors.ts';
export { CONTROL_PLANE_KEYS, KeyRing } from './key-ring.ts';
export { signKubeconfig, type KubeconfigCredentials, type KubeconfigRequest } from './kubeconfig-signer.ts';
export { MemberSigner, type MemberCredentials, type MemberRequest } from './member-signer.ts';
export { serveSigner, signerHandlers, type SignerPorts } from './serve.ts';
