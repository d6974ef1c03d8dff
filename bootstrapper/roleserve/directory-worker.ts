import { follow, map, type Readable, type Settable } from '../../internal/event/index.ts';
import { launcher, type Runnable, type Scope } from '../../internal/supervisor/index.ts';
import { type ControlPlane, Distribution } from '../../joinservice/curatorproto/gen/distribution_pb.js';
import { type ClusterDirectory, type Curators, directoryFromMembership } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import { planForMember } from './role-fetch-worker.ts';

/** No cluster has more control planes, and a saved directory must stay small. */
const MAX_NODES = 64;
const MAX_RELAYS = 16;
/** A DNS name or an address; it becomes part of an endpoint and of a file. */
const HOST = /^[0-9A-Za-z.:-]{1,253}$/;
const NODE_ID = /^[0-9A-Za-z-]{1,64}$/;

export interface DirectoryOptions {
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly writes: {
    readonly clusterDirectory: Settable<ClusterDirectory | undefined>;
    readonly clusterRelays: Settable<readonly string[] | undefined>;
    readonly clusterKeys: Settable<string | undefined>;
  };
  readonly curators: Curators;
  /** The directory on disk: for a node that comes back when those it knew at first are gone. */
  readonly saved: {
    load(): Promise<ClusterDirectory | undefined>;
    save(directory: ClusterDirectory): Promise<void>;
  };
  /** Workers that pass connections on, on disk beside it: for when all of those are gone. */
  readonly savedRelays: {
    load(): Promise<readonly string[] | undefined>;
    save(relays: readonly string[]): Promise<void>;
  };
}

/** What is known in this life of the agent, through all lives of the worker. */
interface Life {
  /** Whether a curator has told anything. */
  isHeard: boolean;
  /** The directory in force. */
  known: string | undefined;
  /** The newest ticket that was looked at. */
  nodeCertPem: string | undefined;
}

/** Keeps what this node knows of its control planes current, in memory and on disk; and how far their keys are. */
export function directoryWorker(options: DirectoryOptions): Runnable {
  const life: Life = { isHeard: false, known: undefined, nodeCertPem: undefined };
  return launcher({
    input: map(options.reads.clusterMembership, (membership) => ({ membership })),
    plan: ({ membership }) => planForMember(membership),
    start: async (scope, membership) => {
      const known = await restore(options, membership, scope);
      life.known = JSON.stringify(known);
      life.nodeCertPem ??= membership.nodeCertPem;
      const relays = await restoreRelays(options, scope);
      options.writes.clusterRelays.set(relays);
      if (known !== undefined) options.writes.clusterDirectory.set(known);
      scope.run('watch', (watch) => followCurators(options, { relays, life }, watch));
      scope.run('ticket', (child) => takeTickets(options, life, child));
    },
  });
}

/** The saved one; where there is none, or it cannot be read, the one that came with the membership. */
async function restore(
  { saved }: DirectoryOptions,
  membership: Membership,
  scope: Scope,
): Promise<ClusterDirectory | undefined> {
  const first = nonEmpty(directoryFromMembership(membership));
  try {
    return nonEmpty((await saved.load()) ?? []) ?? first;
  } catch (error) {
    // It proves nothing and can be learned again; peers prove themselves.
    scope.log.warn('the saved directory is unusable; going on with the one of the membership', { error });
    return first;
  }
}

async function restoreRelays({ savedRelays }: DirectoryOptions, scope: Scope): Promise<readonly string[]> {
  try {
    return (await savedRelays.load()) ?? [];
  } catch (error) {
    scope.log.warn('the saved list of relays is unusable', { error });
    return [];
  }
}

/**
 * Whom a new ticket names, as long as no curator has told anything: those on the disk may all be gone. Later the ticket may be
 * older than what was told, and name who was removed since.
 */
async function takeTickets(
  { reads, saved, writes }: DirectoryOptions,
  life: Life,
  scope: Scope,
): Promise<void> {
  scope.healthy();
  for await (const now of follow(reads.clusterMembership, scope.signal)) {
    const directory = nonEmpty(directoryFromMembership(now));
    const isNew = now !== undefined && now.nodeCertPem !== life.nodeCertPem;
    if (isNew) life.nodeCertPem = now.nodeCertPem;
    if (life.isHeard || !isNew || directory === undefined) continue;
    await saved.save(directory);
    life.known = JSON.stringify(directory);
    writes.clusterDirectory.set(directory);
  }
}

async function followCurators(
  { curators, saved, savedRelays, writes }: DirectoryOptions,
  first: {
    readonly relays: readonly string[];
    readonly life: Life;
  },
  scope: Scope,
): Promise<void> {
  const { life } = first;
  let knownRelays = first.relays.join();
  let knownKeys: string | undefined;
  let isHealthy = false;
  scope.waiting('the first answer of a curator');
  await curators.use(
    async (curator, signal) => {
      for await (const told of curator.of(Distribution).watchDirectory({}, { signal })) {
        const { controlPlanes, relays, keys } = told;
        if (!isHealthy) scope.healthy();
        isHealthy = true;
        scope.waiting(undefined);
        if (keys !== knownKeys) writes.clusterKeys.set(keys);
        knownKeys = keys;
        const directory = directoryFromWire(controlPlanes);
        if (directory === undefined) {
          scope.log.warn('a curator sent a directory that cannot be one; the old one stays', {
            endpoint: curator.endpoint,
          });
          continue;
        }
        life.isHeard = true;
        if (relays.join() !== knownRelays && areRelays(relays)) {
          await savedRelays.save(relays);
          knownRelays = relays.join();
          writes.clusterRelays.set(relays);
        }
        if (JSON.stringify(directory) === life.known) continue;
        await saved.save(directory);
        life.known = JSON.stringify(directory);
        scope.log.info('the control planes of the cluster', { directory });
        writes.clusterDirectory.set(directory);
      }
      throw new Error(`the directory of ${curator.endpoint} ended`);
    },
    { signal: scope.signal },
  );
}

/** Sizes first, then shape: undefined for what cannot be a directory, an empty one included. */
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
