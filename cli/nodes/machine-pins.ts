import { join } from 'node:path';
import { z } from 'zod';
import { endorsementKeyIdentity } from '../../internal/attestation/index.ts';
import type { ClusterConfig } from '../../internal/config/index.ts';
import { DNS_LABEL } from '../../internal/endpoint/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { readCaller } from '../cluster/index.ts';
import { layoutOf, readConfig, StateFile } from '../workspace/index.ts';
import { NodesError } from './errors.ts';

const MAX_BYTES = 16 * 1024;

const pinShape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string(),
  name: z.string().regex(DNS_LABEL),
  /**
   * Absent after this workspace has removed or reset the machine. Then the next verified machine, or the new keys of
   * the reset machine, are saved here.
   */
  identity: z.string().optional(),
  nodeId: z.string().optional(),
  akName: z.string().optional(),
  variant: z.string().optional(),
});

/** The machine that this workspace expects under a node name: the first one it saw. Stored in machines/NAME.json. */
export type MachinePin = Readonly<z.infer<typeof pinShape>>;

/** The parts of a node's record that identify its machine. */
type NamedMachine = Pick<Node, 'nodeId' | 'name' | 'publicKey'> & {
  readonly admission?: Pick<NonNullable<Node['admission']>, 'identity' | 'akName' | 'variant'> | undefined;
};

/**
 * The machines that this workspace knows. Without them `cluster verify` would have to learn from the cluster
 * which machine to expect, and the cluster is what it verifies: a hostile curator or etcd could present the
 * record and the evidence of another genuine machine.
 */
export class MachinePins {
  readonly #context: CommandContext;
  readonly #directory: string;
  readonly #clusterId: string;
  readonly #pins: readonly MachinePin[];

  private constructor(
    context: CommandContext,
    of: { readonly directory: string; readonly clusterId: string; readonly pins: readonly MachinePin[] },
  ) {
    this.#context = context;
    this.#directory = of.directory;
    this.#clusterId = of.clusterId;
    this.#pins = of.pins;
  }

  /**
   * Reads the saved pins. The pin of the first node comes from what the init has verified, if no pin of it is
   * saved.
   * @throws NodesError `nodes-pin-damaged`
   */
  static async read(context: CommandContext): Promise<MachinePins> {
    const { clusterId, directory: workspace } = await readCaller(context);
    const { files } = context.ports;
    const directory = layoutOf(workspace).machines;
    const names = (await files.list(directory)).filter((name) => name.endsWith('.json'));
    const all = await Promise.all(names.map((name) => readPin(context, join(directory, name))));
    const saved = all.filter((pin) => pin.clusterId === clusterId);
    const first = await pinOfInit(context, clusterId);
    const pins =
      first === undefined || saved.some(({ name }) => name === first.name) ? saved : [...saved, first];
    return new MachinePins(context, { directory, clusterId, pins });
  }

  /** The pin of a node name; undefined if there is none, or if it identifies no machine. */
  of(name: string): MachinePin | undefined {
    const pin = this.#pins.find((each) => each.name === name);
    return pin?.identity === undefined && pin?.nodeId === undefined ? undefined : pin;
  }

  /** How the record of a node contradicts its pin, or the pin of another node; empty if it contradicts none. */
  contradictions(node: NamedMachine): readonly string[] {
    const pin = this.of(node.name);
    const machine = machineOf(node);
    const parts = [
      ['machine', pin?.identity, machine.identity],
      ['node ID', pin?.nodeId, machine.nodeId],
      ['attestation key', pin?.akName, machine.akName],
      ['kind of evidence', pin?.variant, machine.variant],
    ] as const;
    const changed = parts
      .filter(([, known, now]) => known !== undefined && known !== now)
      .map(([what, known = '', now]) => `${what} ${printable(now ?? '') || 'none'}, known is ${known}`);
    const others = this.#pins
      .filter(({ name }) => name !== node.name)
      .filter(
        ({ identity, nodeId }) =>
          nodeId === machine.nodeId || (identity !== undefined && identity === machine.identity),
      )
      .map(({ name }) => `this machine is known as node ${name}`);
    return [...changed, ...others];
  }

  /** Whether the pin of this node already has everything that its record contains. */
  isComplete(node: NamedMachine): boolean {
    const pin = this.of(node.name);
    const machine = machineOf(node);
    return pin !== undefined && PARTS.every((part) => pin[part] === machine[part]);
  }

  /**
   * Saves the machine in this record as the machine of its name. Call it after the evidence of the machine
   * was verified.
   */
  async save(node: NamedMachine): Promise<void> {
    const { name } = node;
    await this.#write({ version: 1, clusterId: this.#clusterId, name, ...machineOf(node) });
  }

  /** Saves a machine that is expected under this name, before it was verified. */
  async expect(machine: Required<Pick<MachinePin, 'name' | 'nodeId' | 'identity'>>): Promise<void> {
    await this.#write({ version: 1, clusterId: this.#clusterId, ...machine });
  }

  /** After a removal any machine may have the name; after a reset only the same machine, with new keys. */
  async forget(node: Pick<Node, 'name' | 'nodeId'>, how: { readonly isReset: boolean }): Promise<void> {
    const pin = this.of(node.name);
    if (pin === undefined || pin.nodeId !== node.nodeId) return;
    const { version, clusterId, name, identity } = pin;
    const kept = how.isReset && identity !== undefined ? { identity } : {};
    await this.#write({ version, clusterId, name, ...kept });
  }

  async #write(pin: MachinePin): Promise<void> {
    if (!DNS_LABEL.test(pin.name))
      throw new NodesError('nodes-not-verified', `saving machine ${printable(pin.name)}: not a node name`);
    const { files } = this.#context.ports;
    await files.makeDirectory(this.#directory);
    const path = join(this.#directory, `${pin.name}.json`);
    await files.writeAtomic(path, `${JSON.stringify(pin)}\n`, { mode: 0o600 });
  }
}

const PARTS = ['identity', 'nodeId', 'akName', 'variant'] as const;

/**
 * How a record contradicts the inventory in the configuration of the workspace. Only an owner can have
 * written that inventory, never a curator.
 */
export function inventoryContradictions(
  { name, admission }: Pick<NamedMachine, 'name' | 'admission'>,
  { inventory }: ClusterConfig['join'],
): readonly string[] {
  const identity = admission?.identity ?? '';
  const named = inventory.find((entry) => entry.name === name);
  const listed = inventory.find((entry) => entry.identity === identity);
  return [
    ...(named !== undefined && named.identity !== identity
      ? [`machine ${printable(identity) || 'none'}, the inventory names ${named.identity}`]
      : []),
    ...(listed?.name !== undefined && listed.name !== name
      ? [`the inventory names this machine ${listed.name}`]
      : []),
  ];
}

/** Why the record that a curator returned is not that of the requested node; empty if it is. */
export function answerContradictions(asked: string, node: NamedMachine): readonly string[] {
  const { nodeId, name, publicKey } = node;
  return [
    ...(asked === nodeId || asked === name ? [] : [`the answer is about ${printable(name)}`]),
    ...(nodeIdOf(publicKey) === nodeId ? [] : ['the node key does not belong to the node ID']),
  ];
}

/**
 * Checks a record before an owner signs a grant for its machine: it must not contradict what this workspace and its inventory know.
 * The record comes from etcd, and somebody may have put a machine of their own under a known name.
 * @throws NodesError `nodes-machine-changed`, `nodes-pin-damaged`
 */
export async function requireKnownMachine(
  context: CommandContext,
  asked: string,
  node: NamedMachine,
): Promise<void> {
  const { files } = context.ports;
  const layout = layoutOf(context.paths.workspace);
  const hasConfig = (await files.stat(layout.config)) !== undefined;
  const problems = [
    ...answerContradictions(asked, node),
    ...(await MachinePins.read(context)).contradictions(node),
    ...(hasConfig ? inventoryContradictions(node, (await readConfig(files, layout)).join) : []),
  ];
  if (problems.length === 0) return;
  throw new NodesError(
    'nodes-machine-changed',
    `granting roles to node ${printable(node.name)}: ${problems.join('; ')}`,
  );
}

/**
 * Forgets the machine of a node that this workspace has removed or reset. If pin files are damaged, they stay
 * for `cluster verify` to report.
 */
export async function forgetMachine(
  context: CommandContext,
  node: Pick<Node, 'name' | 'nodeId'>,
  how: { readonly isReset: boolean },
): Promise<void> {
  await unlessDamaged(async () => (await MachinePins.read(context)).forget(node, how));
}

/**
 * Saves the identity of a machine that an operator has just approved. The first verification adds its
 * attestation key.
 */
export async function expectMachine(
  context: CommandContext,
  machine: Required<Pick<MachinePin, 'name' | 'nodeId' | 'identity'>>,
): Promise<void> {
  await unlessDamaged(async () => (await MachinePins.read(context)).expect(machine));
}

async function unlessDamaged(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof NodesError && error.code === 'nodes-pin-damaged')) throw error;
  }
}

function machineOf({ nodeId, admission }: NamedMachine): Partial<MachinePin> {
  const { identity = '', akName = '', variant = '' } = admission ?? {};
  return {
    nodeId,
    ...(identity === '' ? {} : { identity }),
    ...(akName === '' ? {} : { akName }),
    ...(variant === '' ? {} : { variant }),
  };
}

async function readPin({ ports }: CommandContext, path: string): Promise<MachinePin> {
  const bytes = await ports.files.read(path, MAX_BYTES);
  try {
    return pinShape.parse(JSON.parse(Buffer.from(bytes ?? []).toString('utf8')));
  } catch (cause) {
    throw new NodesError('nodes-pin-damaged', `reading ${path}`, { cause });
  }
}

/** The pin of the first node: its evidence was verified in the session of the init. */
async function pinOfInit(
  { paths, ports }: CommandContext,
  clusterId: string,
): Promise<MachinePin | undefined> {
  const layout = layoutOf(paths.workspace);
  const { value } = await StateFile.read(ports.files, layout, { programVersion: VERSION });
  const { machine, result } = value.init ?? {};
  if (machine === undefined || result?.clusterId !== clusterId) return undefined;
  const { variant, attestationKey: akName, endorsementKey } = machine;
  return {
    ...{ version: 1, clusterId, name: result.nodeName, nodeId: result.nodeId, variant },
    identity: endorsementKey === undefined ? machine.identity : endorsementKeyIdentity(endorsementKey),
    ...(akName === undefined ? {} : { akName }),
  };
}
