import { when, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { parseRoles } from '../../internal/role/index.ts';
import { EnrolmentError, type EnrolmentHandlers, type Membership } from '../enrolment/index.ts';
import type { InitJob, InitRecord, InitSpec } from '../initserver/index.ts';
import type { NodeLock } from '../nodelock/index.ts';
import type { ClusterSettings, RoleValues } from '../roleserve/index.ts';
import type { NodeState } from './node-state.ts';
import { PLACES } from './places.ts';

export interface EnrolmentPorts {
  readonly files: FilePort;
  readonly lock: NodeLock;
  readonly job: InitJob;
  readonly state: NodeState;
  readonly values: RoleValues;
}

/** What each state of the enrolment does on this machine. */
export function createEnrolmentHandlers(ports: EnrolmentPorts): EnrolmentHandlers<Membership> {
  const { job, state, values } = ports;
  return {
    New: async (signal) => {
      await job.restore();
      if ((await state.membership.load()) !== undefined) return { to: 'Resuming' };
      await refuseRemains(ports);
      await when(job.accepted, () => true, signal);
      return { to: 'CreatingCluster' };
    },
    CreatingCluster: async (signal) => {
      const record = await acceptedOf(job.accepted, signal);
      values.clusterSettings.set(settingsFromSpec(record.spec));
      values.bootstrapData.set({ initId: record.initId, spec: record.spec });
      const membership = await when(values.clusterMembership, (value) => value !== undefined, signal);
      if (membership === undefined) throw new TypeError('a membership that is none');
      return { to: 'Running', membership };
    },
    Joining: () => Promise.reject(new TypeError('nothing moves here yet')),
    Resuming: async () => {
      const [membership, roles, settings] = await Promise.all([
        state.membership.load(),
        state.roles.load(),
        state.settings.load(),
      ]);
      if (membership === undefined || roles === undefined || settings === undefined) {
        const path = roles === undefined ? PLACES.roles : PLACES.settings;
        throw new EnrolmentError('enrolment-membership-damaged', `resuming: ${path} is gone`, {
          details: { path },
        });
      }
      values.clusterSettings.set(settings);
      values.clusterMembership.set(membership);
      values.localRoles.set(new Set(parseRoles(roles)));
      return { to: 'Running', membership };
    },
  };
}

/** The same settings that every later node gets from the cluster. */
export function settingsFromSpec(spec: InitSpec): ClusterSettings {
  const { clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest } = spec;
  return { clusterName, kubernetesVersion, podSubnet, serviceSubnet, apiServerSans, bundleManifest };
}

async function acceptedOf(accepted: Readable<InitRecord>, signal: AbortSignal): Promise<InitRecord> {
  return when(accepted, () => true, signal);
}

/** Data of a cluster without the membership that belongs to it: never the start of a second cluster. */
async function refuseRemains({ files, lock, job }: EnrolmentPorts): Promise<void> {
  const held = await lock.read();
  const resumable = held?.by === 'init' && job.accepted.peek().set;
  if (held !== undefined && !resumable) {
    throw new EnrolmentError(
      'enrolment-remains',
      `enrolling: ${PLACES.lock} binds this machine to cluster ${held.clusterId}, but ${PLACES.init}/request.json is gone`,
      {
        details: { path: `${PLACES.init}/request.json`, clusterId: held.clusterId },
      },
    );
  }
  if (held === undefined && (await files.stat(PLACES.etcdData)) !== undefined) {
    throw new EnrolmentError(
      'enrolment-remains',
      `enrolling: ${PLACES.etcdData} is there, but ${PLACES.membership} and ${PLACES.lock} are gone`,
      {
        details: { path: PLACES.membership },
      },
    );
  }
}
