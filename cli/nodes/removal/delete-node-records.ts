import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import {
  canonicalJson,
  parseClusterConfig,
  type InventoryMachine,
  type Json,
} from '../../../internal/config/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { fingerprintOfKey } from '../../../internal/pki/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import { openSigner, policyFor, type DocumentSigner } from '../../sign/index.ts';
import { readCaller, callCurator, newMutation } from '../../cluster/index.ts';
import {
  readLastApplied,
  saveLastApplied,
  readCurrentConfiguration,
  type CurrentConfiguration,
} from '../../configuration/index.ts';

/** Others may change the configuration meanwhile; each time the change is made again. */
const TRIES = 5;
const OVERTAKEN: readonly string[] = [
  'curator-configuration-stale',
  'owner-document-serial-old',
  'owner-document-serial-conflict',
];

export interface DeleteOptions {
  /** The machine is in hand and will ask again: an owner readmits it with the same call. */
  readonly isReset: boolean;
}

/**
 * Deletes the record of a node. What stays is the removal of its machine, and what goes with it are the inventory entries
 * that name it; those of a machine that was reset stay, since its owner readmits it.
 */
export async function deleteNodeRecords(
  context: CommandContext,
  node: Node,
  options: DeleteOptions,
): Promise<readonly InventoryMachine[]> {
  for (let tries = 1; ; tries++) {
    const signer = await openSigner(context);
    const inForce = await readCurrentConfiguration(context);
    const entries = inventoryEntriesOf(node, inForce);
    const isTaken = !options.isReset && entries.length > 0 && signer !== undefined;
    const request = {
      nodeId: node.nodeId,
      mutation: newMutation(),
      ...(options.isReset ? { documents: readmissionsFor(signer, node) } : {}),
      ...(isTaken ? withoutEntries(signer, inForce, entries) : {}),
    };
    try {
      await callCurator(context, (curator, call) => curator.deleteNode(request, call));
    } catch (error) {
      if (error instanceof CodedError && OVERTAKEN.includes(String(error.code)) && tries < TRIES) continue;
      throw error;
    }
    if (!isTaken) return [];
    await keepBase(context, inForce);
    tell(context, entries);
    return entries;
  }
}

/** The entries of the inventory in force that name the machine of a node. */
export function inventoryEntriesOf(
  node: Node,
  { text }: Pick<CurrentConfiguration, 'text'>,
): readonly InventoryMachine[] {
  const identities = machineIdentitiesOf(node);
  try {
    const { inventory } = parseClusterConfig(text, 'the configuration in force').join;
    return inventory.filter(({ identity }) => identities.includes(identity));
  } catch (error) {
    if (error instanceof CodedError) return []; // nobody can read it, the curator neither
    throw error;
  }
}

/**
 * Before anything is taken away: the entries that name the machine can only be taken out with an owner's signature. A machine
 * that was lost is excluded all the same, and its records stay until an owner runs the same command.
 */
export async function requireOwnerForInventory(
  context: CommandContext,
  { name }: Node,
  { entries, isLost }: { readonly entries: readonly InventoryMachine[]; readonly isLost: boolean },
): Promise<void> {
  if (entries.length === 0 || (await readCaller(context)).isOwner) return;
  const names = entries.map((entry) => `${printable(entry.name)} (${printable(entry.identity)})`).join(', ');
  const text = `removing node ${name}: the inventory names its machine, ${names}`;
  if (!isLost) throw new OwnerDocumentError('owner-document-required', text);
  context.host.warn(
    'node-inventory-owner',
    `${text}: the node is excluded now, and an owner has to run the same command to delete its records`,
  );
}

/** By hardware and by node key. */
export function machineIdentitiesOf({
  admission,
  publicKey,
}: Pick<Node, 'admission' | 'publicKey'>): readonly string[] {
  const byKey = fingerprintOfKey(publicKey).replace('sha256:', 'machine-key:');
  return admission === undefined ? [byKey] : [admission.identity, byKey];
}

/** Lifts the removal that this call makes. */
function readmissionsFor(signer: DocumentSigner | undefined, node: Node): Uint8Array[] {
  const [identity] = machineIdentitiesOf(node);
  if (signer === undefined || identity === undefined) return [];
  const before = signer.removed.find((each) => each.identity === identity)?.removal ?? 0;
  return [signer.sign('readmission', { identity, removal: before + 1 })];
}

function withoutEntries(
  signer: DocumentSigner,
  { document, revision: baseRevision }: CurrentConfiguration,
  entries: readonly InventoryMachine[],
) {
  const gone = entries.map(({ identity }) => identity);
  const configuration = Buffer.from(canonicalJson(without(document, gone)), 'utf8');
  return { configuration, baseRevision, documents: policyFor(signer, configuration) };
}

function without(document: Json | undefined, gone: readonly string[]): Json {
  const config = document as { readonly join?: { readonly inventory?: readonly InventoryMachine[] } };
  const inventory = (config.join?.inventory ?? []).filter(({ identity }) => !gone.includes(identity));
  return { ...config, join: { ...config.join, inventory } };
}

/** What the init left is what this workspace's file was made from: its next `config apply` has to know. */
async function keepBase(
  context: CommandContext,
  { document, updatedBy }: CurrentConfiguration,
): Promise<void> {
  const { files } = context.ports;
  const member = await readCaller(context);
  const isFirst = (await readLastApplied(files, member)) === undefined && !updatedBy.startsWith('operator:');
  if (isFirst && document !== undefined) await saveLastApplied(files, member, document);
}

function tell({ host }: CommandContext, entries: readonly InventoryMachine[]): void {
  const names = entries.map(({ name, identity }) => `${printable(name)} (${printable(identity)})`).join(', ');
  host.say('node-inventory', `Taken out of the inventory: ${names}`, { entries });
}
