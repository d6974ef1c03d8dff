/**
 * The signer has the CA keys of the cluster and no network: a process of its own beside the join service, which untrusted peers
 * can reach.
 *
 *     joinservice ──SignMember──▶ signer.sock ─▶ MemberSigner ─▶ statement of the agent, evidence over it, address;
 *          ▲                                          │          for a control plane an owner's grant
 *          │                                          ├─ KeyRing (files), SignerMemory (its own directory)
 *          │                                          └─ records and owners' documents in etcd ──┐
 *          └── bytes it cannot read ◀── etcd-pipe.sock ◀── TLS, as etcd's user "signer"┘
 *
 * The owners, the cluster and the reserved addresses come from the configuration, which root writes. A compromised join service
 * gets certificates for workers whose records it writes, but none of the control plane (docs/threat-model.md §9).
 */
export { CONTROL_PLANE_KEYS } from './key-ring.ts';
export { serveSigner } from './serve-signer.ts';
