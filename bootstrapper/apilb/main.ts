import { once } from 'node:events';
import { readFile, rm, watch } from 'node:fs/promises';
import { createServer } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { createLogger, lineSink, ignoreOutputErrors } from '../../internal/logging/index.ts';
import { Balancer } from './balancer.ts';
import { parseForwardRules, type ForwardRule } from './config.ts';
import { ReadyzProbe } from './readyz-probe.ts';

/**
 * Forwards TCP connections: `apilb.mjs CONFIG`. One unit runs this program as the node-local balancer of the
 * API servers; another unit runs it as the relay to control planes. The program reloads its configuration
 * file when the file changes, and does not need the agent to run. If RUNTIME_DIRECTORY is set
 * (systemd.exec(5)), it serves the health of the servers on `health.sock` in that directory.
 */
const path = process.argv[2] ?? '/etc/cluster-apilb/config.json';
/** Only the agent and an operator on this node connect to the socket. */
const MAX_CONNECTIONS = 8;
const runtime = process.env['RUNTIME_DIRECTORY'];
const clock = new SystemClock();
ignoreOutputErrors(process.stderr); // Node.js writes its warnings to stderr
const log = createLogger({
  path: 'apilb',
  nowMs: () => clock.nowMs(),
  sink: lineSink(process.stdout),
});

for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => process.exit(0));

// The kernel queues file changes from here on, so that a write during the start is not missed.
const changes = watch(dirname(path))[Symbol.asyncIterator]();
const first = changes.next();
const balancers = new Map<string, Balancer>();
const checked = new Map<Balancer, string>();
for (const rule of parseForwardRules(await readFile(path, 'utf8'))) {
  const balancer = new Balancer({ rule, clock, log });
  await checkHealth(balancer, rule);
  await balancer.listen(rule.listen);
  balancers.set(fixedPartOf(rule), balancer);
  const { listen, upstreams, limits } = rule;
  log.info('listening', { listen, upstreams, limits, health: rule.health !== undefined });
}
if (runtime !== undefined) {
  const socket = join(runtime, 'health.sock');
  await rm(socket, { force: true }); // the socket of an earlier run that was killed
  await serveHealth(socket, () =>
    JSON.stringify({ upstreams: [...balancers.values()].flatMap((balancer) => balancer.states()) }),
  );
}

for (let change = await first; change.done !== true; change = await changes.next()) {
  if (change.value.filename !== basename(path)) continue;
  try {
    const rules = parseForwardRules(await readFile(path, 'utf8'));
    if (rules.map(fixedPartOf).join() !== [...balancers.keys()].join()) {
      log.warn('addresses or limits changed, restarting', {});
      process.exit(0); // systemd restarts the program
    }
    for (const rule of rules) {
      const balancer = balancers.get(fixedPartOf(rule));
      balancer?.replace(rule.upstreams);
      if (balancer !== undefined) await checkHealth(balancer, rule);
    }
    log.info('using a new list of servers', { upstreams: rules.map(({ upstreams }) => upstreams) });
  } catch (error) {
    log.warn('new configuration is invalid, keeping the previous one', { error });
  }
}

/**
 * The part of a rule that can change only with a restart. Servers and health checks may change at run time.
 */
function fixedPartOf({ listen, limits, announcesClients }: ForwardRule): string {
  return JSON.stringify([listen, limits, announcesClients]);
}

async function checkHealth(balancer: Balancer, { health }: ForwardRule): Promise<void> {
  if (health === undefined || checked.get(balancer) === health.caPem) return;
  checked.set(balancer, health.caPem);
  const probe = new ReadyzProbe(await import('node:tls'), health.caPem);
  balancer.checkHealth({ probe, random: Math.random });
}

/** Sends the current result of `render` to every client that connects, and closes the connection. */
async function serveHealth(path: string, render: () => string): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.resume();
    socket.end(render());
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.listen(path);
  await once(server, 'listening');
}
