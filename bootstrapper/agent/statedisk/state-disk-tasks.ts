import { create, toBinary } from '@bufbuild/protobuf';
import { currentValue, type Readable } from '../../../internal/event/index.ts';
import {
  DiskRotationReportSchema,
  DiskSealReportSchema,
  DiskSealSchema,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
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
import { ownerKeysOf } from '../open-machine.ts';
import { verifyRotationOrder } from './rotation-order.ts';

type Parts = Pick<
  Agent,
  | 'commands'
  | 'files'
  | 'streams'
  | 'tpm'
  | 'log'
  | 'evidence'
  | 'provisioning'
  | 'diskShare'
  | 'diskKeys'
  | 'signal'
  | 'clock'
> & {
  /** Whether an order that ends the agent is on its disk. */
  readonly [order in 'recovery' | 'resetOrders']: { readonly ordered: Readable<boolean> };
};

/**
 * Answers owners who ask how the state disk is sealed, and takes their approvals and their orders for new keys. Both go on when the call of the owner ends:
 * half of either would have to be finished by the next start.
 */
export function stateDiskTasks(
  parts: Parts,
  { clusterId, nodeId }: Pick<Membership, 'clusterId' | 'nodeId'>,
): TaskPorts['disk'] {
  const { evidence, diskShare, diskKeys, provisioning, signal } = parts;
  return {
    describe: async (nonce, alive) => {
      const { ports, settings } = stateDiskOf(parts);
      const seal = encodeSeal(await readDiskSeal(ports, settings, alive), settings);
      const proof = await evidence.forDiskSeal({ clusterId, nodeId, nonce }, seal, alive);
      const report = { seal, variant: evidence.variant, evidence: proof };
      return toBinary(DiskSealReportSchema, create(DiskSealReportSchema, report));
    },
    approve: async (approval) => {
      const { ports, settings } = stateDiskOf(parts);
      const approve = (): Promise<void> => approveSoftware(ports, settings, { approval, signal });
      await (diskShare === undefined ? approve() : diskShare.queue.run(approve));
    },
    rotate: async (task) => {
      stateDiskOf(parts);
      if (diskKeys === undefined) throw new TypeError('a state disk without its keys');
      const ownerKeys = ownerKeysOf(provisioning);
      const order = verifyRotationOrder(task, { clusterId, nodeId, ownerKeys, nowMs: parts.clock.nowMs() });
      refuseEndingAgent(parts);
      const { clusterShare, endedApprovals, isRepeated } = await diskKeys.rotate(order, signal);
      const isClusterShareNew = clusterShare === 'new';
      const report = create(DiskRotationReportSchema, { isClusterShareNew, endedApprovals, isRepeated });
      return toBinary(DiskRotationReportSchema, report);
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

/** A recovery or a reset ends the agent soon. @throws DiskError `disk-rotation-postponed` */
function refuseEndingAgent({ recovery, resetOrders }: Parts): void {
  const ending = Object.entries({ recovery, reset: resetOrders }).find(
    ([, { ordered }]) => currentValue(ordered) === true,
  );
  if (ending === undefined) return;
  const [what] = ending;
  throw new DiskError(
    'disk-rotation-postponed',
    `rotating the keys of the state disk: a ${what} was ordered`,
  );
}

function encodeSeal(
  { uuid, seals, generation, registers, approved, opens, nodeSeal, keepsClusterShare }: DiskSeal,
  { recipients, recoveryThreshold }: DiskSettings,
): Uint8Array {
  const seal = create(DiskSealSchema, {
    ...{ uuid, generation, opens, nodeSeal, keepsClusterShare, recoveryThreshold },
    recoveryRecipients: [...recipients],
    seals: [...(seals ?? [])],
    registers: Object.fromEntries(registers),
    approved: approved.map((each) => ({ registers: Object.fromEntries(each) })),
  });
  return toBinary(DiskSealSchema, seal);
}
