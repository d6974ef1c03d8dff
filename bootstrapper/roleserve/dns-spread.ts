import type { Readable } from '../../internal/event/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import type { Scope } from '../../internal/supervisor/index.ts';
import { spreadDns } from '../kubernetes/index.ts';
import { nextWithin } from './next-within.ts';

/** A node that has just joined is ready within a few of these pauses. */
const FIRST_PAUSE_MS = 15_000;
/** The other nodes may be off for days, or have taints that CoreDNS does not tolerate. */
const MAX_PAUSE_MS = 600_000;

/**
 * Distributes the pods of CoreDNS over the nodes, and ends then. Asks Kubernetes only once the records have a second node.
 * @param reads `nodes`: the members on record, by name
 */
export async function spreadDnsOnce(
  { clock, commands }: Pick<SystemPorts, 'clock' | 'commands'>,
  { nodes }: { readonly nodes: Readable<ReadonlyMap<string, unknown>> },
  scope: Scope,
): Promise<void> {
  const { signal, log } = scope;
  const watcher = nodes.watch();
  scope.healthy();
  scope.waiting('a second node');
  let pauseMs = FIRST_PAUSE_MS;
  for (let known = await watcher.next(signal); ;) {
    const outcome = known.size < 2 ? 'waiting' : await spreadDns(commands, signal);
    if (outcome === 'spread') log.info('distributed the pods of CoreDNS over the nodes');
    if (outcome !== 'waiting') return scope.done();
    scope.waiting('a second node that can run CoreDNS');
    const changed =
      known.size < 2 ? await watcher.next(signal) : await nextWithin(watcher, pauseMs, clock, signal);
    pauseMs = changed === undefined ? Math.min(2 * pauseMs, MAX_PAUSE_MS) : FIRST_PAUSE_MS;
    known = changed ?? known;
  }
}
