import { listenHost, PORTS } from '../../internal/endpoint/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { buildForwarderUnit, ensureForwarder } from './forwarder-unit.ts';

/**
 * Unit of the relay. It forwards connections to curators and join services for nodes that know no current
 * control plane.
 */
export const RELAY_UNIT = 'cluster-relay.service';
const CONFIG_FILE = '/etc/cluster-relay/config.json';

/**
 * Limits for untrusted peers, for each forward rule. A node that has learned the control planes connects to
 * them directly, at the latest when the relay closes the node's connection at its maximum age.
 */
const LIMITS = {
  connections: 128,
  perSource: 16,
  idleMs: 60_000,
  halfOpenMs: 10_000,
  lifeMs: 600_000,
} as const;

/**
 * The relay's unit file. The relay may use few resources, and the kernel kills it first if memory is short.
 */
const UNIT = buildForwarderUnit({
  description: 'Relay to the control planes, for nodes that were off for long',
  configFile: CONFIG_FILE,
  settings: 'CPUWeight=20\nMemoryMax=192M\nTasksMax=64\nOOMScoreAdjust=500',
});

/** Runs the relay of this worker. */
export async function ensureRelay(
  ports: Pick<SystemPorts, 'files' | 'units'>,
  {
    nodeAddress,
    controlPlanes,
  }: {
    readonly nodeAddress: string;
    /** Hosts, in order of preference; empty if none is known. */
    readonly controlPlanes: readonly string[];
  },
  signal: AbortSignal,
): Promise<void> {
  const rule = (listen: number, port: number) => ({
    listen: { host: listenHost(nodeAddress), port: listen },
    upstreams: controlPlanes.map((host) => ({ host, port })),
    limits: LIMITS,
    // The control plane then knows the clients of this relay, and limits the connections of each client separately.
    announcesClients: true,
  });
  const passages = [rule(PORTS.curatorRelay, PORTS.curator), rule(PORTS.joinRelay, PORTS.join)];
  const config = controlPlanes.length === 0 ? undefined : { passages };
  await ensureForwarder(ports, { unit: RELAY_UNIT, content: UNIT, configFile: CONFIG_FILE, config }, signal);
}
