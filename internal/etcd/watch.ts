import { Backoff } from '../clock/index.ts';
import { createClient, type RpcChannel } from '../rpc/index.ts';
import { codeFromMessage, EtcdError, etcdError } from './errors.ts';
import type { EtcdConnection } from './connection.ts';
import type { Change, Listing, WatchEvent, WatchOptions } from './key-space.ts';
import { Watch, type WatchResponse } from './proto/gen/etcdserverpb_pb.js';
import { changeFromWire, prefixRange } from './wire.ts';

const PAUSES = { firstMs: 100, factor: 2, longestMs: 5_000 };

/** The source that a watch reads from. */
export interface WatchSource {
  readonly connection: EtcdConnection;
  /** Reads all entries at one revision. */
  readonly list: () => Promise<Listing>;
}

/** Watches a prefix across broken connections, member changes and compactions. See `KeySpace.watch`. */
export async function* watchPrefix(
  source: WatchSource,
  prefix: string,
  options: WatchOptions,
): AsyncGenerator<WatchEvent> {
  let after = options.afterRevision;
  const backoff = new Backoff(PAUSES);
  for (;;) {
    options.signal.throwIfAborted();
    const channel = source.connection.channel;
    try {
      if (after === undefined) {
        const { revision, entries } = await source.list();
        yield { kind: 'relist', revision, entries };
        after = revision;
      }
      for await (const event of follow(channel, prefix, { ...options, after })) {
        backoff.reset();
        if (event.revision > after) after = event.revision;
        if (event.kind === 'progress' || event.changes.length > 0) yield event;
      }
      throw new EtcdError('etcd-unavailable', `watching ${prefix}: the member ended the watch`);
    } catch (error) {
      options.signal.throwIfAborted();
      const translated = etcdError(`watching ${prefix}`, error);
      if (!(translated instanceof EtcdError)) throw translated;
      if (translated.code === 'etcd-compacted') {
        after = undefined;
        continue;
      }
      // All other errors of a member are temporary, so the watch continues.
      if (translated.code === 'etcd-denied') throw translated;
      source.connection.failOver(channel);
      yield { kind: 'interrupted', error: translated };
      await source.connection.clock.sleep(backoff.nextMs(), options.signal);
    }
  }
}

type Followed = Extract<WatchEvent, { kind: 'changes' | 'progress' }>;

/** One watch at one member. Ends when the stream breaks. */
async function* follow(
  channel: RpcChannel,
  prefix: string,
  from: WatchOptions & { readonly after: bigint },
): AsyncGenerator<Followed> {
  const left = Promise.withResolvers<void>();
  const request = {
    requestUnion: {
      case: 'createRequest' as const,
      value: {
        ...prefixRange(prefix),
        startRevision: from.after + 1n,
        progressNotify: from.withProgress === true,
        fragment: true,
      },
    },
  };
  async function* requests() {
    yield request;
    await left.promise; // if the sending half were closed, the stream would end
  }
  // "hasleader" makes a member without quorum end the watch; otherwise it would stay silent.
  const answers = createClient(Watch, channel).watch(requests(), {
    signal: from.signal,
    headers: { hasleader: 'true' },
  });
  try {
    let parts: Change[] = [];
    for await (const answer of answers) {
      refuseCancelled(prefix, answer);
      for (const event of answer.events) {
        const change = changeFromWire(event);
        if (change !== undefined) parts.push(change);
      }
      if (answer.fragment || answer.created) continue;
      const revision = answer.header?.revision ?? 0n;
      // Only a response without changes is progress: while a watcher catches up, the revision in the header
      // is ahead of the changes that were sent so far.
      if (parts.length === 0) yield { kind: 'progress', revision };
      else yield { kind: 'changes', revision: revisionOf(parts), changes: parts };
      parts = [];
    }
  } finally {
    left.resolve();
  }
}

function revisionOf(changes: readonly Change[]): bigint {
  const last = changes.at(-1);
  if (last === undefined) return 0n;
  return last.kind === 'put' ? last.entry.modRevision : last.modRevision;
}

function refuseCancelled(prefix: string, answer: WatchResponse): void {
  if (!answer.canceled) return;
  if (answer.compactRevision > 0n)
    throw new EtcdError('etcd-compacted', `watching ${prefix}: compacted at ${answer.compactRevision}`);
  const code = codeFromMessage(answer.cancelReason) ?? 'etcd-unavailable';
  throw new EtcdError(code, `watching ${prefix}`, { cause: new Error(answer.cancelReason) });
}
