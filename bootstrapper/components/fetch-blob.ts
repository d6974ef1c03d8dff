import { withTimeout } from '../../internal/cleanup/index.ts';
import type { BlobReference, BlobStore } from '../../internal/bundle/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import type { Curators } from '../curatorclient/index.ts';

/** If a curator sends nothing for this time, the fetch continues at another curator. */
const STALL_MS = 20_000;

/** Ports (injected dependencies) for fetching a blob. */
export interface BlobFetchPorts {
  readonly store: Pick<BlobStore, 'partialSize' | 'append' | 'commit'>;
  readonly curators: Curators;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Fetches a blob from a control-plane node into the store. Resumes at the byte at which an earlier attempt
 * stopped. The store verifies the hash of the complete blob. A node that sent wrong bytes is not used for
 * this blob again.
 */
export async function fetchBlob(
  { store, curators, clock, log }: BlobFetchPorts,
  blob: BlobReference,
  signal: AbortSignal,
): Promise<void> {
  await curators.use(
    async (curator, useSignal) => {
      const { sha256, name } = blob;
      let offset = await store.partialSize(sha256);
      log.info('fetching a component', { name, from: curator.endpoint, offset });
      const chunks = curator
        .of(Distribution)
        .fetchBlob({ sha256, offset: BigInt(offset) }, { signal: useSignal });
      const iterator = chunks[Symbol.asyncIterator]();
      try {
        const next = (): ReturnType<typeof iterator.next> =>
          withTimeout({ what: `fetching ${name}`, ms: STALL_MS, clock, signal: useSignal }, () =>
            iterator.next(),
          );
        for (let chunk = await next(); chunk.done !== true; chunk = await next())
          offset = await store.append(blob, offset, chunk.value.data);
      } finally {
        // A stalled read ends only when the call ends, so do not wait for it.
        void iterator.return?.().catch(() => undefined);
      }
      await store.commit(blob, useSignal);
    },
    { signal, exceptOwn: true },
  );
}
