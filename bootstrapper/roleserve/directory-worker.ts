import { follow } from '../../internal/event/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { type ControlPlane, Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import { type ClusterDirectory, type Curators, directoryFromMembership } from '../curatorclient/index.ts';
import { memberWorker, reportWorking } from './role-fetch-worker.ts';
import type { RoleValues, RoleValueWriters } from './role-values.ts';

/** Limit on what a curator may send, because the list of control planes is also saved on disk. */
const MAX_NODES = 64;
const MAX_RELAYS = 16;
/** A DNS name or an address. It becomes part of endpoints and of a file. */
const HOST = /^[0-9A-Za-z.:-]{1,253}$/;
const NODE_ID = /^[0-9A-Za-z-]{1,64}$/;

/** Inputs and ports (injected dependencies) of the directory worker. */
export interface DirectoryOptions {
  readonly reads: Pick<RoleValues, 'clusterMembership'>;
  readonly writes: Pick<
    RoleValueWriters,
    'clusterDirectory' | 'clusterRelays' | 'clusterKeys' | 'clusterConfiguration' | 'clusterRemovals'
  >;
  readonly curators: Curators;
  /** The list of control planes on disk. After a restart, the control planes in the join ticket may no longer exist. */
  readonly saved: SavedRecord<ClusterDirectory>;
  /** Relays on disk, for the case that all known control planes have been removed. */
  readonly savedRelays: SavedRecord<readonly string[]>;
}

interface SavedRecord<T> {
  load(): Promise<T | undefined>;
  save(record: T): Promise<void>;
}

/** The state of this run of the agent, which is kept when the worker restarts. */
interface Known {
  /** Whether a curator has sent a list of control planes. */
  isReceived: boolean;
  /** The current list of control planes as JSON. */
  directory: string | undefined;
  /** Certificate of the newest ticket whose list of control planes was read. */
  nodeCertPem: string | undefined;
}

/**
 * Follows the list of control planes, the relays, the stage of the shared keys, and the hashes of the configuration and of the removed machines; keeps both
 * lists on disk.
 */
export function directoryWorker(options: DirectoryOptions): Runnable {
  const known: Known = { isReceived: false, directory: undefined, nodeCertPem: undefined };
  return memberWorker(options, async (scope, membership) => {
    const damaged = 'saved list of control planes damaged, using the list of the membership';
    const saved = (await load(options.saved, damaged, scope)) ?? [];
    const restored = nonEmpty(saved) ?? nonEmpty(directoryFromMembership(membership));
    known.directory = JSON.stringify(restored);
    known.nodeCertPem ??= membership.nodeCertPem;
    const relays =
      (await load(options.savedRelays, 'saved list of relays damaged, ignoring it', scope)) ?? [];
    options.writes.clusterRelays.set(relays);
    if (restored !== undefined) options.writes.clusterDirectory.set(restored);
    scope.run('watch', (watch) => followCurators(options, relays, known, watch));
    scope.run('ticket', (child) => followTickets(options, known, child));
  });
}

/** Loads a record. A damaged record counts as missing. `damaged` is the log message about a damaged record. */
async function load<T>(saved: SavedRecord<T>, damaged: string, scope: Scope): Promise<T | undefined> {
  try {
    return await saved.load();
  } catch (error) {
    // A damaged record is no risk: curators send it again, and peers must prove their identity.
    scope.log.warn(damaged, { error });
    return undefined;
  }
}

/**
 * A new ticket lists the control planes. The worker publishes that list until a curator sends one,
 * because the control planes on disk may no longer exist. After that it ignores the list of a ticket, which
 * may be older and name removed nodes.
 */
async function followTickets(
  { reads, saved, writes }: DirectoryOptions,
  known: Known,
  scope: Scope,
): Promise<void> {
  scope.healthy();
  for await (const now of follow(reads.clusterMembership, scope.signal)) {
    const directory = nonEmpty(directoryFromMembership(now));
    const isNew = now !== undefined && now.nodeCertPem !== known.nodeCertPem;
    if (isNew) known.nodeCertPem = now.nodeCertPem;
    if (known.isReceived || !isNew || directory === undefined) continue;
    await saved.save(directory);
    known.directory = JSON.stringify(directory);
    writes.clusterDirectory.set(directory);
  }
}

async function followCurators(
  { curators, saved, savedRelays, writes }: DirectoryOptions,
  firstRelays: readonly string[],
  known: Known,
  scope: Scope,
): Promise<void> {
  let knownRelays = firstRelays.join();
  let knownKeys: string | undefined;
  let knownConfiguration: string | undefined;
  let knownRemovals: string | undefined;
  const onResponse = reportWorking(scope);
  scope.waiting('first list of control planes from a curator');
  await curators.use(
    async (curator, signal) => {
      for await (const message of curator.of(Distribution).watchDirectory({}, { signal })) {
        const { controlPlanes, relays, keys, configuration, removals } = message;
        onResponse();
        if (keys !== knownKeys) writes.clusterKeys.set(keys);
        knownKeys = keys;
        if (configuration !== knownConfiguration) writes.clusterConfiguration.set(configuration);
        knownConfiguration = configuration;
        if (removals !== knownRemovals) writes.clusterRemovals.set(removals);
        knownRemovals = removals;
        const directory = directoryFromWire(controlPlanes);
        if (directory === undefined) {
          scope.log.warn('invalid list of control planes from curator, keeping the current one', {
            endpoint: curator.endpoint,
          });
          continue;
        }
        known.isReceived = true;
        if (relays.join() !== knownRelays && areRelays(relays)) {
          await savedRelays.save(relays);
          knownRelays = relays.join();
          writes.clusterRelays.set(relays);
        }
        if (JSON.stringify(directory) === known.directory) continue;
        await saved.save(directory);
        known.directory = JSON.stringify(directory);
        scope.log.info('control planes of the cluster changed', { directory });
        writes.clusterDirectory.set(directory);
      }
      throw new Error(`curator ${curator.endpoint} stopped sending changes of the list of control planes`);
    },
    { signal: scope.signal },
  );
}

/** Parses a list of control planes: sizes first, then formats. undefined for an invalid or empty list. */
export function directoryFromWire(controlPlanes: readonly ControlPlane[]): ClusterDirectory | undefined {
  if (controlPlanes.length > MAX_NODES) return undefined;
  if (!controlPlanes.every(({ nodeId, address }) => NODE_ID.test(nodeId) && HOST.test(address)))
    return undefined;
  return nonEmpty(
    controlPlanes.map(({ nodeId, address, curatorEndpoint, apiServer }) => ({
      nodeId,
      host: address,
      curator: curatorEndpoint !== '',
      apiServer,
    })),
  );
}

function areRelays(relays: readonly string[]): boolean {
  return relays.length <= MAX_RELAYS && relays.every((host) => HOST.test(host));
}

function nonEmpty<T>(list: readonly T[]): readonly [T, ...T[]] | undefined {
  const [first, ...more] = list;
  return first === undefined ? undefined : [first, ...more];
}
