import { BundleError, type BlobStore } from '../../internal/bundle/index.ts';
import { yieldToEventLoop } from '../../internal/clock/index.ts';
import type { KeySpace, WatchedKey } from '../../internal/etcd/index.ts';
import { combine, Paced } from '../../internal/event/index.ts';
import { CONFIGURATION_KEY, KEYS_KEY, type KnownMachine } from '../../internal/records/index.ts';
import type { Call, Handlers } from '../../internal/rpc/index.ts';
import { readCluster, storedConfiguration, type Caller } from '../curator/index.ts';
import type { Distribution, ReportRemovalsRequest } from '../curatorproto/gen/distribution_pb.js';
import type { ClusterCollateral } from '../evidence/index.ts';
import { documentForMachines, ownersForMachines } from '../ownerdocs/index.ts';
import type { RemovedList } from '../removedmachines/index.ts';
import type { ControlPlaneEntry, Directory, DirectoryFeed } from './directory-feed.ts';
import { DistributionError } from './errors.ts';

/**
 * Maximum number of concurrent fetches: each keeps a file open and a few chunks in memory. A refused caller
 * calls another control plane.
 */
const MAX_FETCHES = 64;
/**
 * Maximum number of directory watchers that are woken at the same time. Between such groups, heartbeats and
 * other calls are served.
 */
const WATCHERS_AT_ONCE = 64;

type Known = Extract<Directory, { kind: 'known' }>;
type DirectoryMessage = {
  readonly epoch: bigint;
  readonly controlPlanes: ControlPlaneEntry[];
  readonly relays: string[];
  readonly keys: string;
  readonly configuration: string;
  readonly removals: string;
};

/** Dependencies of the handlers of the contract `Distribution`. */
export interface DistributionHandlerParts {
  readonly etcd: KeySpace;
  readonly feed: Pick<DirectoryFeed, 'directory'>;
  /** See `watchKeyStage()`. */
  readonly keys: Pick<WatchedKey<string>, 'value'>;
  /** See `watchConfigurationHash()`. */
  readonly configuration: Pick<WatchedKey<string>, 'value'>;
  /** The machines that the cluster refuses. */
  readonly removals: Pick<RemovedList, 'value' | 'fetch'>;
  /** See `takeReport()`. */
  readonly takeReport: (
    request: ReportRemovalsRequest,
    call: Call<Caller>,
  ) => Promise<readonly KnownMachine[]>;
  readonly collateral: Pick<ClusterCollateral, 'fetch'>;
  /** undefined if this node has no blob store. */
  readonly blobs: Pick<BlobStore, 'read'> | undefined;
}

/** Handlers of the contract `Distribution`. */
export function distributionHandlers(parts: DistributionHandlerParts): Handlers<typeof Distribution, Caller> {
  const { etcd, feed, keys, configuration, removals, collateral, blobs } = parts;
  const updates = new Paced(
    combine({
      ...{ directory: feed.directory, stage: keys.value },
      ...{ configuration: configuration.value, removals: removals.value },
    }),
    { batchSize: WATCHERS_AT_ONCE, yieldToEventLoop },
  );
  let fetches = 0;
  /** One message for all watchers, so that it is encoded once. */
  let last: { readonly known: Known; readonly message: DirectoryMessage } | undefined;
  const messageOf = (
    known: Known,
    rest: Omit<DirectoryMessage, 'controlPlanes' | 'relays'>,
  ): DirectoryMessage => {
    const { message } = last ?? {};
    const isSame =
      last?.known === known &&
      message?.epoch === rest.epoch &&
      message.keys === rest.keys &&
      message.configuration === rest.configuration &&
      message.removals === rest.removals;
    if (last === undefined || !isSame) {
      const controlPlanes = known.entries.map((entry) => ({ ...entry }));
      const relays = [...known.relays];
      last = { known, message: Object.freeze({ ...rest, controlPlanes, relays }) };
    }
    return last.message;
  };
  return {
    fetchBlob: async function* ({ sha256, offset }, { signal }) {
      if (offset < 0n || offset > BigInt(Number.MAX_SAFE_INTEGER)) refuse('offset', `${offset}`);
      if (fetches >= MAX_FETCHES)
        throw new DistributionError(
          'distribution-busy',
          `sending blob ${sha256}: ${fetches} fetches are running`,
        );
      fetches++;
      try {
        if (blobs === undefined) throw missing(sha256);
        for await (const data of blobs.read(sha256, { offset: Number(offset), signal })) yield { data };
      } catch (error) {
        throw errorForCaller(error, sha256);
      } finally {
        fetches--;
      }
    },
    fetchKeys: async (_request, { signal }) => {
      const entry = await etcd.get(KEYS_KEY, { signal });
      if (entry === undefined) return {};
      const [owners, signed] = await Promise.all([
        ownersForMachines(etcd, signal),
        documentForMachines(etcd, 'keys', signal),
      ]);
      return { record: entry.value, ownerDocuments: [...owners, ...signed] };
    },
    fetchConfiguration: async (_request, { signal }) => {
      const entry = await etcd.get(CONFIGURATION_KEY, { signal });
      if (entry === undefined) return {};
      const [owners, signed] = await Promise.all([
        ownersForMachines(etcd, signal),
        documentForMachines(etcd, 'policy', signal),
      ]);
      return { document: storedConfiguration(entry).document, ownerDocuments: [...owners, ...signed] };
    },
    fetchRemovals: async (_request, { signal }) => {
      const { epoch, sha256, machines } = await removals.fetch(signal);
      return { epoch: BigInt(epoch), sha256, machines: [...machines] };
    },
    reportRemovals: async (request, call) => ({ unmerged: [...(await parts.takeReport(request, call))] }),
    fetchCollateral: ({ knownSha256 }, { signal }) => collateral.fetch(knownSha256, signal),
    watchDirectory: async function* (_request, { signal }) {
      const epoch = BigInt((await readCluster(etcd, signal)).epoch);
      using watcher = updates.watch();
      for (;;) {
        const { directory: now, stage: keyStage, ...hashes } = await watcher.next(signal);
        // Ends the watch while etcd is unavailable, so that the caller continues at another curator.
        if (now.kind === 'interrupted') throw now.error;
        if (now.entries.length > 0) yield messageOf(now, { epoch, keys: keyStage, ...hashes });
      }
    },
  };
}

/** Errors of the blob store as errors for the caller. */
function errorForCaller(error: unknown, sha256: string): unknown {
  if (!(error instanceof BundleError)) return error;
  if (error.code === 'bundle-blob-missing') return missing(sha256);
  return new DistributionError('distribution-request-invalid', 'reading the field sha256', { cause: error });
}

function refuse(field: string, why: string): never {
  throw new DistributionError('distribution-request-invalid', `invalid ${field}: ${why}`, {
    details: { field },
  });
}

function missing(sha256: string): DistributionError {
  return new DistributionError('distribution-blob-missing', `blob ${sha256} not found`);
}
