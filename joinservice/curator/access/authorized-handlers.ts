import type { DescMethod, DescService } from '@bufbuild/protobuf';
import type { MemberIdentity } from '../../../internal/pki/index.ts';
import type { Call, Handlers } from '../../../internal/rpc/index.ts';
import type { Curator } from '../../curatorproto/gen/curator_pb.js';
import { authorizeCaller, type Caller, type CallerReads } from './authorize-caller.ts';
import type { OpenCalls } from './open-calls.ts';

/** Handlers of the contract `Curator` whose callers are authorized. */
export type AuthorizedHandlers = Handlers<typeof Curator, Caller>;

/** Dependencies of the authorization of calls. */
export interface AccessCheck extends CallerReads {
  readonly openCalls: OpenCalls;
}

/** Authorizes the caller before every method of a contract, so that no method can be forgotten. */
export function authorizedHandlers<S extends DescService>(
  service: S,
  handlers: Handlers<S, Caller>,
  check: AccessCheck,
): Handlers<S, MemberIdentity> {
  const authorized = service.methods.map((method) => {
    const handler: unknown = handlers[method.localName as keyof Handlers<S, Caller>];
    return [method.localName, authorizedMethod(method, handler, check)];
  });
  return Object.fromEntries(authorized) as Handlers<S, MemberIdentity>;
}

function authorizedMethod(method: DescMethod, handler: unknown, check: AccessCheck): unknown {
  const { openCalls } = check;
  if (method.methodKind === 'unary' || method.methodKind === 'client_streaming') {
    return async (request: unknown, call: Call<MemberIdentity>) => {
      const caller = await authorizeCaller(check, { identity: call.peer, method, signal: call.signal });
      return (handler as Single)(request, { ...call, peer: caller });
    };
  }
  return async function* (request: unknown, call: Call<MemberIdentity>): AsyncGenerator<unknown> {
    using tracked = openCalls.track(call.peer, call.signal);
    const caller = await authorizeCaller(check, { identity: call.peer, method, signal: tracked.signal });
    yield* untilAborted(
      (handler as Many)(request, { ...call, peer: caller, signal: tracked.signal }),
      tracked.signal,
    );
  };
}

type Single = (request: unknown, call: Call<Caller>) => Promise<unknown>;
type Many = (request: unknown, call: Call<Caller>) => AsyncIterable<unknown>;

/**
 * Passes the messages on. When the signal fires, throws its reason at once, even while the handler waits for
 * the next message of its caller.
 */
async function* untilAborted(messages: AsyncIterable<unknown>, signal: AbortSignal): AsyncGenerator<unknown> {
  // A new promise for each message: racing one promise for the whole stream would keep every message in memory.
  let interrupt: (reason: unknown) => void = () => undefined;
  const onAbort = (): void => interrupt(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const iterator = messages[Symbol.asyncIterator]();
  let isWaiting = false;
  try {
    for (;;) {
      signal.throwIfAborted();
      isWaiting = true;
      const next = await new Promise<IteratorResult<unknown, unknown>>((resolve, reject) => {
        interrupt = reject;
        iterator.next().then(resolve, reject);
      });
      isWaiting = false;
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    // A generator that still waits for a message ends with the stream of the call, so it is not awaited here.
    const ended = iterator.return?.();
    if (!isWaiting) await ended;
    else ended?.catch(() => undefined);
  }
}
