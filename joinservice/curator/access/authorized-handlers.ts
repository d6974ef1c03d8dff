import type { DescMethod, DescService } from '@bufbuild/protobuf';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import type { MemberIdentity } from '../../../internal/pki/index.ts';
import type { Call, Handlers } from '../../../internal/rpc/index.ts';
import type { Curator } from '../../curatorproto/gen/curator_pb.js';
import { authorizeCaller, type Caller } from './authorize-caller.ts';
import type { OpenCalls } from './open-calls.ts';

/** Handlers that know who calls and need not ask whether they may. */
export type AuthorizedHandlers = Handlers<typeof Curator, Caller>;

export interface AccessCheck {
  readonly etcd: KeySpace;
  readonly openCalls: OpenCalls;
}

/** Puts the door before every method of a contract, so that none can be forgotten. */
export function authorizedHandlers<S extends DescService>(
  service: S,
  inside: Handlers<S, Caller>,
  door: AccessCheck,
): Handlers<S, MemberIdentity> {
  const guarded = service.methods.map((method) => {
    const handler: unknown = inside[method.localName as keyof Handlers<S, Caller>];
    return [method.localName, guardMethod(method, handler, door)];
  });
  return Object.fromEntries(guarded) as Handlers<S, MemberIdentity>;
}

function guardMethod(method: DescMethod, handler: unknown, door: AccessCheck): unknown {
  const { etcd, openCalls } = door;
  if (method.methodKind === 'unary' || method.methodKind === 'client_streaming') {
    return async (request: unknown, call: Call<MemberIdentity>) => {
      const caller = await authorizeCaller(etcd, { identity: call.peer, method, signal: call.signal });
      return (handler as Single)(request, { ...call, peer: caller });
    };
  }
  return async function* (request: unknown, call: Call<MemberIdentity>): AsyncGenerator<unknown> {
    using stay = openCalls.track(call.peer, call.signal);
    const caller = await authorizeCaller(etcd, { identity: call.peer, method, signal: stay.signal });
    yield* untilAborted(
      (handler as Many)(request, { ...call, peer: caller, signal: stay.signal }),
      stay.signal,
    );
  };
}

type Single = (request: unknown, call: Call<Caller>) => Promise<unknown>;
type Many = (request: unknown, call: Call<Caller>) => AsyncIterable<unknown>;

/** Ends at once with the signal's reason, also while the handler waits for its caller's next message. */
async function* untilAborted(messages: AsyncIterable<unknown>, signal: AbortSignal): AsyncGenerator<unknown> {
  // A new promise for each message: a race against one that lives as long as the stream would keep every message's part.
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
    // A generator that still waits ends when the call's stream does; waiting for it here would be waiting for that.
    const ended = iterator.return?.();
    if (!isWaiting) await ended;
    else ended?.catch(() => undefined);
  }
}
