import { currentValue } from '../../internal/event/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import {
  AGENT_SOCKET,
  agentSocketRunnable,
  consoleRunnable,
  initServerRunnable,
} from '../machineservice/index.ts';
import { outcomeRunnable, ownershipRunnable } from '../ownership/index.ts';
import { ownAddressRunnable } from '../preflight/index.ts';
import type { Agent } from './agent-parts.ts';

/**
 * The runnables of a machine that is not a member yet: the init port, the agent socket, the fingerprint on
 * the console.
 */
export function entryRunnables(agent: Agent): Readonly<Record<string, Runnable>> {
  const { job, enrolment, reads, driver, machine } = agent;
  return {
    initserver: initServerRunnable({
      ...{ ...agent, blobs: agent.uploads },
      reportChecks: (query) => agent.checks.report(query),
      enrolmentState: () => currentValue(enrolment.status)?.state ?? 'New',
      enrolmentFailure: () => {
        const status = currentValue(enrolment.status);
        return status?.state === 'Failed' ? status.reason : undefined;
      },
    }),
    agentsocket: agentSocketRunnable(AGENT_SOCKET, agent),
    console: consoleRunnable(agent),
    outcome: outcomeRunnable(agent),
    ownership: ownershipRunnable({
      ...{ ...agent, localControlPlane: reads.localControlPlane },
      save: (ownership, signal) => driver.saveOwnership(ownership, signal),
      load: (signal) => driver.loadOwnership(signal),
    }),
    address: ownAddressRunnable({
      ...agent,
      addresses: () => machine.addresses(),
      boundAddress: () =>
        currentValue(reads.clusterMembership)?.nodeAddress ?? currentValue(job.accepted)?.nodeAddress,
      isInitInProgress: agent.isCreatingCluster,
    }),
  };
}
