import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  ClusterSpecSchema,
  InitEvent,
  InitFailure,
  InitResult,
} from '../../../initproto/gen/init_pb.js';
import { childSignal, TimeoutError, withTimeout } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { CodedError, type ExitName } from '../../../internal/errors/index.ts';
import { RpcError } from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { retryConnection } from '../retry-connection.ts';
import { PhaseView } from './phase-view.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { InitSession } from '../machine/init-session.ts';

/** The machine sends a heartbeat every 5 s; a connection that is silent for longer than this is considered broken. */
const STALL_MS = 20_000;
const CODE = /^[a-z][a-z0-9-]{0,63}$/;

/** The init to start or attach to. */
export interface FollowOptions {
  readonly session: InitSession;
  readonly initId: string;
  readonly spec: MessageInitShape<typeof ClusterSpecSchema>;
  /** Maps an error code of the machine to the exit code of this program. */
  readonly exitOf: (code: string) => ExitName | undefined;
}

/**
 * Starts the init on the machine, or attaches to it, and shows its progress until there is a result. After a lost connection it
 * reconnects and continues with the first event it has not seen.
 * @throws CodedError with the machine's code when a phase failed; RemoteError when the machine refuses; `cluster-unreachable`
 */
export async function followInit(context: CommandContext, options: FollowOptions): Promise<InitResult> {
  const { session, initId, spec } = options;
  const view = new PhaseView(context.host);
  let seen = 0n;
  let connections = 0;
  try {
    const result = await retryConnection(
      {
        clock: context.ports.clock,
        signal: context.signal,
        doing: `following the init on ${session.machine.endpoint}`,
        onLost: (why) => view.note(`connection lost (${why}); the init continues, reconnecting`),
      },
      async (alive) => {
        const request = { initId, afterSequence: seen, spec };
        connections += 1;
        for await (const event of readEvents(session, request, context)) {
          alive();
          if (event.sequence > seen + 1n) throw missedEvents(seen, event.sequence);
          if (event.sequence > seen) seen = event.sequence;
          else if (event.sequence !== 0n) continue; // seen before the connection broke
          view.show(event);
          if (event.event.case === 'result') return event.event.value;
          if (event.event.case === 'failure') throw failureError(event.event.value, options);
        }
        throw new RpcError('rpc-unreachable', 'stream ended without a result');
      },
    );
    await view.close();
    if (connections > 1) {
      const text = `Reconnected ${connections - 1} times; all ${seen} events of the machine were received`;
      context.host.say('init-followed', text, { connections, events: Number(seen) });
    }
    return result;
  } catch (error) {
    await view.close(error);
    throw error;
  }
}

/**
 * An error after which the caller reconnects and requests the missing events. The machine stores each event
 * before it sends it, so none is lost.
 */
function missedEvents(seen: bigint, next: bigint): RpcError {
  return new RpcError('rpc-unreachable', `event ${next} received after event ${seen}`);
}

type InitCall = Parameters<InitSession['client']['init']>[0];

/** The events of one connection. Throws a timeout when no heartbeat arrives. */
async function* readEvents(
  session: InitSession,
  request: InitCall,
  context: { readonly ports: { readonly clock: Clock }; readonly signal: AbortSignal },
): AsyncGenerator<InitEvent> {
  using call = childSignal(context.signal);
  const events = session.client.init(request, { signal: call.signal })[Symbol.asyncIterator]();
  const { clock } = context.ports;
  try {
    for (;;) {
      const what = 'waiting for a heartbeat';
      const next = await withTimeout({ what, ms: STALL_MS, clock, signal: call.signal }, () => events.next());
      if (next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    session.renew(); // the next attempt must not use the same dead connection
    throw new RpcError('rpc-timeout', error.message);
  } finally {
    call.abort(new Error('no longer needed'));
    // Not awaited: `return` of a generator waits for its pending `next`.
    void Promise.resolve(events.return?.()).catch(() => undefined);
  }
}

/** An error with the machine's own code and fix, so that `cluster help errors CODE` explains it. */
function failureError(failure: InitFailure, options: FollowOptions): CodedError {
  const { retryable } = failure;
  const [code, message, fix, phase] = [failure.code, failure.message, failure.fix, failure.phase].map(
    (each) => printable(each),
  );
  const text = `creating the cluster: ${phase}: ${message}`;
  if (code === undefined || !CODE.test(code))
    return new ClusterError('cluster-init-failed', text, { retryable });
  const exit = options.exitOf(code) ?? (retryable ? 'partial' : 'needsReset');
  const spec = { fault: 'peer', exit, retryable, meaning: text, fix: fix ?? '' } as const;
  return new CodedError({ [code]: spec }, code, text, { details: { phase } });
}
