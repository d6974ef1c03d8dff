import { createHash } from 'node:crypto';
import { LOCAL_API_ENDPOINT } from '../../../internal/config/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { APILB_CONFIG, APILB_UNIT, buildApilbUnit } from '../node/units.ts';

const MAX_BYTES = 64 * 1024;

/**
 * What the programs of this node may take of its balancer. A node has a dozen clients; one connection more costs 40 kB. Go's
 * clients send a ping on a connection that was idle for 30 seconds, so what says nothing for half an hour is abandoned.
 * There are no shares and no age: all clients have the same address, and a watch may live as long as its API server.
 */
const APILB_LIMITS = {
  connections: 1024,
  perSource: 1024,
  idleMs: 30 * 60_000,
  halfOpenMs: 60_000,
} as const;

/** Where an API server is to be found; no port: all listen on the same. */
export interface ApiServerHost {
  readonly nodeId: string;
  readonly host: string;
  readonly apiServer: boolean;
}

/** The API servers to use, the own one first; all control planes where none is known to run one. */
export function orderUpstreams(
  directory: readonly ApiServerHost[],
  ownNodeId: string,
): readonly { readonly host: string; readonly port: number }[] {
  const running = directory.filter(({ apiServer: apiServer }) => apiServer);
  const used = running.length > 0 ? running : directory;
  const own = used.filter(({ nodeId }) => nodeId === ownNodeId);
  // Each node in another order, or all of them would use the same one.
  const rankOf = ({ nodeId }: ApiServerHost): string =>
    createHash('sha256').update(`${ownNodeId} ${nodeId}`).digest('hex');
  const others = used
    .filter(({ nodeId }) => nodeId !== ownNodeId)
    .toSorted((a, b) => (rankOf(a) < rankOf(b) ? -1 : 1));
  return [...own, ...others].map(({ host }) => ({ host, port: PORTS.apiServer }));
}

/** Writes what the balancer follows, without a restart; starts it where it does not run. */
export async function ensureBalancer(
  ports: { readonly files: FilePort; readonly units: UnitPort },
  upstreams: readonly { readonly host: string; readonly port: number }[],
  signal: AbortSignal,
): Promise<void> {
  const { files, units } = ports;
  const health = await healthOf(files);
  const written = `${JSON.stringify({ listen: LOCAL_API_ENDPOINT, upstreams, limits: APILB_LIMITS, ...health })}\n`;
  const found = await files.read(APILB_CONFIG, MAX_BYTES);
  const isKnown = found !== undefined && Buffer.from(found).toString('utf8') === written;
  if (upstreams.length === 0 && found === undefined) return;
  // Nothing to follow is no reason to forget what is known, nor to leave it unused after a reboot.
  if (upstreams.length > 0 && !isKnown) {
    await files.makeDirectory(APILB_CONFIG.slice(0, APILB_CONFIG.lastIndexOf('/')), 0o755);
    await files.writeAtomic(APILB_CONFIG, written, { mode: 0o644 });
  }
  // One that runs as an earlier version wrote it is restarted once: its clients connect again at once.
  if (await units.install(APILB_UNIT, buildApilbUnit(), signal)) await units.restart(APILB_UNIT, signal);
  else await units.start(APILB_UNIT, signal);
}

/** The balancer asks API servers for their health once this node knows who signed their certificates. */
async function healthOf(files: FilePort): Promise<{ readonly health?: { readonly caPem: string } }> {
  const ca = await files.read(KUBELET_FILES.ca, MAX_BYTES);
  return ca === undefined ? {} : { health: { caPem: Buffer.from(ca).toString('utf8') } };
}
