import { approvalKeyOfOwner, signApproval } from '../../../internal/statedisk/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, findNode } from '../../cluster/index.ts';
import { formatTable } from '../../host/index.ts';
import { layoutOf, readOwnerKey } from '../../workspace/index.ts';
import { NodesError } from '../errors.ts';
import { readVerifier } from '../fresh-evidence.ts';
import { readVerifiedDiskSeal, type NodeDiskSeal, type Registers } from './read-disk-seal.ts';
import { readRegisterFile } from './register-file.ts';

/** Where the cluster share of the disk is. */
const SHARE_TEXTS = {
  machine: 'The machine keeps both shares of the key, sealed to its TPM.',
  signer:
    'The machine keeps the node share only. A signer of the cluster gives it the other one at each start.',
} as const;
const ANSWER_MS = 90_000;
/** The node tests the approval with its TPM first. */
const APPROVE_MS = 150_000;
const MAX_SOFTWARE = 8;
const RUNNING = 'running';

/** Flags of `cluster attest approve`. */
export interface ApproveDiskOptions {
  /** Files with registers of software that the machine will start. */
  readonly registers: readonly string[];
  readonly dryRun: boolean;
  readonly yes: boolean;
}

/** Software with which a disk opens. */
interface Software {
  /** The file that its registers are from, or `RUNNING`. */
  readonly name: string;
  readonly registers: Registers;
}

/**
 * `cluster attest approve`: approves registers for the state disk of a node before the machine has them, so that it opens after an
 * update of firmware or image. The approval names all software with which the disk opens: what runs now, and what the files name. All
 * earlier approvals end. The node tests the approval with its TPM before it takes it.
 * @throws NodesError, RemoteError `disk-approval-refused`, `statedisk-approval-invalid`
 */
export async function runApproveDisk(
  context: CommandContext,
  name: string,
  options: ApproveDiskOptions,
): Promise<void> {
  const { host } = context;
  const { keyPem } = await readOwnerKey(context, layoutOf(context.paths.workspace));
  const verifier = await readVerifier(context);
  const node = await findNode(context, name);
  const seal = await host.step('approve-disk-read', `Asking ${node.name} about its state disk`, () =>
    readVerifiedDiskSeal(context, verifier, { node, asked: name, timeoutMs: ANSWER_MS }),
  );
  const { seals } = seal;
  if (seals === undefined)
    throw new NodesError('nodes-disk-not-approvable', `approving registers of ${printable(node.name)}`);
  const software = await chooseSoftware(context, seal, options.registers);
  const view = viewOf(node, seal, software);
  const text = render(node, seal, software);
  if (options.dryRun) return host.result({ ...view, dryRun: true }, () => `${text}\n\nNothing was changed.`);
  host.say('approve-disk-changes', text, view);
  await confirm(context, node, options);
  const [first, ...others] = software.map(({ registers }) => registers);
  const { uuid } = seal;
  const generation = seal.generation + 1n;
  const content = { uuid, generation, seals, software: [first ?? seal.registers, ...others] } as const;
  const approval = signApproval(content, approvalKeyOfOwner(keyPem).privateKey);
  await host.step('approve-disk', `Testing and storing the approval on ${node.name}`, () =>
    callCurator(context, ({ nodeStreams }) =>
      nodeStreams.approveDisk({ node: node.nodeId, approval: { approval } }, { timeoutMs: APPROVE_MS }),
    ),
  );
  host.result(view, () =>
    [
      `The state disk of ${node.name} opens with these registers from now on, and with no others.`,
      ...(software.length === 1
        ? []
        : [
            `After the update: cluster attest approve ${node.name}   (ends the approval of the old software)`,
          ]),
    ].join('\n'),
  );
}

/** The software that runs, and that of the files, each once. */
async function chooseSoftware(
  context: CommandContext,
  { registers }: NodeDiskSeal,
  files: readonly string[],
): Promise<readonly Software[]> {
  const all: Software[] = [{ name: RUNNING, registers }];
  for (const path of files) {
    const read = await readRegisterFile(context, path, registers);
    if (!all.some((each) => textOf(each.registers) === textOf(read)))
      all.push({ name: path, registers: read });
  }
  if (all.length <= MAX_SOFTWARE) return all;
  throw new NodesError('nodes-register-file', `${all.length} sets of registers, at most ${MAX_SOFTWARE}`);
}

async function confirm({ host }: CommandContext, node: Node, { yes }: ApproveDiskOptions): Promise<void> {
  if (yes) return;
  const question = `Let the disk of ${node.name} open with these registers?`;
  if (host.interactive && (await host.confirm(question, false))) return;
  throw new NodesError('nodes-approval-not-confirmed', `approving registers of ${printable(node.name)}`);
}

function render(node: Node, seal: NodeDiskSeal, software: readonly Software[]): string {
  const rows = software.flatMap(({ name, registers }) => {
    const changed = [...registers].filter(([pcr, value]) => hex(value) !== hex(seal.registers.get(pcr)));
    if (changed.length === 0) return [[printable(name), '<all>', 'as they are now']];
    return changed.map(([pcr, value]) => [printable(name), String(pcr), hex(value)]);
  });
  const ended = endedBy(seal, software).length;
  return [
    `The state disk of ${printable(node.name)} (${printable(seal.uuid)}) will open with:`,
    formatTable(['SOFTWARE', 'PCR', 'VALUE'], rows),
    SHARE_TEXTS[shareKeeperOf(seal)],
    ...(ended === 0 ? [] : [`No longer approved: ${ended} of the ${seal.approved.length} sets that were.`]),
  ].join('\n');
}

/** A machine that keeps its cluster share has sealed both. */
function shareKeeperOf({ seals }: NodeDiskSeal): keyof typeof SHARE_TEXTS {
  return seals?.length === 1 ? 'signer' : 'machine';
}

function viewOf(node: Node, seal: NodeDiskSeal, software: readonly Software[]) {
  return {
    node: printable(node.name),
    disk: printable(seal.uuid),
    clusterShare: shareKeeperOf(seal),
    software: software.map(({ name, registers }) => ({ name, registers: hexOf(registers) })),
    ended: endedBy(seal, software).map(hexOf),
  };
}

/** What was approved and is not any more. */
function endedBy({ approved }: NodeDiskSeal, software: readonly Software[]): readonly Registers[] {
  return approved.filter((each) => !software.some(({ registers }) => textOf(registers) === textOf(each)));
}

function hexOf(registers: Registers): Readonly<Record<string, string>> {
  return Object.fromEntries([...registers].map(([pcr, value]) => [`pcr${pcr}`, hex(value)]));
}

function textOf(registers: Registers): string {
  return [...registers]
    .sort(([a], [b]) => a - b)
    .map(([pcr, value]) => `${pcr}=${hex(value)}`)
    .join();
}

function hex(bytes: Uint8Array = new Uint8Array()): string {
  return Buffer.from(bytes).toString('hex');
}
