import {
  ATLS_TIMERS,
  atlsServerUpgrade,
  RotatingKeys,
  type AttestedPeer,
  type Trust,
  JOIN_CONTEXT,
} from '../../internal/atls/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { plainAddress } from '../../internal/endpoint/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { RpcServer } from '../../internal/rpc/index.ts';
import type { JoinService } from '../join/index.ts';

/** Connections of attested machines, most of which wait for a decision. */
const MAX_CONNECTIONS = 4_096;
/** A machine makes one call at a time; each stream costs memory. */
const MAX_CALLS = 4;
/** A machine that waits for days sends new evidence each hour. */
const MAX_CONNECTION_AGE_MS = 60 * 60 * 1000;
/**
 * A whole rack of machines joins at the same time, and this process has one thread and a TPM that makes one
 * quote at a time. So only a few handshakes run at the same time and none times out; the other connections
 * wait at little cost.
 */
const PENDING = { maxHandshakes: 32, maxWaiting: 1_024, maxWaitMs: 40_000 };
/**
 * `PENDING` limits the handshakes, so attested TLS itself refuses none. The evidence socket of the agent
 * accepts 160 at once.
 */
const HANDSHAKES = { maxPending: PENDING.maxHandshakes, maxPendingPerSource: PENDING.maxHandshakes };
const TIMERS = { ...ATLS_TIMERS, tlsMs: 8_000, helloMs: 8_000, wholeMs: 30_000 };

/** The evidence that this end shows and accepts. */
export type JoinTrust = Pick<Extract<Trust, { trust: 'mutual' }>, 'shows' | 'accepts'>;

/** Dependencies of the listener. */
export interface JoinServerParts {
  readonly join: JoinService;
  readonly trust: JoinTrust;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

/** The RPC server for joining machines: both ends verify evidence before the first call is served. */
export function createJoinServer(parts: JoinServerParts): RpcServer<AttestedPeer> {
  const { join, trust, clock, log } = parts;
  const upgrade = atlsServerUpgrade({
    trust: { trust: 'mutual', ...trust, rules: () => join.rules() },
    context: JOIN_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
    limits: HANDSHAKES,
    timers: TIMERS,
  });
  return new RpcServer<AttestedPeer>({
    clock,
    upgrade: async (socket, signal) => {
      const address = plainAddress(socket.remoteAddress ?? '');
      try {
        return await upgrade(socket, signal);
      } catch (error) {
        auditRefusal(parts, error, address);
        throw error;
      }
    },
    services: [join.service],
    disclose: 'code',
    log,
    maxConnections: MAX_CONNECTIONS,
    pending: PENDING,
    maxCallsPerConnection: MAX_CALLS,
    maxConnectionAgeMs: MAX_CONNECTION_AGE_MS,
  });
}

/** Writes refused evidence to the audit log. A broken connection is not a refusal. */
function auditRefusal({ join, log, signal }: JoinServerParts, error: unknown, address: string): void {
  const outer = findCoded(error);
  if (outer?.code !== 'atls-evidence-rejected') return;
  const cause = findCoded(outer.cause);
  const { expected, actual } = cause?.details ?? {};
  const subject = `address:${address}`;
  const code = cause?.code ?? outer.code;
  join.refusals
    .write({ method: 'Attest', subject, code, detail: { expected, actual }, source: address }, signal)
    .catch((reason: unknown) => log.error('writing a refusal to the audit log failed', { error: reason }));
}
