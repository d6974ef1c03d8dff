import { copyPlaceOf } from '../../internal/backup/index.ts';
import { ageOf, parseBundle } from '../../internal/attestation/collateral/index.ts';
import { MINUTE_MS } from '../../internal/clock/index.ts';
import { parseClusterPart } from '../../internal/config/index.ts';
import type {
  BackupFacts,
  ClusterFacts,
  EtcdContentFacts,
  EtcdFacts,
  NodeFacts,
  RecordFacts,
} from '../../internal/doctor/index.ts';
import { parseDocument } from '../../internal/ownerdocument/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { Join, ListBackupsResponse } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import {
  Runnable_State,
  type EtcdContent,
  type EtcdContents,
  type EtcdStatus,
  type GetClusterInfoResponse,
  type Node,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { clusterBackupsFrom, type KeptBackup } from '../backup/index.ts';
import {
  etcdFrom,
  fetchKeysView,
  kubernetesEtcdOf,
  nodeViewFrom,
  readPart,
  type CuratorClients,
} from '../cluster/index.ts';
import { JOIN_STATES } from '../nodes/index.ts';

/** What one curator has told: the records, and the parts that only some callers may read. */
export interface CuratorAnswer extends Pick<
  ClusterFacts,
  'keys' | 'joins' | 'documents' | 'collateral' | 'backups'
> {
  readonly info: GetClusterInfoResponse;
  readonly nodes: readonly Node[];
  readonly records: RecordFacts;
}

/** Reads everything from one curator. Throws only if the records themselves cannot be read. */
export async function readRecords(context: CommandContext, clients: CuratorClients): Promise<CuratorAnswer> {
  const { curator, operatorApi } = clients;
  const { info, nodes, records } = await readNodeRecords(clients);
  const [keys, joins, documents, collateral, backups, lifetime] = await Promise.all([
    readPart(context, () => readKeys(clients)),
    readPart(context, async () => (await operatorApi.listJoins({})).joins.map(joinFrom)),
    readPart(context, async () => (await operatorApi.listDocuments({})).documents.flatMap(documentFrom)),
    readPart(context, async () => collateralFrom((await operatorApi.getCollateral({})).bundle, context)),
    readPart(context, async () => backupFactsFrom(await operatorApi.listBackups({}))),
    readPart(context, async () => shortestLifetime((await curator.getConfiguration({})).document)),
  ]);
  const shortestLifetimeMs = lifetime.ok ? lifetime.value : undefined;
  return {
    ...{ info, nodes },
    records: { ...records, ...(shortestLifetimeMs !== undefined && { shortestLifetimeMs }) },
    ...{ keys: plain(keys), joins: plain(joins), documents: plain(documents), collateral: plain(collateral) },
    backups: plain(backups),
  };
}

/** Reads only the records of nodes and of both etcd clusters from one curator. */
export async function readNodeRecords({
  curator,
}: Pick<CuratorClients, 'curator'>): Promise<Pick<CuratorAnswer, 'info' | 'nodes' | 'records'>> {
  const [info, { nodes }] = await Promise.all([curator.getClusterInfo({}), curator.listNodes({})]);
  const kubernetesEtcd = kubernetesEtcdOf(nodes);
  const records = {
    stateEtcd: etcdFactsFrom(info.etcd),
    ...(kubernetesEtcd && { kubernetesEtcd: etcdFactsFrom(kubernetesEtcd) }),
    nodes: nodes.map(nodeFactsFrom).toSorted(byName),
  };
  return { info, nodes, records };
}

/** Facts have mutable types, because zod makes them. */
export function plain<T>(
  part:
    | { readonly ok: true; readonly value: T }
    | { readonly ok: false; readonly error: string; readonly codes: readonly string[] },
): { ok: true; value: T } | { ok: false; error: string; codes: string[] } {
  if (part.ok) return { ...part };
  // Shortened to the limits of the facts file, so that a long error does not prevent saving the facts.
  return { ok: false, error: printable(part.error), codes: part.codes.slice(0, 32) };
}

async function readKeys(clients: CuratorClients) {
  const view = await fetchKeysView(clients);
  if (view === undefined) throw new Error('the curator has an older version, without key rotation');
  const { generation, phase, isDone, phaseSinceMs, awaited, needsOwner } = view;
  return {
    generation,
    phase,
    isDone,
    phaseSinceMs,
    awaited: awaited.map(({ name, why }) => `${name} (${why})`),
    needsOwner,
  };
}

function byName(a: NodeFacts, b: NodeFacts): number {
  return a.name.localeCompare(b.name, 'en', { numeric: true });
}

function etcdFactsFrom(status: EtcdStatus | undefined): EtcdFacts {
  const { dbSizeBytes, quotaBytes, hasLeader, isFull, isCorrupt } = etcdFrom(status);
  const members = (status?.members ?? []).map(({ name, isLearner }) => ({
    name: printable(name),
    isLearner,
  }));
  return { dbSizeBytes, quotaBytes, hasLeader, isFull, isCorrupt, members };
}

function nodeFactsFrom(node: Node): NodeFacts {
  const view = nodeViewFrom(node);
  const { id, name, address, state, health, createdMs, agentVersion, kubernetesVersion, lastError } = view;
  return {
    ...{ id, name, address, state, health, createdMs, agentVersion, kubernetesVersion },
    isControlPlane: view.roles.includes('control-plane'),
    ...(lastError !== undefined && { lastError }),
    ...(view.oldDiskMs !== undefined && { oldDiskMs: view.oldDiskMs }),
    certificates: view.certificates,
    componentsNotReady: view.partsNotReady,
    ...(view.machine !== undefined && { machine: view.machine }),
    ...(view.directories.length > 0 && { directories: view.directories }),
    ...(node.status?.etcdContents && { etcdContents: contentsFrom(node.status.etcdContents) }),
    deadRunnables: (node.status?.runnables ?? [])
      .filter(({ state: of }) => of === Runnable_State.DEAD)
      .map(({ path }) => printable(path)),
  };
}

/** What a control plane tells about the content of the etcd members. */
function contentsFrom({ state, kubernetes }: EtcdContents): NonNullable<NodeFacts['etcdContents']> {
  return {
    ...(state && { state: contentFrom(state) }),
    ...(kubernetes && { kubernetes: contentFrom(kubernetes) }),
  };
}

function contentFrom({ sinceMs, comparedMs, ...lists }: EtcdContent): EtcdContentFacts {
  const names = (ids: readonly string[]): string[] => ids.map((id) => printable(id));
  return {
    sinceMs: Number(sinceMs),
    ...(comparedMs > 0n && { comparedMs: Number(comparedMs) }),
    agreeing: names(lists.agreeing),
    differing: names(lists.differing),
    notCompared: names(lists.notCompared),
  };
}

function joinFrom(join: Join): {
  name: string;
  state: string;
  code: string;
  message: string;
  lastSeenMs: number;
} {
  const name = [join.name, join.wantedName, join.hostname].find((each) => each !== '') ?? join.fingerprint;
  return {
    name: printable(name),
    state: JOIN_STATES[join.state],
    code: printable(join.code),
    message: printable(join.message),
    lastSeenMs: Number(join.lastSeenMs),
  };
}

/**
 * The kind and the end of an owner document. A document that this version cannot parse is left out here; commands that
 * use it report it.
 */
function documentFrom(bytes: Uint8Array): { kind: string; endsMs: number; issuedMs: number }[] {
  try {
    const { kind, endsMs, issuedMs } = parseDocument(bytes);
    return [{ kind, endsMs, issuedMs }];
  } catch {
    return [];
  }
}

function backupFactsFrom(response: ListBackupsResponse): BackupFacts {
  const { schedule, backups, failure, copies } = clusterBackupsFrom(response);
  const newestTakenMs = backups[0]?.takenMs;
  const newestProvedMs = backups.find(({ provedMs }) => provedMs !== undefined)?.takenMs;
  return {
    ...(schedule && {
      schedule: {
        ...{ everyMs: schedule.everyMinutes * MINUTE_MS, nodeIds: schedule.nodeIds },
        ...{ issuedMs: schedule.issuedMs, endsMs: schedule.endsMs },
      },
    }),
    ...(newestTakenMs !== undefined && { newestTakenMs }),
    ...(newestProvedMs !== undefined && { newestProvedMs }),
    clearProofs: clearProofsOf(backups),
    ...(failure && { failure }),
    ...(schedule !== undefined &&
      copyPlaceOf(schedule) !== undefined && {
        copies: copies.map(({ node, names, failure: failed }) => ({
          ...{ node, count: names.length },
          ...(failed && { failure: failed }),
        })),
      }),
  };
}

/** The control planes whose newest proved backup was proved on an unencrypted disk. */
function clearProofsOf(backups: readonly KeptBackup[]): NonNullable<BackupFacts['clearProofs']> {
  const proved = backups.filter(({ provedMs }) => provedMs !== undefined);
  const newest = proved.filter(({ nodeId }, at) => proved.findIndex((each) => each.nodeId === nodeId) === at);
  return newest.flatMap(({ node, proofPlace }) =>
    proofPlace?.place === 'clear' ? [{ node, sizeBytes: proofPlace.sizeBytes }] : [],
  );
}

function collateralFrom(
  bundle: Uint8Array,
  { ports }: CommandContext,
): { what: string; expiresMs: number }[] {
  if (bundle.length === 0) return [];
  return parseBundle(bundle).items.map((item) => {
    const { what, expiresMs } = ageOf(item, ports.clock.nowMs());
    return { what: printable(what), expiresMs };
  });
}

/** The shortest certificate lifetime in the configuration, in ms; undefined if it sets none. */
function shortestLifetime(document: Uint8Array): number | undefined {
  const part = parseClusterPart(Buffer.from(document).toString('utf8'), 'configuration');
  const lifetimes =
    typeof part === 'object' && part !== null && 'certificates' in part ? part['certificates'] : {};
  const minutes = Object.values(lifetimes ?? {}).filter((each): each is number => typeof each === 'number');
  return minutes.length === 0 ? undefined : Math.min(...minutes) * MINUTE_MS;
}
