import { TPM_SOCKET_IN_NODE } from './software-tpm.ts';

/** Where a node that may use the host's blobs finds them: the root of a store, with `blobs` in it. */
export const SEED_IN_NODE = '/var/lib/cluster-seed';

/** What differs from node to node in `/etc/cluster/provisioning.json`. */
export interface ProvisioningInput {
  readonly nodeName: string;
  readonly address: string;
  /** Raw Ed25519 public keys, base64. */
  readonly ownerKeys: readonly [string, ...string[]];
  /** Where it may find its cluster, "host:port". */
  readonly joinEndpoints: readonly string[];
  readonly seeded: boolean;
  /** The host lacks CAP_SYS_RESOURCE, so that runc cannot lower a process's out-of-memory score. */
  readonly restrictOomScoreAdj: boolean;
  /** The host has cgroup v1 controllers, which kubelets from 1.35 on refuse unless told. */
  readonly cgroupV1: boolean;
}

/** The provisioning file of a local node: what a person would put on a machine before its first start. */
export function provisioningFor(facts: ProvisioningInput): Readonly<Record<string, unknown>> {
  return {
    version: 1,
    platform: 'local',
    ownerKeys: facts.ownerKeys,
    tpm: { kind: 'socket', path: TPM_SOCKET_IN_NODE },
    nodeName: facts.nodeName,
    address: facts.address,
    ...(facts.joinEndpoints.length > 0 ? { joinEndpoints: facts.joinEndpoints } : {}),
    ...(facts.seeded ? { seedStores: [SEED_IN_NODE] } : {}),
    ...(facts.restrictOomScoreAdj ? { containerRuntime: { restrictOomScoreAdj: true } } : {}),
    ...(facts.cgroupV1 ? { kubelet: { failCgroupV1: false } } : {}),
  };
}
