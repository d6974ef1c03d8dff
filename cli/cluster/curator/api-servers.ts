import { formatEndpoint, hostOf, PORTS } from '../../../internal/endpoint/index.ts';
import { KubeClient, KubeError, type KubeAccess } from '../../../internal/kube/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from './call-curator.ts';

/** The API server beside a curator of "HOST:PORT". */
export function apiServerUrlOf(curator: string): string {
  return `https://${formatEndpoint(hostOf(curator), PORTS.apiServer)}`;
}

export interface ApiServers {
  /** Rejects when the server of this access does not answer. */
  probe(access: KubeAccess): Promise<void>;
  /** "https://HOST:PORT" of every control plane there is now. */
  list(): Promise<readonly string[]>;
}

/**
 * A kubeconfig names one server, and its node may be a control plane no more: then one that is. Where none answers, or the
 * one of the kubeconfig answers with an error of its own, it stays, for its error tells most.
 */
export async function reachableAccess(access: KubeAccess, servers: ApiServers): Promise<KubeAccess> {
  if (await answers(access, servers)) return access;
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
    return error.code !== 'kube-unreachable' && error.code !== 'kube-failed';
  }
}

/** Those that the curators know of. */
export function knownApiServers(context: CommandContext): ApiServers {
  return {
    probe: async (access) => {
      using client = new KubeClient(access, context.ports);
      await client.getText('/readyz', context.signal);
    },
    list: async () => {
      try {
        const { directory } = await callCurator(context, (_, call, of) =>
          of(Curator).getClusterInfo({}, call),
        );
        return directory
          .filter(({ curatorEndpoint }) => curatorEndpoint !== '')
          .map(({ curatorEndpoint }) => apiServerUrlOf(curatorEndpoint));
      } catch {
        context.signal.throwIfAborted();
        return []; // what the server of the kubeconfig says is the answer then
      }
    },
  };
}
