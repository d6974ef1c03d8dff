import { DiskStreams, readText } from '../../internal/file/index.ts';
import { accessFromKubeconfig, KubeClient } from '../../internal/kube/client/index.ts';
import { PORTS } from '../../internal/endpoint/index.ts';
import { when, currentValue } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import { backupCopyWorker, backupScheduleWorker, readStoreCredentials } from '../backup/index.ts';
import {
  consensusLayout,
  ETCD_NAMES,
  removeRestoredSnapshots,
  withRestoredSnapshot,
  withThrowawayPlace,
} from '../consensus/index.ts';
import { CONTROL_PLANE_KEY_FILES, OPTIONAL_KEY_FILES, PATHS } from '../kubernetes/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { temporaryEtcdConfig } from '../recovery/index.ts';
import type { Agent } from './agent-parts.ts';
import { backupRing } from './operator-runnables.ts';

/** The runnable that takes the scheduled backups. */
export function backupRunnable(agent: Agent): Runnable {
  const { reads, driver, identity, valueStore } = agent;
  const writes = valueStore.claim('scheduledBackups');
  return backupScheduleWorker(async (signal) => {
    const membership = await membershipOf(agent, signal);
    return {
      ...agent,
      ...{ clusterId: membership.clusterId, nodeId: membership.nodeId, keyPem: identity.keyPem },
      newestSchedule: AGENT_PATHS.newestBackupSchedule,
      keyFiles: { ...CONTROL_PLANE_KEY_FILES, ...OPTIONAL_KEY_FILES },
      ring: backupRing(agent),
      etcdMembers: () => driver.etcdMembers(),
      writes,
      withPlace: (neededBytes, work, child) =>
        withThrowawayPlace(
          agent,
          {
            ...{ stateDir: AGENT_PATHS.state, memoryDirectory: AGENT_PATHS.backupProof },
            ...{ diskDirectory: backupRing(agent).work, neededBytes },
          },
          work,
          child,
        ),
      withSnapshot: (name, snapshot, work, child) => {
        const directory = currentValue(reads.clusterDirectory);
        const config = temporaryEtcdConfig(name, membership, directory, PORTS.proofEtcd);
        return withRestoredSnapshot(agent, config, snapshot, work, child);
      },
      cleanUp: (child) => {
        const layouts = ETCD_NAMES.map((name) => consensusLayout(AGENT_PATHS.state, name));
        const memoryDirectory = AGENT_PATHS.backupProof;
        return removeRestoredSnapshots(agent, { layouts, memoryDirectory }, child);
      },
    };
  });
}

/** The runnable that copies the scheduled backups of this node to the directory or the store that the schedule names. */
export function backupCopyRunnable(agent: Agent): Runnable {
  const writes = agent.valueStore.claim('backupCopies');
  return backupCopyWorker(async (signal) => {
    const { clusterId, nodeId } = await membershipOf(agent, signal);
    return {
      ...agent,
      ...{ clusterId, nodeId, newestSchedule: AGENT_PATHS.newestBackupSchedule, ring: backupRing(agent) },
      writes,
      streams: new DiskStreams(),
      stateEtcd: () => agent.driver.etcdMembers()?.state,
      readStoreCredentials: async (child) => {
        const admin = (await readText(agent.files, PATHS.adminConf)) ?? '';
        using client = new KubeClient(accessFromKubeconfig(admin, PATHS.adminConf), agent);
        return await readStoreCredentials(client, child);
      },
    };
  });
}

function membershipOf({ reads }: Agent, signal: AbortSignal): Promise<Membership> {
  return when(reads.clusterMembership, (known): known is Membership => known !== undefined, signal);
}
