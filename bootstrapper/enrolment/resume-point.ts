import type { FilePort } from '../../internal/file/index.ts';
import { EnrolmentError } from './errors.ts';
import type { Membership } from '../membership/index.ts';
import type { InitJob } from '../initserver/index.ts';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import type { LockRecord, NodeLock } from '../nodelock/index.ts';
import { AGENT_PATHS, type NodeState } from '../nodestate/index.ts';

/** How a machine continues after a restart of the agent, decided by the files on its disk. */
export type ResumePoint = 'not-started' | 'joining' | 'resuming';

/** Ports (injected dependencies) of `findResumePoint()`. */
export interface ResumePointPorts {
  readonly files: FilePort;
  readonly lock: NodeLock;
  /** The init job, after `restore()` has loaded the state of earlier runs of the agent. */
  readonly job: InitJob;
  readonly state: NodeState;
}

/**
 * Decides how this machine continues; writes nothing. A damaged file is an error, and so is a missing file on
 * which other files depend. Otherwise the agent could create a second cluster in place of the first.
 * @throws EnrolmentError `enrolment-files-missing`, `enrolment-keys-missing`
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
    if ((await files.stat(AGENT_PATHS.etcdData)) === undefined) return 'not-started';
    throw new EnrolmentError(
      'enrolment-files-missing',
      `${AGENT_PATHS.membership} and ${AGENT_PATHS.lock} not found, but ${AGENT_PATHS.etcdData} exists`,
      { details: { path: AGENT_PATHS.membership } },
    );
  }
  return held.by === 'join' ? resumeJoin(ports, held) : resumeInit(ports, held);
}

/**
 * Fails if the machine key is missing although the machine belongs to a cluster: with a new key, the member
 * would be another machine.
 * @throws EnrolmentError `enrolment-keys-missing`
 */
export async function refuseLostMachineKey(files: FilePort): Promise<void> {
  const path = AGENT_PATHS.machineKey;
  if ((await files.stat(path)) !== undefined) return;
  for (const bound of [AGENT_PATHS.membership, AGENT_PATHS.lock]) {
    if ((await files.stat(bound)) === undefined) continue;
    throw new EnrolmentError('enrolment-keys-missing', `${path} not found, but ${bound} exists`, {
      details: { path },
    });
  }
}

async function resumeJoin({ state }: ResumePointPorts, held: LockRecord): Promise<ResumePoint> {
  const record = await state.join.load();
  if (record?.clusterId === held.clusterId && record.joinId === held.id) return 'joining';
  throw missingFile(AGENT_PATHS.join, held);
}

/**
 * The membership is written before the result of an init. So a result without a membership means that the
 * membership file was lost.
 */
function resumeInit({ job }: ResumePointPorts, held: LockRecord): ResumePoint {
  if (!job.accepted.peek().set) throw missingFile(`${AGENT_PATHS.init}/request.json`, held);
  const outcome = job.outcome.peek();
  if (outcome.set && outcome.value !== undefined) throw missingFile(AGENT_PATHS.membership, held);
  return 'not-started';
}

function refuseOtherLock({ clusterId }: Membership, held: LockRecord | undefined): void {
  if (held?.clusterId === clusterId) return;
  const found = held === undefined ? 'does not exist' : `locks it to cluster ${held.clusterId}`;
  throw new EnrolmentError(
    'enrolment-files-missing',
    `${AGENT_PATHS.membership} makes this machine a member of cluster ${clusterId}, but ${AGENT_PATHS.lock} ${found}`,
    { details: { path: AGENT_PATHS.lock, clusterId } },
  );
}

/**
 * Refuses to resume on the node that created the cluster if keys are missing: this node also created the keys of the
 * cluster, and would create new ones. Every other node can request its keys again. The Kubernetes keys are created
 * during the init, so they must exist only when the init has its result.
 */
async function refuseLostInit(
  { files, job, state }: ResumePointPorts,
  { clusterId }: Membership,
): Promise<void> {
  const path = `${AGENT_PATHS.init}/request.json`;
  if (!job.accepted.peek().set) {
    throw new EnrolmentError('enrolment-files-missing', `resuming cluster ${clusterId}: ${path} not found`, {
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
      `resuming cluster ${clusterId}: ${key} not found, but ${AGENT_PATHS.etcdData} exists`,
      { details: { path: key, clusterId } },
    );
  }
}

function missingFile(path: string, { clusterId }: LockRecord): EnrolmentError {
  return new EnrolmentError(
    'enrolment-files-missing',
    `${path} not found, but ${AGENT_PATHS.lock} locks this machine to cluster ${clusterId}`,
    { details: { path, clusterId } },
  );
}
