import { randomBytes } from 'node:crypto';
import { fromBinary } from '@bufbuild/protobuf';
import { bindingOfDiskSeal, VERIFY_NONCE_BYTES } from '../../../internal/attestation/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import {
  DiskSealSchema,
  type DiskSeal,
  type DiskSealReport,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import type { Verifier } from '../fresh-evidence.ts';
import { judge } from '../judge-evidence.ts';
import { answerContradictions, inventoryContradictions } from '../machine-pins.ts';

const MAX_SOFTWARE = 8;
/** The node share, and the cluster share if the machine keeps it. */
const MAX_SEALS = 2;
const NAME_BYTES = 34;
const REGISTER_BYTES = 32;
/** As curators and nodes take an order. */
const MAX_RECIPIENTS = 64;
/** Bech32 in lower or in upper case. */
const RECIPIENT = /^age1[0-9a-z]{58}$/i;

/** Values of registers (PCR, SHA-256) by their number. */
export type Registers = ReadonlyMap<number, Uint8Array>;

/** How the state disk of a node is sealed. */
export interface NodeDiskSeal {
  readonly uuid: string;
  /** Names of the sealed shares; undefined if nobody can approve other registers for this disk. */
  readonly seals: readonly [Uint8Array, ...Uint8Array[]] | undefined;
  readonly generation: bigint;
  /** The registers that the disk is sealed to, with their values now. */
  readonly registers: Registers;
  readonly approved: readonly Registers[];
  /** Whether the disk opens at the next start of the same software. */
  readonly opens: boolean;
  /** What an owner replaces with new keys; undefined: the agent is of an earlier release, or names no recipients to whom a key can be encrypted. */
  readonly keys: DiskKeyState | undefined;
}

/** The keys of a state disk, as an owner replaces them. */
export interface DiskKeyState {
  /** SHA-256 of the sealed node share. */
  readonly seal: Uint8Array;
  readonly keepsClusterShare: boolean;
  /** Recipients of the recovery key in the provisioning file of the machine ("age1…"). */
  readonly recipients: readonly string[];
  /** How many of them must act. */
  readonly threshold: number;
}

/**
 * Asks a node how its state disk is sealed, and verifies its answer with the evidence for it: an owner signs what the answer says, so
 * no curator may change it. @throws NodesError `nodes-not-verified`, RemoteError `disk-not-provisioned`
 */
export async function readVerifiedDiskSeal(
  context: CommandContext,
  { clusterId, config, collateral, pins }: Verifier,
  { node, asked, timeoutMs }: { readonly node: Node; readonly asked: string; readonly timeoutMs: number },
): Promise<NodeDiskSeal> {
  const nonce = new Uint8Array(randomBytes(VERIFY_NONCE_BYTES));
  const { seal, variant, evidence } = await requestSeal(context, { node, nonce, timeoutMs });
  const judged = await judge({
    ...{ node, config, clusterId, collateral, variant, evidence },
    binding: bindingOfDiskSeal({ clusterId, nodeId: node.nodeId, nonce }, seal),
    nowMs: context.ports.clock.nowMs(),
    contradictions: [
      ...answerContradictions(asked, node),
      ...inventoryContradictions(node, config.join),
      ...pins.contradictions(node),
    ],
  });
  if (judged.verdict === 'refused')
    throw new NodesError('nodes-not-verified', `reading the state disk of ${judged.node}: ${judged.reason}`);
  const read = parseSeal(seal, judged.node);
  const quoted = new Map(judged.registers.map(({ name, actual }) => [name, actual]));
  const other = [...read.registers].find(([pcr, value]) => {
    const actual = quoted.get(`pcr${pcr}`);
    return actual !== undefined && actual !== Buffer.from(value).toString('hex');
  });
  if (other === undefined) return read;
  throw new NodesError(
    'nodes-not-verified',
    `reading the state disk of ${judged.node}: PCR ${other[0]} is not the quoted one`,
  );
}

/** Asks a node how its state disk is sealed. Nothing proves the answer: nothing may be signed because of it. */
export async function readDiskSeal(
  context: CommandContext,
  node: Node,
  timeoutMs: number,
): Promise<NodeDiskSeal> {
  const nonce = new Uint8Array(randomBytes(VERIFY_NONCE_BYTES));
  const { seal } = await requestSeal(context, { node, nonce, timeoutMs });
  return parseSeal(seal, printable(node.name));
}

async function requestSeal(
  context: CommandContext,
  { node, nonce, timeoutMs }: { readonly node: Node; readonly nonce: Uint8Array; readonly timeoutMs: number },
): Promise<DiskSealReport> {
  const { report } = await callCurator(context, ({ nodeStreams }) =>
    nodeStreams.getDiskSeal({ node: node.nodeId, nonce }, { timeoutMs }),
  );
  if (report === undefined) throw malformed(printable(node.name));
  return report;
}

function parseSeal(bytes: Uint8Array, name: string): NodeDiskSeal {
  const decoded = decode(bytes, name);
  const { uuid, seals, generation, registers, approved, opens } = decoded;
  const [node, ...others] = seals;
  const isWellFormed =
    seals.length <= MAX_SEALS &&
    seals.every(({ length }) => length === NAME_BYTES) &&
    approved.length <= MAX_SOFTWARE &&
    [registers, ...approved.map((each) => each.registers)].every(isRegisters);
  if (!isWellFormed) throw malformed(name);
  return {
    ...{ uuid, generation, opens, keys: keyStateOf(decoded) },
    seals: node === undefined ? undefined : [node, ...others],
    registers: registersFrom(registers),
    approved: approved.map((each) => registersFrom(each.registers)),
  };
}

/** Whether the fields about the keys are there and well-formed. Approvals do not need them. */
function hasKeyState({ nodeSeal, recoveryRecipients, recoveryThreshold: threshold }: DiskSeal): boolean {
  const { length } = recoveryRecipients;
  const areRecipients = recoveryRecipients.every((each) => RECIPIENT.test(each));
  const isCount = length <= MAX_RECIPIENTS && threshold >= 1 && threshold <= length;
  return nodeSeal.length === REGISTER_BYTES && areRecipients && isCount;
}

function keyStateOf(seal: DiskSeal): DiskKeyState | undefined {
  const { nodeSeal, keepsClusterShare, recoveryRecipients: recipients, recoveryThreshold: threshold } = seal;
  return !hasKeyState(seal) ? undefined : { seal: nodeSeal, keepsClusterShare, recipients, threshold };
}

function decode(bytes: Uint8Array, name: string): DiskSeal {
  try {
    return fromBinary(DiskSealSchema, bytes);
  } catch (cause) {
    throw malformed(name, cause);
  }
}

function isRegisters(registers: Readonly<Record<number, Uint8Array>>): boolean {
  const entries = Object.entries(registers);
  return (
    entries.length > 0 && entries.every(([pcr, { length }]) => Number(pcr) < 24 && length === REGISTER_BYTES)
  );
}

function registersFrom(registers: Readonly<Record<number, Uint8Array>>): Registers {
  return new Map(Object.entries(registers).map(([pcr, value]) => [Number(pcr), value]));
}

function malformed(name: string, cause?: unknown): NodesError {
  return new NodesError('nodes-not-verified', `reading the state disk of ${name}: malformed answer`, {
    cause,
  });
}
