import { readFile, watch } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { createLogger, lineSink, outlive } from '../../internal/logging/index.ts';
import { Balancer } from './balancer.ts';
import { parsePassages, type Passage } from './config.ts';

/**
 * Passes TCP connections on: `apilb.mjs CONFIG`. The node-local balancer of the API servers, and in a unit of its own the
 * relay to control planes. Follows its configuration file; lives without the agent.
 */
const path = process.argv[2] ?? '/etc/cluster-apilb/config.json';
const clock = new SystemClock();
outlive(process.stderr); // Node's own warnings
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
for (const passage of parsePassages(await readFile(path, 'utf8'))) {
  const balancer = new Balancer({ passage, clock, log });
  await balancer.listen(passage.listen);
  balancers.set(placeOf(passage), balancer);
  log.info('listening', { ...passage });
}

for (let change = await first; change.done !== true; change = await changes.next()) {
  if (change.value.filename !== basename(path)) continue;
  try {
    const passages = parsePassages(await readFile(path, 'utf8'));
    if (passages.map(placeOf).join() !== [...balancers.keys()].join()) {
      log.warn('other places to listen at: starting over', {});
      process.exit(0); // its unit starts it again
    }
    for (const passage of passages) balancers.get(placeOf(passage))?.replace(passage.upstreams);
    log.info('following a new list of servers', { upstreams: passages.map(({ upstreams }) => upstreams) });
  } catch (error) {
    log.warn('the new configuration is unusable; the old one stays in force', { error });
  }
}

function placeOf({ listen }: Passage): string {
  return `${listen.host} ${listen.port}`;
}
