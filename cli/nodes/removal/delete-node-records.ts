import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import {
  canonicalJson,
  parseClusterConfig,
  type InventoryMachine,
  type Json,
} from '../../../internal/config/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { fingerprintOfKey } from '../../../internal/pki/index.ts';
import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import {
  grantSubjectOf,
  isControlPlaneGranted,
  openChangeSigner,
  withdrawalFor,
  type ChangeSigner,
  type Proposal,
} from '../../sign/index.ts';
import { readCaller, callCurator, newMutation } from '../../cluster/index.ts';
import {
  readLastApplied,
  saveLastApplied,
  readCurrentConfiguration,
  requireSignedConfiguration,
  type CurrentConfiguration,
} from '../../configuration/index.ts';

/** Maximum number of attempts to make the change: another client may change the configuration meanwhile. */
const TRIES = 5;
const CONFLICTS: readonly string[] = [
  'curator-configuration-stale',
  'owner-document-serial-old',
  'owner-document-serial-conflict',
];

/** How the records of a node are deleted. */
export interface DeleteOptions {
  /** The machine was reset and will join again, so the owner readmits it in the call that removes it. */
  readonly isReset: boolean;
}

/**
 * Deletes the record of a node and, unless its machine was reset, the inventory entries of that machine. The cluster keeps a
 * record of the removal, which refuses the machine. Returns the deleted entries.
 */
export async function deleteNodeRecords(
  context: CommandContext,
  node: Node,
  options: DeleteOptions,
): Promise<readonly InventoryMachine[]> {
  for (let tries = 1; ; tries++) {
    const { request, deleted, current } = await signedDeletion(context, node, options);
    try {
      await callCurator(context, ({ curator }) =>
        curator.deleteNode({ ...request, mutation: newMutation() }),
      );
    } catch (error) {
      if (error instanceof CodedError && CONFLICTS.includes(String(error.code)) && tries < TRIES) continue;
      throw error;
    }
    if (deleted.length === 0) return [];
    await saveMergeBase(context, current);
    context.host.say('node-inventory', `Deleted from the inventory: ${namesOf(deleted)}`, {
      entries: deleted,
    });
    return deleted;
  }
}

/**
 * Before anything is removed: writes the request for what an owner has to sign, if the command is only to do that.
 * @throws OwnerDocumentError `owner-document-required` when the request was written
 */
export async function requestDeletion(context: CommandContext, node: Node): Promise<void> {
  if (context.ownerSignature?.kind === 'request') await signedDeletion(context, node, { isReset: false });
}

/** The call that deletes the records of a node, with its documents; `deleted` are the inventory entries that it deletes. */
async function signedDeletion(context: CommandContext, node: Node, { isReset }: DeleteOptions) {
  const signer = await openChangeSigner(context);
  const current = await readCurrentConfiguration(context);
  const entries = inventoryEntriesOf(node, current);
  const deleted = !isReset && signer !== undefined ? entries : [];
  if (deleted.length > 0) requireSignedConfiguration(signer, current, `removing node ${node.name}`);
  const changed = deleted.length > 0 ? withoutEntries(current, deleted) : undefined;
  const documents = await signer?.signAll([
    ...(isReset ? readmissionsFor(signer, node) : []),
    ...(changed?.proposals ?? []),
    ...withdrawalsFor(signer, node, entries),
  ]);
  return {
    request: { nodeId: node.nodeId, ...changed?.change, documents: documents ?? [] },
    deleted,
    current,
  };
}

/** The entries of the join inventory in the cluster's configuration that identify the machine of a node. */
export function inventoryEntriesOf(
  node: Node,
  { text }: Pick<CurrentConfiguration, 'text'>,
): readonly InventoryMachine[] {
  const identities = machineIdentitiesOf(node);
  try {
    const { inventory } = parseClusterConfig(text, 'the configuration of the cluster').join;
    return inventory.filter(({ identity }) => identities.includes(identity));
  } catch (error) {
    // The curator cannot read this configuration either, so it lists no machine.
    if (error instanceof CodedError) return [];
    throw error;
  }
}

/**
 * Inventory entries can only be deleted with an owner's signature. If the caller is no owner, a lost machine
 * is still decommissioned, but its records stay until an owner runs the command.
 * @throws OwnerDocumentError `owner-document-required`
 */
export async function requireOwnerForInventory(
  context: CommandContext,
  { name }: Node,
  { entries, isLost }: { readonly entries: readonly InventoryMachine[]; readonly isLost: boolean },
): Promise<void> {
  if (entries.length === 0 || context.ownerSignature !== undefined) return;
  if ((await readCaller(context)).isOwner) return;
  const text = `removing node ${name}: its machine is in the inventory: ${namesOf(entries)}`;
  if (!isLost) throw new OwnerDocumentError('owner-document-required', text);
  context.host.warn(
    'node-inventory-owner',
    `${text}; the node is decommissioned now, and an owner must run the same command to delete its records`,
  );
}

/** Identities of a node's machine: by hardware if known, and by node key. */
export function machineIdentitiesOf({
  admission,
  publicKey,
}: Pick<Node, 'admission' | 'publicKey'>): readonly string[] {
  const byKey = fingerprintOfKey(publicKey).replace('sha256:', 'machine-key:');
  return admission === undefined ? [byKey] : [admission.identity, byKey];
}

/** The readmission that cancels the removal recorded by the same call. */
function readmissionsFor(signer: ChangeSigner, node: Node): Proposal[] {
  const [identity] = machineIdentitiesOf(node);
  if (identity === undefined) return [];
  const before = signer.removed.find((each) => each.identity === identity)?.removal ?? 0;
  return [{ kind: 'readmission', body: { identity, removal: before + 1 } }];
}

/** The document that withdraws the control-plane roles that owners have granted a node; none for a worker. */
function withdrawalsFor(signer: ChangeSigner, node: Node, entries: readonly InventoryMachine[]): Proposal[] {
  const isListed = entries.some(({ roles }) => roles.includes('control-plane'));
  const wasControlPlane =
    node.roles.includes(NodeRole.CONSENSUS_MEMBER) || isControlPlaneGranted(signer, node.nodeId);
  return isListed || wasControlPlane ? [withdrawalFor(signer, grantSubjectOf(node))] : [];
}

function withoutEntries(
  { document, text, revision: baseRevision }: CurrentConfiguration,
  entries: readonly InventoryMachine[],
) {
  const gone = entries.map(({ identity }) => identity);
  const after = canonicalJson(without(document, gone));
  const proposals: Proposal[] = [{ kind: 'policy', before: text, after }];
  return { change: { configuration: Buffer.from(after, 'utf8'), baseRevision }, proposals };
}

function without(document: Json | undefined, gone: readonly string[]): Json {
  const config = document as { readonly join?: { readonly inventory?: readonly InventoryMachine[] } };
  const inventory = (config.join?.inventory ?? []).filter(({ identity }) => !gone.includes(identity));
  return { ...config, join: { ...config.join, inventory: inventory as unknown as Json } };
}

/**
 * As long as no configuration was applied, cluster.yaml is based on the configuration of the init. Saves that
 * configuration as the base of the next merge.
 */
async function saveMergeBase(
  context: CommandContext,
  { document, updatedBy }: CurrentConfiguration,
): Promise<void> {
  const { files } = context.ports;
  const member = await readCaller(context);
  const isFirst = (await readLastApplied(files, member)) === undefined && !updatedBy.startsWith('operator:');
  if (isFirst && document !== undefined) await saveLastApplied(files, member, document);
}

function namesOf(entries: readonly InventoryMachine[]): string {
  return entries.map(({ name, identity }) => `${printable(name)} (${printable(identity)})`).join(', ');
}
