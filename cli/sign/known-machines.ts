import { join } from 'node:path';
import { z } from 'zod';
import { readJson, type FilePort } from '../../internal/file/index.ts';
import {
  isSharedIdentity,
  knownMachineShape,
  MAX_KNOWN_MACHINES,
  type KnownMachine,
} from '../../internal/records/index.ts';
import type { RemovedMachine } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';

const MAX_BYTES = 4 * 1024 * 1024;
const shape = z.object({
  version: z.literal(1),
  clusterId: z.string(),
  machines: z.array(knownMachineShape).max(MAX_KNOWN_MACHINES),
});

const pinShape = knownMachineShape.extend({ clusterId: z.string() });

type Files = Pick<FilePort, 'read' | 'makeDirectory' | 'writeAtomic'>;
/** The workspace, and its cluster. */
interface Workspace {
  readonly directory: string;
  readonly clusterId: string;
}

/**
 * Saves the machines that the cluster refuses. A backup from before a removal does not know it, and only the workspace tells the restored
 * cluster. No cluster deletes the record of a removal: a machine that a curator does not name any more stays, until it is readmitted.
 */
export async function saveRemovedMachines(
  files: Files,
  workspace: Workspace,
  removed: readonly RemovedMachine[],
): Promise<void> {
  const named = new Set(removed.map(({ identity }) => identity));
  const others = (await readKnownMachines(files, workspace)).filter(({ identity }) => !named.has(identity));
  const refused = removed.filter(({ readmitted }) => !readmitted);
  await saveKnownMachines(files, workspace, [...others, ...refused]);
}

/**
 * Adds the machines that this workspace has verified or approved: one that joined after a backup is not in it. Without those whose identity
 * other machines may have.
 * @param from.machines the directory with a file for each of these machines
 * @param from.except IDs of nodes that stay members
 */
export async function addPinnedMachines(
  files: Files & Pick<FilePort, 'list'>,
  workspace: Workspace,
  { machines, except = [] }: { readonly machines: string; readonly except?: readonly string[] },
): Promise<void> {
  const names = (await files.list(machines)).filter((name) => name.endsWith('.json'));
  const pins = await Promise.all(names.map((name) => readJson(files, join(machines, name), MAX_BYTES)));
  const pinned = pins.flatMap((pin) => pinShape.safeParse(pin).data ?? []);
  const own = pinned.filter(
    ({ clusterId, identity, nodeId }) =>
      clusterId === workspace.clusterId && !isSharedIdentity(identity) && !except.includes(nodeId),
  );
  await addKnownMachines(files, workspace, own);
}

/** The machines in the file `removed-machines.json` of another workspace; undefined if it is missing, damaged, or of another cluster. */
export async function readOtherKnownMachines(
  files: Pick<FilePort, 'read'>,
  path: string,
  clusterId: string,
): Promise<readonly KnownMachine[] | undefined> {
  const { data } = shape.safeParse(await readJson(files, path, MAX_BYTES));
  return data?.clusterId === clusterId ? data.machines : undefined;
}

/** Adds machines that another workspace of this cluster knows. */
export async function addKnownMachines(
  files: Files,
  workspace: Workspace,
  machines: readonly KnownMachine[],
): Promise<void> {
  await saveKnownMachines(files, workspace, joinKnown(await readKnownMachines(files, workspace), machines));
}

/** Both lists, with each identity once. */
export function joinKnown(
  known: readonly KnownMachine[],
  others: readonly KnownMachine[],
): readonly KnownMachine[] {
  const own = new Set(known.map(({ identity }) => identity));
  return [...known, ...others.filter(({ identity }) => !own.has(identity))];
}

/** Saves these machines. Names and identities come from a curator: those that have another shape are left out. */
async function saveKnownMachines(
  files: Files,
  workspace: Workspace,
  all: readonly KnownMachine[],
): Promise<void> {
  const { directory, clusterId } = workspace;
  const machines = all
    .flatMap((each) => knownMachineShape.safeParse(each).data ?? [])
    .slice(-MAX_KNOWN_MACHINES);
  if (JSON.stringify(machines) === JSON.stringify(await readKnownMachines(files, workspace))) return;
  await files.makeDirectory(directory);
  const text = `${JSON.stringify({ version: 1, clusterId, machines })}\n`;
  await files.writeAtomic(pathIn(directory), text, { mode: 0o600 });
}

/** The machines that were saved last; empty if the file is missing, damaged or of another cluster. */
export async function readKnownMachines(
  files: Pick<FilePort, 'read'>,
  { directory, clusterId }: Workspace,
): Promise<readonly KnownMachine[]> {
  return (await readOtherKnownMachines(files, pathIn(directory), clusterId)) ?? [];
}

function pathIn(directory: string): string {
  return join(directory, 'removed-machines.json');
}
