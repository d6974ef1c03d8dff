import { PORTS } from '../../internal/endpoint/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { NODE_MEMORY, SERVICE_SANDBOX, type UnitPort } from '../../internal/platform/index.ts';

export const RELAY_UNIT = 'cluster-relay.service';
/** In a directory that its unprivileged user may enter. */
const CONFIG = '/etc/cluster-relay/config.json';
const MAX_BYTES = 64 * 1024;

/**
 * What strangers may take of each of the two. Whoever has found its way goes to the control planes themselves, at the latest
 * when its connection is cut for its age.
 */
const LIMITS = {
  connections: 128,
  perSource: 16,
  idleMs: 60_000,
  halfOpenMs: 10_000,
  lifeMs: 600_000,
} as const;

/** The configuration of the program (bootstrapper/apilb) that passes connections on. */
function passagesOf(controlPlanes: readonly string[]) {
  const passage = (port: number, to: number) => ({
    // Where other nodes reach this one may be no address of its own, as in clouds.
    listen: { host: '0.0.0.0', port },
    upstreams: controlPlanes.map((each) => ({ host: each, port: to })),
    limits: LIMITS,
  });
  return [passage(PORTS.curatorRelay, PORTS.curator), passage(PORTS.joinRelay, PORTS.join)];
}

/** Writes what the relay follows, without a restart; starts it where it does not run. */
export async function ensureRelay(
  ports: { readonly files: FilePort; readonly units: UnitPort },
  controlPlanes: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { files, units } = ports;
  const written = `${JSON.stringify({ passages: passagesOf(controlPlanes) })}\n`;
  const found = await files.read(CONFIG, MAX_BYTES);
  const isKnown = found !== undefined && Buffer.from(found).toString('utf8') === written;
  // Nothing to follow is no reason to forget what is known, nor to leave it unused.
  if (controlPlanes.length === 0 && found === undefined) return;
  if (controlPlanes.length > 0 && !isKnown) {
    await files.makeDirectory(CONFIG.slice(0, CONFIG.lastIndexOf('/')), 0o755);
    await files.writeAtomic(CONFIG, written, { mode: 0o644 });
  }
  await units.install(RELAY_UNIT, buildRelayUnit(), signal);
  await units.start(RELAY_UNIT, signal);
}

/** It may take little of the machine, and is the first to go when memory is short. */
function buildRelayUnit(): string {
  return `[Unit]
Description=Relay to the control planes, for nodes that were off for long
After=network.target
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/lib/cluster/node --optimize-for-size --no-maglev --max-semi-space-size=1 --max-old-space-size=64 /usr/lib/cluster/apilb.mjs ${CONFIG}
DynamicUser=yes
CPUWeight=20
MemoryMax=192M
TasksMax=64
OOMScoreAdjust=500
${SERVICE_SANDBOX}
${NODE_MEMORY}
Restart=always
RestartSec=1
`;
}
