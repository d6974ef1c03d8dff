import { createHash } from 'node:crypto';
import { LOCAL_API_ENDPOINT } from '../../../internal/config/index.ts';
import { PORTS, type HostPort } from '../../../internal/endpoint/index.ts';
import { readText } from '../../../internal/file/index.ts';
import type { SystemPorts } from '../../../internal/platform/index.ts';
import { buildForwarderUnit, ensureForwarder } from '../../units/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';

/**
 * Unit of the program that balances connections to the API servers; it runs on each node
 * (bootstrapper/apilb).
 */
export const APILB_UNIT = 'cluster-apilb.service';
/** Configuration file of the balancer, which reloads the file when it changes. */
export const APILB_CONFIG = '/etc/cluster-apilb/config.json';

const UNIT = buildForwarderUnit({
  description: 'Node-local balancer of the Kubernetes API servers',
  configFile: APILB_CONFIG,
  settings: 'RuntimeDirectory=cluster-apilb',
});

/**
 * Limits for the connections of local programs to the balancer. A node has about twelve clients; each further
 * connection costs 40 kB of memory. Go clients ping a connection that was idle for 30 s, so a connection that
 * is silent for 30 min is abandoned. There is no limit per client because all clients have the same address.
 * There is no maximum age because a watch may last as long as its API server runs.
 */
const LIMITS = {
  connections: 1024,
  perSource: 1024,
  idleMs: 30 * 60_000,
  halfOpenMs: 60_000,
} as const;

/** A control-plane node; all API servers listen on the same port. */
export interface ApiServerHost {
  readonly nodeId: string;
  readonly host: string;
  /** Whether this control-plane node runs an API server. */
  readonly apiServer: boolean;
}

/**
 * Orders the API servers by preference: the API server of this node first, then the others in an order that
 * differs between nodes, so that not all nodes use the same one. If no control plane is known to run an API
 * server, returns all control planes. Pure.
 */
export function orderUpstreams(directory: readonly ApiServerHost[], ownNodeId: string): readonly HostPort[] {
  const running = directory.filter(({ apiServer }) => apiServer);
  const used = running.length > 0 ? running : directory;
  const rankOf = ({ nodeId }: ApiServerHost): string =>
    nodeId === ownNodeId ? '' : createHash('sha256').update(`${ownNodeId} ${nodeId}`).digest('hex');
  return used
    .toSorted((a, b) => (rankOf(a) < rankOf(b) ? -1 : 1))
    .map(({ host }) => ({ host, port: PORTS.apiServer }));
}

/**
 * Runs the balancer of this node for these API servers. The balancer checks the health of the API servers
 * once this node has the CA of their certificates.
 */
export async function ensureBalancer(
  ports: Pick<SystemPorts, 'files' | 'units'>,
  upstreams: readonly HostPort[],
  signal: AbortSignal,
): Promise<void> {
  const caPem = await readText(ports.files, KUBELET_FILES.ca);
  const health = caPem === undefined ? {} : { health: { caPem } };
  const config =
    upstreams.length === 0 ? undefined : { listen: LOCAL_API_ENDPOINT, upstreams, limits: LIMITS, ...health };
  const forwarder = { unit: APILB_UNIT, content: UNIT, configFile: APILB_CONFIG, config };
  await ensureForwarder(ports, forwarder, signal);
}
