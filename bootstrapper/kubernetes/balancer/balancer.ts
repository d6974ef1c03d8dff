import { createHash } from 'node:crypto';
import { LOCAL_API_ENDPOINT } from '../../../internal/config/index.ts';
import { PORTS, type HostPort } from '../../../internal/endpoint/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { buildForwarderUnit, ensureForwarder, type ServiceUnits } from '../../units/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';

/** The balancer of the API servers on each node (bootstrapper/apilb). */
export const APILB_UNIT = 'cluster-apilb.service';
/** The configuration that it follows. */
export const APILB_CONFIG = '/etc/cluster-apilb/config.json';

const MAX_CA_BYTES = 64 * 1024;
const UNIT = buildForwarderUnit({
  description: 'Node-local balancer of the Kubernetes API servers',
  configFile: APILB_CONFIG,
  settings: 'RuntimeDirectory=cluster-apilb',
});

/**
 * What the programs of this node may use of its balancer. A node has a dozen clients; one more connection costs 40 kB. Go
 * clients ping a connection that was idle for 30 s, so a connection that is silent for 30 min is abandoned. There is no
 * limit per client and no maximum age: all clients have the same address, and a watch may live as long as its API server.
 */
const LIMITS = {
  connections: 1024,
  perSource: 1024,
  idleMs: 30 * 60_000,
  halfOpenMs: 60_000,
} as const;

/** A control plane; all API servers listen on the same port. */
export interface ApiServerHost {
  readonly nodeId: string;
  readonly host: string;
  /** Whether it runs an API server. */
  readonly apiServer: boolean;
}

/**
 * The API servers in order of preference: the one of this node first, then the others in an order that differs from node to
 * node, so that not all nodes use the same one. All control planes where none is known to run an API server. Pure.
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

/** Runs the balancer of this node for these API servers. It checks their health once this node has the CA of their certificates. */
export async function ensureBalancer(
  ports: { readonly files: FilePort; readonly units: ServiceUnits },
  upstreams: readonly HostPort[],
  signal: AbortSignal,
): Promise<void> {
  const ca = await ports.files.read(KUBELET_FILES.ca, MAX_CA_BYTES);
  const health = ca === undefined ? {} : { health: { caPem: Buffer.from(ca).toString('utf8') } };
  const config =
    upstreams.length === 0 ? undefined : { listen: LOCAL_API_ENDPOINT, upstreams, limits: LIMITS, ...health };
  const forwarder = { unit: APILB_UNIT, content: UNIT, configFile: APILB_CONFIG, config };
  await ensureForwarder(ports, forwarder, signal);
}
