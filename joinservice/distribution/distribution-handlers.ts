import { BundleError, type BlobStore } from '../../internal/bundle/index.ts';
import { yieldToEventLoop } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { combine, Paced } from '../../internal/event/index.ts';
import { KEYS_KEY } from '../../internal/records/index.ts';
import type { Handlers } from '../../internal/rpc/index.ts';
import { readCluster, type Caller } from '../curator/index.ts';
import type { Distribution } from '../curatorproto/gen/distribution_pb.js';
import type { ClusterCollateral } from '../evidence/index.ts';
import type { ControlPlaneEntry, Directory, DirectoryFeed } from './directory-feed.ts';
import { DistributionError } from './errors.ts';
import type { KeysFeed } from './keys-feed.ts';

/** Each holds a file open and a few chunks in memory; who is turned away asks another control-plane node. */
const MAX_FETCHES = 64;
/** Of thousands who watch the directory, in one turn of the event loop: beats and calls of others come in between. */
const TOLD_AT_ONCE = 64;

type Known = Extract<Directory, { kind: 'known' }>;
type Told = {
  readonly epoch: bigint;
  readonly controlPlanes: ControlPlaneEntry[];
  readonly relays: string[];
  readonly keys: string;
};

export interface DistributionHandlerParts {
  readonly etcd: KeySpace;
  readonly feed: Pick<DirectoryFeed, 'directory'>;
  readonly keys: Pick<KeysFeed, 'stage'>;
  readonly collateral: Pick<ClusterCollateral, 'fetch'>;
  /** Absent where this node has no store to read from. */
  readonly blobs: Pick<BlobStore, 'read'> | undefined;
}

export function distributionHandlers(parts: DistributionHandlerParts): Handlers<typeof Distribution, Caller> {
  const { etcd, feed, keys, collateral, blobs } = parts;
  const news = new Paced(combine({ directory: feed.directory, stage: keys.stage }), {
    batchSize: TOLD_AT_ONCE,
    yieldToEventLoop,
  });
  let fetches = 0;
  /** One message for all who watch: thousands are told the same, and it is encoded once. */
  let told: { readonly known: Known; readonly message: Told } | undefined;
  const toldOf = (known: Known, epoch: bigint, stage: string): Told => {
    if (told?.known !== known || told.message.epoch !== epoch || told.message.keys !== stage) {
      const controlPlanes = known.entries.map((entry) => ({ ...entry }));
      const relays = [...known.relays];
      told = { known, message: Object.freeze({ epoch, controlPlanes, relays, keys: stage }) };
    }
    return told.message;
  };
  return {
    fetchBlob: async function* ({ sha256, offset }, { signal }) {
      if (offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER)) refuse('offset', `it is ${offset}`);
      if (fetches >= MAX_FETCHES)
        throw new DistributionError('distribution-busy', `sending blob ${sha256}: ${fetches} are under way`);
      fetches++;
      try {
        if (blobs === undefined) throw missing(sha256);
        for await (const data of blobs.read(sha256, { offset: Number(offset), signal })) yield { data };
      } catch (error) {
        throw codedForAsker(error, sha256);
      } finally {
        fetches--;
      }
    },
    fetchKeys: async (_request, { signal }) => {
      const entry = await etcd.get(KEYS_KEY, { signal });
      return entry === undefined ? {} : { record: entry.value };
    },
    fetchCollateral: ({ knownSha256 }, { signal }) => collateral.fetch(knownSha256, signal),
    watchDirectory: async function* (_request, { signal }) {
      const epoch = BigInt((await readCluster(etcd, signal)).epoch);
      using watcher = news.watch();
      for (;;) {
        const { directory: now, stage } = await watcher.next(signal);
        // Callers must not wait at a curator whose etcd is gone: they go on at another one.
        if (now.kind === 'interrupted') throw now.error;
        if (now.entries.length > 0) yield toldOf(now, epoch, stage);
      }
    },
  };
}

/** The store's own words are for who fills it. */
function codedForAsker(error: unknown, sha256: string): unknown {
  if (!(error instanceof BundleError)) return error;
  if (error.code === 'bundle-blob-missing') return missing(sha256);
  return new DistributionError('distribution-request-invalid', 'reading sha256', { cause: error });
}

function refuse(field: string, why: string): never {
  throw new DistributionError('distribution-request-invalid', `reading ${field}: ${why}`, {
    details: { field },
  });
}

function missing(sha256: string): DistributionError {
  return new DistributionError('distribution-blob-missing', `sending blob ${sha256}: it is not here`);
}
