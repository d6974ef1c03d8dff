import type {
  DescMethod,
  DescMethodBiDiStreaming,
  DescMethodClientStreaming,
  DescMethodServerStreaming,
  DescMethodUnary,
  DescService,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf';
import {
  Metadata,
  type ClientDuplexStream,
  type ClientReadableStream,
  type ClientWritableStream,
  type ServiceError,
} from '@grpc/grpc-js';
import { once } from 'node:events';
import { SystemClock } from '../clock/index.ts';
import { CodedError } from '../errors/index.ts';
import type { RpcChannel } from './channel.ts';
import { methodDefinition } from './codec.ts';
import { errorFromStatus } from './errors.ts';

/** Options of one call. */
export interface CallOptions {
  readonly signal: AbortSignal;
  /** Deadline of the whole call; default: none. */
  readonly timeoutMs?: number | undefined;
  /** Sent as gRPC metadata; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Typed methods of one service: promises for single responses, async iterables for streams. */
export type Client<S extends DescService> = {
  readonly [K in keyof S['method']]: ClientMethod<S['method'][K]>;
};

type ClientMethod<M> =
  M extends DescMethodUnary<infer I, infer O>
    ? (request: MessageInitShape<I>, options: CallOptions) => Promise<MessageShape<O>>
    : M extends DescMethodServerStreaming<infer I, infer O>
      ? (request: MessageInitShape<I>, options: CallOptions) => AsyncIterable<MessageShape<O>>
      : M extends DescMethodClientStreaming<infer I, infer O>
        ? (requests: AsyncIterable<MessageInitShape<I>>, options: CallOptions) => Promise<MessageShape<O>>
        : M extends DescMethodBiDiStreaming<infer I, infer O>
          ? (
              requests: AsyncIterable<MessageInitShape<I>>,
              options: CallOptions,
            ) => AsyncIterable<MessageShape<O>>
          : never;

/**
 * A client of `service` over `channel`.
 * @throws RemoteError with the code that the peer sent, or RpcError when the call itself failed
 */
export function createClient<S extends DescService>(service: S, channel: RpcChannel): Client<S> {
  const methods = service.methods.map((method) => [method.localName, createMethod(method, channel)] as const);
  return Object.fromEntries(methods) as Client<S>;
}

/** Typed methods of one service with default options. */
export type BoundClient<S extends DescService> = {
  readonly [K in keyof S['method']]: Bound<Client<S>[K]>;
};

type Bound<C> = C extends (request: infer R, options: CallOptions) => infer A
  ? (request: R, options?: Partial<CallOptions>) => A
  : never;

/**
 * A client of `service` over `channel` whose calls take `defaults` for the options that they do not set. A stream has no
 * time limit unless its call sets one.
 */
export function bindClient<S extends DescService>(
  service: S,
  channel: RpcChannel,
  defaults: CallOptions,
): BoundClient<S> {
  const bound = service.methods.map((method) => {
    const call = createMethod(method, channel);
    const own = method.methodKind === 'unary' ? defaults : { ...defaults, timeoutMs: undefined };
    return [
      method.localName,
      (request: never, options = {}) => call(request, { ...own, ...options }),
    ] as const;
  });
  return Object.fromEntries(bound) as BoundClient<S>;
}

type Init = MessageInitShape<DescMethod['input']>;
type Message = MessageShape<DescMethod['output']>;

type Method = (request: never, options: CallOptions) => unknown;

function createMethod(method: DescMethod, channel: RpcChannel): Method {
  const { path, requestSerialize, responseDeserialize } = methodDefinition(method);
  const fail = (error: unknown, signal: AbortSignal): unknown =>
    callError(`calling ${method.name} of ${channel.endpoint}`, channel, error, signal);
  const callOptions = (options: CallOptions) =>
    options.timeoutMs === undefined ? {} : { deadline: deadlineAfter(options.timeoutMs) };
  switch (method.methodKind) {
    case 'unary':
      return (request: Init, options: CallOptions) =>
        single(options.signal, fail, (done) =>
          channel.grpc.makeUnaryRequest(
            path,
            requestSerialize,
            responseDeserialize,
            request,
            metadataOf(options),
            callOptions(options),
            done,
          ),
        );
    case 'client_streaming':
      return (requests: AsyncIterable<Init>, options: CallOptions) => {
        let call: ClientWritableStream<Init> | undefined;
        const answer = single(options.signal, fail, (done) => {
          call = channel.grpc.makeClientStreamRequest(
            path,
            requestSerialize,
            responseDeserialize,
            metadataOf(options),
            callOptions(options),
            done,
          );
          return call;
        });
        return call === undefined ? answer : sendAlong(call, requests, answer);
      };
    case 'server_streaming':
      return (request: Init, options: CallOptions) =>
        received(options.signal, fail, () =>
          channel.grpc.makeServerStreamRequest(
            path,
            requestSerialize,
            responseDeserialize,
            request,
            metadataOf(options),
            callOptions(options),
          ),
        );
    case 'bidi_streaming':
      return (requests: AsyncIterable<Init>, options: CallOptions) =>
        received(options.signal, fail, () => {
          const call: ClientDuplexStream<Init, Message> = channel.grpc.makeBidiStreamRequest(
            path,
            requestSerialize,
            responseDeserialize,
            metadataOf(options),
            callOptions(options),
          );
          sendAll(call, requests).catch((error: unknown) => call.destroy(error as Error));
          return call;
        });
  }
}

type Fail = (error: unknown, signal: AbortSignal) => unknown;

/** Awaits a single response; the signal cancels the call. */
function single(
  signal: AbortSignal,
  fail: Fail,
  start: (done: (error: ServiceError | null, value?: Message) => void) => { cancel(): void },
): Promise<Message> {
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  return new Promise((resolve, reject) => {
    const onAbort = (): void => call.cancel();
    const call = start((error, value) => {
      signal.removeEventListener('abort', onAbort);
      if (error !== null || value === undefined) reject(fail(error, signal));
      else resolve(value);
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** Yields responses as they arrive; leaving the loop cancels the call. */
async function* received(
  signal: AbortSignal,
  fail: Fail,
  start: () => ClientReadableStream<Message>,
): AsyncGenerator<Message> {
  signal.throwIfAborted();
  const call = start();
  const onAbort = (): void => call.cancel();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    for await (const message of call) yield message as Message;
  } catch (error) {
    throw fail(error, signal);
  } finally {
    signal.removeEventListener('abort', onAbort);
    call.on('error', () => undefined); // cancelling emits another error
    call.cancel();
  }
}

/** Sends requests while awaiting the response; the first failure cancels the call. */
async function sendAlong(
  call: ClientWritableStream<Init>,
  requests: AsyncIterable<Init>,
  answer: Promise<Message>,
): Promise<Message> {
  const sent = sendAll(call, requests).catch((error: unknown) => {
    call.cancel();
    return Promise.reject(error);
  });
  const [answered, sending] = await Promise.allSettled([answer, sent]);
  // The peer's error explains more than the broken pipe that it causes.
  if (answered.status === 'fulfilled') return answered.value;
  if (
    sending.status === 'rejected' &&
    !(answered.reason instanceof CodedError && answered.reason.name === 'RemoteError')
  ) {
    throw sending.reason instanceof StreamClosed ? answered.reason : sending.reason;
  }
  throw answered.reason;
}

class StreamClosed extends Error {}

async function sendAll(
  call: ClientWritableStream<Init> | ClientDuplexStream<Init, Message>,
  requests: AsyncIterable<Init>,
): Promise<void> {
  for await (const request of requests) {
    if (call.destroyed || call.writableEnded)
      throw new StreamClosed('the call ended before all requests were sent');
    if (!call.write(request)) await drained(call);
  }
  call.end();
}

async function drained(call: ClientWritableStream<Init> | ClientDuplexStream<Init, Message>): Promise<void> {
  const ended = new AbortController();
  const stop = (): void => ended.abort();
  call.once('close', stop).once('error', stop).once('status', stop);
  try {
    await once(call, 'drain', { signal: ended.signal });
  } catch (error) {
    throw new StreamClosed('the call ended before all requests were sent', { cause: error });
  } finally {
    call.off('close', stop).off('error', stop).off('status', stop);
  }
}

function metadataOf(options: CallOptions): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(options.headers ?? {})) metadata.set(name, value);
  return metadata;
}

function deadlineAfter(timeoutMs: number): number {
  return new SystemClock().nowMs() + timeoutMs; // grpc-js itself compares deadlines with Date.now()
}

/** Prefers the reason of the signal, then the error of a failed handshake: gRPC itself only says "unavailable". */
function callError(doing: string, channel: RpcChannel, error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof CodedError) return error;
  if (!isServiceError(error)) return error ?? new Error(`${doing}: no response`);
  const coded = errorFromStatus(doing, error);
  if (coded.code === 'rpc-unreachable' && channel.connectError instanceof CodedError)
    return channel.connectError;
  return coded;
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && typeof error.code === 'number';
}
