import { readFile, watch } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { SystemClock } from '../../internal/clock/index.ts';
import { createLogger, lineSink, outlive } from '../../internal/logging/index.ts';
import { Balancer } from './balancer.ts';
import { parseApilbConfig } from './upstreams.ts';

/** The node-local balancer: `apilb.mjs CONFIG`. Follows its configuration file; lives without the agent. */
const path = process.argv[2] ?? '/etc/cluster-apilb/config.json';
const clock = new SystemClock();
outlive(process.stderr); // Node's own warnings
const log = createLogger({
  path: 'apilb',
  nowMs: () => clock.nowMs(),
  sink: lineSink(process.stdout),
});

// The kernel takes notes from here on: what is written while this program starts is not missed.
const changes = watch(dirname(path))[Symbol.asyncIterator]();
const first = changes.next();
const config = parseApilbConfig(await readFile(path, 'utf8'));
const balancer = new Balancer({ upstreams: config.upstreams, clock, log });
await balancer.listen(config.listen);
log.info('listening', { ...config });

for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => process.exit(0));

for (let change = await first; change.done !== true; change = await changes.next()) {
  if (change.value.filename !== basename(path)) continue;
  try {
    const { upstreams } = parseApilbConfig(await readFile(path, 'utf8'));
    balancer.replace(upstreams);
    log.info('following a new list of API servers', { upstreams });
  } catch (error) {
    log.warn('the new configuration is unusable; the old one stays in force', { error });
  }
}
