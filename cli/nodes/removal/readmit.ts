import { formatDuration } from '../../../internal/clock/index.ts';
import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import type { RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import {
  isControlPlaneWithdrawn,
  openChangeSigner,
  withdrawalFor,
  type Proposal,
  type SignedRecords,
} from '../../sign/index.ts';
import { callCurator, newMutation } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';

const MIN_PREFIX = 8;
/** Every removal is recorded under the node key, and under the hardware where that is known. */
const BY_KEY = 'machine-key:';

/** `cluster node ls --removed`: machines that were removed, which every policy refuses until an owner readmits them. */
export async function runRemovedList(context: CommandContext): Promise<void> {
  const { removed } = await callCurator(context, ({ operatorApi }) => operatorApi.listDocuments({}));
  const views = removed.map((each) => ({
    identity: printable(each.identity),
    name: printable(each.name),
    nodeId: printable(each.nodeId),
    removal: each.removal,
    removedMs: Number(each.removedMs),
    removedBy: printable(each.removedBy),
    readmitted: each.readmitted,
  }));
  const nowMs = context.ports.clock.nowMs();
  context.host.list({
    data: { removed: views },
    items: views,
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
  const found = removedAs(signer.removed, which);
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
      'It needs approval like any other machine. Reset it first, as root on the machine: see cluster node reset --help',
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
  const ids = new Set(openOnes(removed.filter((each) => each.name === name)).map(({ nodeId }) => nodeId));
  return ids.size === 1 ? [...ids][0] : undefined;
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

/**
 * The removals of one machine: recorded by hardware and by node key, so there may be two.
 * @throws NodesError `nodes-removed-unknown` unless exactly one machine matches
 */
function removedAs(removed: readonly RemovedMachine[], which: string): readonly RemovedMachine[] {
  const isMeant = ({ identity, name, nodeId }: RemovedMachine): boolean =>
    [name, nodeId, identity].includes(which) ||
    (which.length >= MIN_PREFIX &&
      identity.replace(/^[a-z0-9-]+:/, '').startsWith(which.replace(/^[a-z0-9-]+:/, '')));
  const nodes = new Set(openOnes(removed.filter(isMeant)).map(({ nodeId }) => nodeId));
  const [nodeId, ...others] = [...nodes];
  if (nodeId === undefined || others.length > 0)
    throw new NodesError(
      'nodes-removed-unknown',
      nodeId === undefined
        ? `removed machine ${JSON.stringify(which)} not found`
        : `${JSON.stringify(which)} matches ${nodes.size} removed machines`,
    );
  return removed.filter((each) => each.nodeId === nodeId);
}

/** A machine that was readmitted and removed again has a removal for each of its node keys: those without a readmission are meant. */
function openOnes(removals: readonly RemovedMachine[]): readonly RemovedMachine[] {
  const open = removals.filter(({ readmitted }) => !readmitted);
  return open.length === 0 ? removals : open;
}
