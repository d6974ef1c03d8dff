import {
  ATLS_TIMERS,
  atlsServerUpgrade,
  RotatingKeys,
  type AttestedPeer,
  type Trust,
  JOIN_CONTEXT,
} from '../../internal/atls/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { RpcServer, type Upgrade } from '../../internal/rpc/index.ts';
import type { JoinService } from '../join/index.ts';

/** Machines that have proved themselves; most of them wait for a decision. */
const MAX_CONNECTIONS = 4_096;
/** A machine asks for one thing at a time; each stream costs memory, and there is no other bound to them. */
const MAX_CALLS = 4;
/** A machine that waits for days proves itself anew each hour. */
const MAX_CONNECTION_AGE_MS = 60 * 60 * 1000;
/**
 * Joiners arrive by the rack. This end has one thread and one TPM, which takes a quote at a time: those that prove
 * themselves at once are so few that none runs out of time, and the others wait where it costs nothing.
 */
const PENDING = { maxHandshakes: 32, maxWaiting: 1_024, maxWaitMs: 40_000 };
/** The room decides who comes; beyond it nobody is turned away. The agent's evidence socket takes 160 at once. */
const HANDSHAKES = { maxPending: PENDING.maxHandshakes, maxPendingPerSource: PENDING.maxHandshakes };
const PATIENCE = { ...ATLS_TIMERS, tlsMs: 8_000, helloMs: 8_000, wholeMs: 30_000 };

export type JoinTrust = Pick<Extract<Trust, { trust: 'mutual' }>, 'shows' | 'accepts'>;

/** The port that strangers reach: both ends prove themselves before one call is served. */
export function createJoinServer(parts: {
  readonly join: JoinService;
  readonly trust: JoinTrust;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}): RpcServer<AttestedPeer> {
  const { join, trust, clock, log, signal } = parts;
  const upgrade = atlsServerUpgrade({
    trust: { trust: 'mutual', ...trust, rules: () => join.rules() },
    context: JOIN_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
    limits: HANDSHAKES,
    timers: PATIENCE,
  });
  return new RpcServer<AttestedPeer>({
    clock,
    upgrade: telling(upgrade, (error, address) => tell({ join, log, signal }, error, address)),
    services: [join.service],
    disclose: 'code',
    log,
    maxConnections: MAX_CONNECTIONS,
    pending: PENDING,
    maxCallsPerConnection: MAX_CALLS,
    maxConnectionAgeMs: MAX_CONNECTION_AGE_MS,
  });
}

/** The same upgrade, and somebody is told when it refuses. */
function telling<P>(upgrade: Upgrade<P>, onRefused: (error: unknown, address: string) => void): Upgrade<P> {
  return async (socket, signal) => {
    const address = socket.remoteAddress ?? '';
    try {
      return await upgrade(socket, signal);
    } catch (error) {
      onRefused(error, address);
      throw error;
    }
  };
}

/** Evidence that did not pass is a decision about a machine. A broken connection is not. */
function tell(
  { join, log, signal }: { readonly join: JoinService; readonly log: Logger; readonly signal: AbortSignal },
  error: unknown,
  address: string,
): void {
  const outer = findCoded(error);
  if (outer?.code !== 'atls-evidence-rejected') return;
  const cause = findCoded(outer.cause);
  const { expected, actual } = cause?.details ?? {};
  join.refusals
    .write(
      {
        method: 'Attest',
        subject: `address:${address}`,
        code: cause?.code ?? outer.code,
        detail: { expected, actual },
        address,
      },
      signal,
    )
    .catch((reason: unknown) => log.error('a refusal could not be written down', { error: reason }));
}
