import { formatDuration } from '../../../internal/clock/index.ts';
import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import type { RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import {
  isControlPlaneWithdrawn,
  openChangeSigner,
  saveRemovedMachines,
  withdrawalFor,
  type Proposal,
  type SignedRecords,
} from '../../sign/index.ts';
import { callCurator, newMutation, readCaller } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import { BY_KEY, findRemoved, removedNodesOf } from './removed-machines.ts';

/**
 * `cluster node ls --removed`: machines that were removed, which every policy refuses until an owner readmits them. The
 * table has one row for each machine; its data has all records.
 */
export async function runRemovedList(context: CommandContext): Promise<void> {
  const { removed } = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  await saveRemovedMachines(context.ports.files, await readCaller(context), removed);
  const viewOf = (each: RemovedMachine) => ({
    identity: printable(each.identity),
    name: printable(each.name),
    nodeId: printable(each.nodeId),
    removal: each.removal,
    removedMs: Number(each.removedMs),
    removedBy: printable(each.removedBy),
    readmitted: each.readmitted,
  });
  const machines = removedNodesOf(removed).filter(({ isFormer }) => !isFormer);
  const nowMs = context.ports.clock.nowMs();
  context.host.list({
    data: { removed: removed.map(viewOf) },
    items: machines.map(({ main }) => viewOf(main)),
    nameOf: ({ identity }) => identity,
    empty: 'No removed machines.',
    columns: [
      { title: 'IDENTITY', textOf: ({ identity }) => identity },
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'REMOVED BY', textOf: ({ removedBy }) => removedBy },
      { title: 'READMITTED', textOf: ({ readmitted }) => (readmitted ? 'yes' : 'no') },
      { title: 'AGE', textOf: ({ removedMs }) => formatDuration(nowMs - removedMs) },
      { title: 'NODE ID', textOf: ({ nodeId }) => nodeId, isWide: true },
      { title: 'REMOVAL', textOf: ({ removal }) => String(removal), isWide: true },
    ],
  });
}

/** `cluster node readmit`: allows a removed machine, by name, node id or identity, to ask to join again. Needs an owner. */
export async function runReadmit(context: CommandContext, which: string): Promise<void> {
  const signer = await openChangeSigner(context);
  if (signer === undefined)
    throw new OwnerDocumentError('owner-document-required', `readmitting ${which}: requires role owner`);
  const { records: found } = findRemoved(signer.removed, which);
  const open = found.filter(({ readmitted }) => !readmitted);
  const readmissions = open.map(({ identity, removal }): Proposal => ({
    kind: 'readmission',
    body: { identity, removal },
  }));
  await putDocuments(context, await signer.signAll([...readmissions, ...withdrawalsFor(signer, found)]));
  const identities = found.map(({ identity }) => printable(identity));
  context.host.result({ identities, readmitted: open.length }, () =>
    [
      open.length === 0 ? `${which} is already readmitted.` : `${which} may ask to join again, for 30 days.`,
      ...identities.map((identity) => `  ${identity}`),
      'It needs approval like any other machine. Unless it was reset since its removal, reset it first, as root on the machine: see cluster node reset --help',
    ].join('\n'),
  );
}

/**
 * Signs that a removed control plane is no control plane any more, if an operator without an owner's key removed it.
 * Only after this signature do the cluster's signers, which issue certificates, let another machine have its address
 * and name. Does nothing for a caller who is not an owner.
 */
export async function confirmRemoval(context: CommandContext, nodeId: string): Promise<void> {
  const signer = await openChangeSigner(context);
  if (signer === undefined) return;
  const found = signer.removed.filter((each) => each.nodeId === nodeId);
  await putDocuments(context, await signer.signAll(withdrawalsFor(signer, found)));
}

/** The node ID of the removed machine with this name; undefined unless there is exactly one. */
export async function removedNodeId(context: CommandContext, name: string): Promise<string | undefined> {
  const { removed } = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  try {
    return findRemoved(
      removed.filter((each) => each.name === name),
      name,
    ).main.nodeId;
  } catch (error) {
    if (error instanceof NodesError) return undefined;
    throw error;
  }
}

/** The record of the removal of a node, by its ID; undefined if there is none. */
export async function readRemoval(
  context: CommandContext,
  nodeId: string,
): Promise<RemovedMachine | undefined> {
  const { removed } = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  return removed.find((each) => each.nodeId === nodeId);
}

async function putDocuments(context: CommandContext, documents: Uint8Array[]): Promise<void> {
  if (documents.length === 0) return;
  const mutation = newMutation();
  await callCurator(context, ({ operatorApi }) => operatorApi.putDocuments({ documents, mutation }));
}

/**
 * The withdrawal for a removed machine, unless an owner has signed one. The record of a removal does not tell whether
 * the machine was a control plane, because machines in the inventory need no grant for this role. Without a withdrawal,
 * the cluster's signers would reserve its address and name.
 * @param removals of one machine
 */
function withdrawalsFor(signer: SignedRecords, removals: readonly RemovedMachine[]): Proposal[] {
  const byKey = removals.find(({ identity }) => identity.startsWith(BY_KEY));
  if (byKey === undefined || isControlPlaneWithdrawn(signer, byKey.nodeId)) return [];
  const { identity } = removals.find((each) => each !== byKey) ?? byKey;
  const fingerprint = byKey.identity.replace(BY_KEY, 'sha256:');
  return [withdrawalFor(signer, { nodeId: byKey.nodeId, fingerprint, identity })];
}
