import { TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import { formatEndpoint, hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { KubeClient, KubeError, type KubeAccess } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { currentKubeAccess } from '../kubeconfig/renew-kubeconfig.ts';
import { callCurator } from './call-curator.ts';

/** An API server that runs responds within milliseconds; a machine that is off never responds. */
const PROBE_MS = 1_500;

/** URL of the API server on the control plane of a curator "HOST:PORT". */
export function apiServerUrlOf(curator: string): string {
  return `https://${formatEndpoint(hostOf(curator), PORTS.apiServer)}`;
}

/**
 * The access of the kubeconfig, at an API server that responds, because the node that the kubeconfig names may be off.
 */
export async function servingAccess(context: CommandContext): Promise<KubeAccess> {
  return reachableAccess(await currentKubeAccess(context), knownApiServers(context));
}

/**
 * Reads from the API server of the kubeconfig. If it does not respond in time, reads from another one that does: a probe before each
 * read would take as long as the read.
 * @param read may be called twice
 */
export async function readFromServing<T>(
  context: CommandContext,
  read: (client: KubeClient, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { clock } = context.ports;
  const access = await currentKubeAccess(context);
  const waiting = { what: `reading from ${access.server}`, ms: PROBE_MS, clock, signal: context.signal };
  try {
    return await withTimeout(waiting, async (signal) => {
      using client = new KubeClient(access, context.ports);
      return await read(client, signal);
    });
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof TimeoutError) && !isSilence(error)) throw error;
  }
  using client = new KubeClient(await otherAccess(access, knownApiServers(context)), context.ports);
  return await read(client, context.signal);
}

/** API servers of the cluster. */
export interface ApiServers {
  /** Rejects if the server does not respond. */
  probe(access: KubeAccess): Promise<void>;
  /** "https://HOST:PORT" of every control plane. */
  list(): Promise<readonly string[]>;
}

/**
 * The server of the kubeconfig, or another one if it does not respond, because its node may have been
 * demoted. If no server responds, returns the server of the kubeconfig, whose error is the most useful one.
 */
export async function reachableAccess(access: KubeAccess, servers: ApiServers): Promise<KubeAccess> {
  return (await answers(access, servers)) ? access : otherAccess(access, servers);
}

/** Another server that responds; without one, the server of the kubeconfig. */
async function otherAccess(access: KubeAccess, servers: ApiServers): Promise<KubeAccess> {
  for (const server of await servers.list()) {
    const other = { ...access, server };
    if (server !== access.server && (await answers(other, servers))) return other;
  }
  return access;
}

async function answers(access: KubeAccess, servers: ApiServers): Promise<boolean> {
  try {
    await servers.probe(access);
    return true;
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    return !isSilence(error);
  }
}

/** Whether another API server may answer. */
function isSilence(error: unknown): boolean {
  return error instanceof KubeError && ['kube-unreachable', 'kube-failed'].includes(error.code);
}

/** The API servers of the control planes that curators list. */
export function knownApiServers(context: CommandContext): ApiServers {
  return {
    probe: async (access) => {
      using client = new KubeClient(access, context.ports);
      const { clock } = context.ports;
      const waiting = { what: `probing ${access.server}`, ms: PROBE_MS, clock, signal: context.signal };
      await withTimeout(waiting, (signal) => client.getText('/readyz', signal)).catch((cause: unknown) => {
        if (!(cause instanceof TimeoutError)) throw cause;
        throw new KubeError('kube-unreachable', waiting.what, { cause });
      });
    },
    list: async () => {
      try {
        const { directory } = await callCurator(context, ({ curator }) => curator.getClusterInfo({}));
        return directory
          .filter(({ curatorEndpoint }) => curatorEndpoint !== '')
          .map(({ curatorEndpoint }) => apiServerUrlOf(curatorEndpoint));
      } catch {
        context.signal.throwIfAborted();
        return []; // the server of the kubeconfig is the only candidate
      }
    },
  };
}
