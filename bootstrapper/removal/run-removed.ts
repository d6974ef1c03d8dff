import { untilAborted } from '../../internal/cleanup/index.ts';
import { supervise } from '../../internal/supervisor/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { RemovalRecord } from '../membership/index.ts';
import { AGENT_SOCKET, refusingSocketRunnable, showOnConsole } from '../machineservice/index.ts';
import { stopWorkloads } from '../reset/index.ts';
import { RemovalError } from './errors.ts';

const GRACE_MS = 10_000;

/** Ports (injected dependencies) of a removed machine. */
interface RemovedPorts extends SystemPorts {
  readonly random: () => number;
}

/**
 * Runs the agent of a removed machine: stops all units of the node. Then reports on the console, at the agent socket
 * and to systemd that the machine was removed, until the signal fires.
 */
export async function runRemoved(
  ports: RemovedPorts,
  removal: RemovalRecord,
  options: {
    readonly onReady: (status: string) => Promise<void>;
    readonly signal: AbortSignal;
    /** Default: the socket of the agent. */
    readonly socket?: string;
  },
): Promise<void> {
  const { onReady, signal, socket = AGENT_SOCKET } = options;
  const log = ports.log.child('removal');
  const { clusterName, nodeName, foundMs } = removal;
  const since = new Date(foundMs).toISOString();
  const reason = new RemovalError(
    'removal-removed',
    `this machine was node ${nodeName} of cluster ${clusterName}, which has removed it (found ${since})`,
    { details: { clusterName, nodeName } },
  );
  log.warn('this machine was removed from its cluster, stopping what it ran', { clusterName, nodeName });
  await stopWorkloads({ ...ports, log }, signal);
  const supervision = supervise({
    ...ports,
    graceMs: GRACE_MS,
    signal,
    root: async (scope) => {
      scope.run('agentsocket', refusingSocketRunnable(socket, { ...ports, reason }));
      scope.run('console', showOnConsole(ports, consoleText(removal)));
      scope.healthy();
      await onReady(`removed: ${reason.message}. Nothing of the cluster runs here. Fix: ${reason.fix}`);
      scope.waiting('a reset');
      await untilAborted(scope.signal);
    },
  });
  await supervision.finished;
}

/** The text above the login prompts. agetty interprets backslashes; names of nodes and clusters contain none. */
function consoleText({ clusterName, nodeName }: RemovalRecord): string {
  return [
    `This machine was node ${nodeName} of cluster ${clusterName}, which has removed it.`,
    'Nothing of the cluster runs here. Its data is still on the disk: reset the machine, or erase the disk.',
    '',
    '',
  ].join('\n');
}
