import { TPM_SOCKET_IN_NODE } from './software-tpm.ts';

/**
 * The directory of a node at which the blobs of the host are mounted. It is the root of a blob store, which has a
 * directory `blobs`.
 */
export const SEED_IN_NODE = '/var/lib/cluster-seed';

/** The values of `/etc/cluster/provisioning.json` of one node. */
export interface ProvisioningInput {
  readonly nodeName: string;
  readonly address: string;
  /** Raw Ed25519 public keys, base64. */
  readonly ownerKeys: readonly [string, ...string[]];
  /** Control planes to join, "host:port". */
  readonly joinEndpoints: readonly string[];
  readonly seeded: boolean;
  /** The host does not have CAP_SYS_RESOURCE: runc cannot lower the out-of-memory score of a process. */
  readonly restrictOomScoreAdj: boolean;
  /** The host has cgroup v1 controllers, which the kubelet refuses by default since 1.35. */
  readonly cgroupV1: boolean;
}

/** The provisioning file of a local node. */
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

/** The values of the provisioning file of a virtual machine. */
export interface VirtualProvisioningInput extends Pick<
  ProvisioningInput,
  'nodeName' | 'address' | 'ownerKeys' | 'joinEndpoints'
> {
  readonly recovery: DiskRecovery;
}

/** How an owner opens the state disk of a virtual machine when its TPM does not. */
export interface DiskRecovery {
  /** Public key, base64: see `stateDisk.approvalKey` of provisioning files. */
  readonly approvalKey: string;
  /** Recipients of age(1). */
  readonly recoveryRecipients: readonly [string, ...string[]];
}

/** The registers of programs that start from the disk, and of Secure Boot, as docs/images.md recommends. */
const DISK_REGISTERS = [4, 7, 9, 11, 12];

/**
 * The provisioning file of a virtual machine: that of a real one with an image. The sectors of the disk are not authenticated, because
 * formatting would then write the whole disk.
 */
export function virtualProvisioningFor(facts: VirtualProvisioningInput): Readonly<Record<string, unknown>> {
  return {
    version: 1,
    platform: 'metal',
    ownerKeys: facts.ownerKeys,
    tpm: { kind: 'device', path: '/dev/tpmrm0' },
    stateDisk: {
      device: '/dev/disk/by-partlabel/cluster-state',
      pcrs: DISK_REGISTERS,
      integrity: false,
      ...facts.recovery,
    },
    nodeName: facts.nodeName,
    address: facts.address,
    cloud: 'none',
    ...(facts.joinEndpoints.length > 0 ? { joinEndpoints: facts.joinEndpoints } : {}),
  };
}
