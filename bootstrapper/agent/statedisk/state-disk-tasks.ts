import { create, toBinary } from '@bufbuild/protobuf';
import { DiskSealReportSchema, DiskSealSchema } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import {
  approveSoftware,
  DiskError,
  provisionedDisk,
  readDiskSeal,
  type DiskPorts,
  type DiskSeal,
  type DiskSettings,
} from '../../disk/index.ts';
import type { Membership } from '../../membership/index.ts';
import type { TaskPorts } from '../../nodestream/index.ts';
import type { Agent } from '../agent-parts.ts';

type Parts = Pick<
  Agent,
  'commands' | 'files' | 'streams' | 'tpm' | 'log' | 'evidence' | 'provisioning' | 'diskShare' | 'signal'
>;

/**
 * Answers owners who ask how the state disk is sealed, and takes their approvals. An approval goes on when the call of its owner ends:
 * half of it would have to be finished by the next start.
 */
export function stateDiskTasks(
  parts: Parts,
  { clusterId, nodeId }: Pick<Membership, 'clusterId' | 'nodeId'>,
): TaskPorts['disk'] {
  const { evidence, diskShare, signal } = parts;
  return {
    describe: async (nonce, alive) => {
      const { ports, settings } = stateDiskOf(parts);
      const seal = encodeSeal(await readDiskSeal(ports, settings, alive));
      const proof = await evidence.forDiskSeal({ clusterId, nodeId, nonce }, seal, alive);
      const report = { seal, variant: evidence.variant, evidence: proof };
      return toBinary(DiskSealReportSchema, create(DiskSealReportSchema, report));
    },
    approve: async (approval) => {
      const { ports, settings } = stateDiskOf(parts);
      const approve = (): Promise<void> => approveSoftware(ports, settings, { approval, signal });
      await (diskShare === undefined ? approve() : diskShare.queue.run(approve));
    },
  };
}

/** @throws DiskError `disk-not-provisioned` */
function stateDiskOf(parts: Parts): { readonly ports: DiskPorts; readonly settings: DiskSettings } {
  const { tpm, log, provisioning } = parts;
  if (provisioning.stateDisk === undefined || tpm === undefined)
    throw new DiskError('disk-not-provisioned', 'reading the provisioning: no state disk');
  return {
    ports: { ...parts, tpm, log: log.child('disk') },
    settings: provisionedDisk(provisioning.stateDisk),
  };
}

function encodeSeal({ uuid, seals, generation, registers, approved, opens }: DiskSeal): Uint8Array {
  const seal = create(DiskSealSchema, {
    ...{ uuid, generation, opens },
    seals: [...(seals ?? [])],
    registers: Object.fromEntries(registers),
    approved: approved.map((each) => ({ registers: Object.fromEntries(each) })),
  });
  return toBinary(DiskSealSchema, seal);
}
