import type { FilePort } from '../../internal/file/index.ts';
import { EnrolmentError } from './errors.ts';
import type { Membership } from '../membership/index.ts';
import type { InitJob } from '../initserver/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import type { LockRecord, NodeLock } from '../nodelock/index.ts';
import { AGENT_PATHS, type NodeState } from '../nodestate/index.ts';

/** Where a machine goes on from what an earlier life of the agent has left on its disk. */
export type ResumePoint = 'nothing-begun' | 'joining' | 'resuming';

export interface ResumePointPorts {
  readonly files: FilePort;
  readonly lock: NodeLock;
  /** Restored. */
  readonly job: InitJob;
  readonly state: NodeState;
}

/**
 * Reads what is there and writes nothing. Damaged is an error and never absence; so is a file that is gone while others
 * are there that cannot be without it: a second cluster in the place of the first, or a member of nothing, would be the
 * consequence.
 */
export async function findResumePoint(ports: ResumePointPorts): Promise<ResumePoint> {
  const { lock, state, files } = ports;
  const held = await lock.read();
  const membership = await state.membership.load();
  if (membership !== undefined) {
    refuseOtherLock(membership, held);
    if (held?.by === 'init') await refuseLostInit(ports, membership);
    return 'resuming';
  }
  if (held === undefined) {
    if ((await files.stat(AGENT_PATHS.etcdData)) === undefined) return 'nothing-begun';
    throw new EnrolmentError(
      'enrolment-files-missing',
      `enrolling: ${AGENT_PATHS.etcdData} is there, but ${AGENT_PATHS.membership} and ${AGENT_PATHS.lock} are gone`,
      { details: { path: AGENT_PATHS.membership } },
    );
  }
  return held.by === 'join' ? wayOfJoin(ports, held) : wayOfInit(ports, held);
}

/** The key that a member is known by is made once: another one would be another machine. */
export async function refuseLostMachineKey(files: FilePort): Promise<void> {
  const path = AGENT_PATHS.machineKey;
  if ((await files.stat(path)) !== undefined) return;
  for (const bound of [AGENT_PATHS.membership, AGENT_PATHS.lock]) {
    if ((await files.stat(bound)) === undefined) continue;
    throw new EnrolmentError('enrolment-keys-missing', `starting: ${bound} is there, but ${path} is gone`, {
      details: { path },
    });
  }
}

async function wayOfJoin({ state }: ResumePointPorts, held: LockRecord): Promise<ResumePoint> {
  const record = await state.join.load();
  if (record?.clusterId === held.clusterId && record.joinId === held.id) return 'joining';
  throw boundWithout(AGENT_PATHS.join, held);
}

/** An init that has its result has made this machine a member before. */
function wayOfInit({ job }: ResumePointPorts, held: LockRecord): ResumePoint {
  if (!job.accepted.peek().set) throw boundWithout(`${AGENT_PATHS.init}/request.json`, held);
  const outcome = job.outcome.peek();
  if (outcome.set && outcome.value !== undefined) throw boundWithout(AGENT_PATHS.membership, held);
  return 'nothing-begun';
}

function refuseOtherLock({ clusterId }: Membership, held: LockRecord | undefined): void {
  if (held?.clusterId === clusterId) return;
  const found = held === undefined ? 'is gone' : `binds it to cluster ${held.clusterId}`;
  throw new EnrolmentError(
    'enrolment-files-missing',
    `resuming: ${AGENT_PATHS.membership} makes this machine a member of cluster ${clusterId}, but ${AGENT_PATHS.lock} ${found}`,
    { details: { path: AGENT_PATHS.lock, clusterId } },
  );
}

/**
 * Who made the cluster made its keys, and would make new ones. Others are given theirs, also once more. Kubernetes' come
 * while the init is under way; when it has its result, all of them are there.
 */
async function refuseLostInit(
  { files, job, state }: ResumePointPorts,
  { clusterId }: Membership,
): Promise<void> {
  const path = `${AGENT_PATHS.init}/request.json`;
  if (!job.accepted.peek().set) {
    throw new EnrolmentError('enrolment-files-missing', `resuming cluster ${clusterId}: ${path} is gone`, {
      details: { path, clusterId },
    });
  }
  const isMember = (await state.roles.load())?.includes('ConsensusMember') === true;
  if (!isMember || (await files.stat(AGENT_PATHS.etcdData)) === undefined) return;
  const outcome = job.outcome.peek();
  const isComplete = outcome.set && outcome.value !== undefined;
  for (const key of Object.values(CONTROL_PLANE_KEY_FILES)) {
    if (!isComplete && !key.startsWith(AGENT_PATHS.state)) continue;
    if ((await files.stat(key)) !== undefined) continue;
    throw new EnrolmentError(
      'enrolment-keys-missing',
      `resuming cluster ${clusterId}: ${AGENT_PATHS.etcdData} is there, but ${key} is gone`,
      { details: { path: key, clusterId } },
    );
  }
}

function boundWithout(path: string, { clusterId }: LockRecord): EnrolmentError {
  return new EnrolmentError(
    'enrolment-files-missing',
    `enrolling: ${AGENT_PATHS.lock} binds this machine to cluster ${clusterId}, but ${path} is gone`,
    { details: { path, clusterId } },
  );
}
