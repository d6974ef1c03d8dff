import type { Condition, Entry, KeySpace } from '../../../internal/etcd/index.ts';
import {
  keyIdentityOf,
  nodeNameKey,
  readRemovals,
  records,
  type JoinRecord,
  type NodeRecord,
  type RemovalEntry,
} from '../../../internal/records/index.ts';
import { isControlPlane } from '../../../internal/role/index.ts';
import { isGranted, type OwnerDocuments } from '../../ownerdocs/index.ts';
import type { Applicant } from './applicant.ts';
import type { JoinFeed } from '../requests/join-feed.ts';
import type { ActiveConfiguration } from './active-configuration.ts';
import {
  requestedName,
  type JoinPolicy,
  type MissingSignatures,
  type ApplicantRecords,
  type JudgedApplicant,
} from './decide-join.ts';

/** The records about an applicant, and the etcd conditions that the records are unchanged. */
export interface CheckedRecords extends ApplicantRecords {
  /** The condition that the request of the applicant is unchanged. */
  readonly joinUnchanged: Condition;
  /** The conditions that the removals of this machine are unchanged. */
  readonly removalsUnchanged: readonly Condition[];
}

type ReadOptions = Pick<ActiveConfiguration, 'policy' | 'sha256'> & { readonly signal: AbortSignal };

interface RecordsPorts {
  readonly etcd: KeySpace;
  readonly feed: JoinFeed;
  readonly ownerDocs: OwnerDocuments;
  readonly nowMs: number;
}

/** Reads everything on record about a machine, linearizably. */
export async function readApplicantRecords(
  ports: RecordsPorts,
  applicant: Applicant,
  options: ReadOptions,
): Promise<CheckedRecords> {
  const { etcd, feed, nowMs } = ports;
  const { policy, signal } = options;
  const { nodeId, machine, pubKeyDer } = applicant;
  const identities = [...new Set([machine.identity, keyIdentityOf(pubKeyDer)])];
  const [{ record: join, unchanged: joinUnchanged }, node, machineHolder, removals] = await Promise.all([
    records.join.read(etcd, records.join.key(nodeId), signal),
    readNode(etcd, nodeId, signal),
    readMachineHolder(etcd, machine.identity, signal),
    readRemovals(etcd, identities, signal),
  ]);
  const names = namesToLookUp(applicant, join, policy);
  const holders = await Promise.all(names.map((name) => etcd.get(nodeNameKey(name), { signal })));
  const taken = new Map(names.map((name, i) => [name, textOf(holders[i])]));
  return {
    node,
    machineHolder,
    join,
    nameHolder: (name) => taken.get(name) ?? otherThan(nodeId, feed.promisedTo(name, nowMs)),
    joinUnchanged,
    whyExcluded: node === undefined ? await whyStillRemoved(ports.ownerDocs, removals, signal) : undefined,
    missingSignatures:
      node === undefined ? await readMissingSignatures(ports, { applicant, join }, options) : NONE_MISSING,
    removalsUnchanged: removals.map(({ unchanged }) => unchanged),
  };
}

const NONE_MISSING: MissingSignatures = { inventory: undefined, approval: undefined };

/** Why one of these removals still counts; undefined if owners have readmitted the machine, or it was never removed. */
export async function whyStillRemoved(
  ownerDocs: OwnerDocuments,
  removals: readonly RemovalEntry[],
  signal: AbortSignal,
): Promise<string | undefined> {
  for (const { record } of removals) {
    const why = record && (await ownerDocs.whyNotReadmitted(record, signal));
    if (why !== undefined) return why;
  }
  return undefined;
}

/**
 * Reads owner documents only for machines that could become control planes, because most machines never do.
 */
async function readMissingSignatures(
  { ownerDocs }: RecordsPorts,
  { applicant, join }: { readonly applicant: Applicant; readonly join: JoinRecord | undefined },
  { policy, sha256, signal }: ReadOptions,
): Promise<MissingSignatures> {
  const { nodeId, pubKeyDer, machine } = applicant;
  const entry = policy.inventory.find(({ identity }) => identity === machine.identity);
  const isListed = entry?.roles.includes('control-plane') === true;
  const approved = join?.decision?.roles ?? [];
  const subject = { nodeId, pubKeyDer, identity: machine.identity };
  const approval = async (): Promise<string | undefined> => {
    const { document, why } = await ownerDocs.tryNewest('grant', nodeId, signal);
    if (isGranted(document, subject, approved)) return undefined;
    return why ?? `no owner has granted ${approved.join(' ')} to this machine`;
  };
  return {
    inventory: isListed ? await ownerDocs.whyConfigurationUnsigned(sha256, signal) : undefined,
    approval: isControlPlane(approved) ? await approval() : undefined,
  };
}

async function readNode(
  etcd: KeySpace,
  nodeId: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  return (await records.node.read(etcd, records.node.key(nodeId), signal)).record;
}

async function readMachineHolder(
  etcd: KeySpace,
  identity: string,
  signal: AbortSignal,
): Promise<NodeRecord | undefined> {
  const { record } = await records.identity.read(etcd, records.identity.key(identity), signal);
  return record && readNode(etcd, record.nodeId, signal);
}

/** Every name that a decision could assign to this machine. */
function namesToLookUp(
  { nodeId, machine, claimed }: JudgedApplicant,
  join: JoinRecord | undefined,
  policy: JoinPolicy,
): readonly string[] {
  const listed = policy.inventory.find(({ identity }) => identity === machine.identity)?.name;
  const names = [join?.decision?.name, listed, requestedName(claimed), nodeId];
  return [...new Set(names.filter((name): name is string => name !== undefined && name !== ''))];
}

function otherThan(nodeId: string, holder: string | undefined): string | undefined {
  return holder === nodeId ? undefined : holder;
}

function textOf(entry: Entry | undefined): string | undefined {
  return entry === undefined ? undefined : new TextDecoder().decode(entry.value);
}
