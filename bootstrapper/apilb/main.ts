import { readFile, rm, watch } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { createLogger, lineSink, ignoreOutputErrors } from '../../internal/logging/index.ts';
import { Balancer } from './balancer.ts';
import { parseForwardRules, type ForwardRule } from './config.ts';
import { serveHealth } from './health-socket.ts';
import { ReadyzProbe } from './readyz-probe.ts';

/**
 * Passes TCP connections on: `apilb.mjs CONFIG`. The node-local balancer of the API servers, and in a unit of its own the
 * relay to control planes. Follows its configuration file; lives without the agent. With a RUNTIME_DIRECTORY
 * (systemd.exec(5)) it tells there, on `health.sock`, how the servers are.
 */
const path = process.argv[2] ?? '/etc/cluster-apilb/config.json';
const runtime = process.env['RUNTIME_DIRECTORY'];
const clock = new SystemClock();
ignoreOutputErrors(process.stderr); // Node's own warnings
const log = createLogger({
  path: 'apilb',
  nowMs: () => clock.nowMs(),
  sink: lineSink(process.stdout),
});

for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => process.exit(0));

// The kernel takes notes from here on: what is written while this program starts is not missed.
const changes = watch(dirname(path))[Symbol.asyncIterator]();
const first = changes.next();
const balancers = new Map<string, Balancer>();
const checked = new Map<Balancer, string>();
for (const passage of parseForwardRules(await readFile(path, 'utf8'))) {
  const balancer = new Balancer({ passage, clock, log });
  await checkHealth(balancer, passage);
  await balancer.listen(passage.listen);
  balancers.set(fixedPartOf(passage), balancer);
  const { listen, upstreams, limits } = passage;
  log.info('listening', { listen, upstreams, limits, health: passage.health !== undefined });
}
if (runtime !== undefined) {
  const socket = join(runtime, 'health.sock');
  await rm(socket, { force: true }); // of an earlier run, which was killed
  await serveHealth(socket, () =>
    JSON.stringify({ upstreams: [...balancers.values()].flatMap((balancer) => balancer.states()) }),
  );
}

for (let change = await first; change.done !== true; change = await changes.next()) {
  if (change.value.filename !== basename(path)) continue;
  try {
    const passages = parseForwardRules(await readFile(path, 'utf8'));
    if (passages.map(fixedPartOf).join() !== [...balancers.keys()].join()) {
      log.warn('other addresses or limits: starting over', {});
      process.exit(0); // its unit starts it again
    }
    for (const passage of passages) {
      const balancer = balancers.get(fixedPartOf(passage));
      balancer?.replace(passage.upstreams);
      if (balancer !== undefined) await checkHealth(balancer, passage);
    }
    log.info('following a new list of servers', { upstreams: passages.map(({ upstreams }) => upstreams) });
  } catch (error) {
    log.warn('the new configuration is unusable; the old one stays in force', { error });
  }
}

/** What a balancer is made with; its servers, and whether they are asked for their health, may change while it runs. */
function fixedPartOf({ listen, limits }: ForwardRule): string {
  return JSON.stringify([listen, limits]);
}

async function checkHealth(balancer: Balancer, { health }: ForwardRule): Promise<void> {
  if (health === undefined || checked.get(balancer) === health.caPem) return;
  checked.set(balancer, health.caPem);
  const probe = new ReadyzProbe(await import('node:tls'), health.caPem);
  balancer.checkHealth({ probe, random: Math.random });
}
