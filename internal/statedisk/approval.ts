import { createHash, sign, verify, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson, p256KeyFromPoint } from '../crypto/index.ts';
import { describeShape } from '../errors/index.ts';
import { approvedStatement, NvCounter, pcrDigest, type PcrApproval } from '../tpm/index.ts';
import { StateDiskError } from './errors.ts';

/** The NV counter against old approvals: each approval is for one of its values, and ends when the counter passes that value. */
export const approvalCounter = new NvCounter(0x0180636f, 'the counter of approvals for the state disk');

/** Size limit of an approval. */
const MAX_APPROVAL_BYTES = 16 * 1024;
const MAX_SOFTWARE = 8;
const MAX_SEALS = 2;
const LABEL = Buffer.from('cluster/state-disk/approval/v1\0', 'ascii');
const REFERENCE = Buffer.from('cluster/state-disk/approval-reference/v1\0', 'ascii');
const SIGNATURE_BYTES = 64;

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const signature = z.base64().refine((text) => Buffer.from(text, 'base64').length === SIGNATURE_BYTES);
const sealName = z.string().regex(/^000b[0-9a-f]{64}$/);
const pcr = z.string().regex(/^(?:[0-9]|1[0-9]|2[0-3])$/);
const schema = z.strictObject({
  version: z.literal(1),
  uuid: z.uuid(),
  generation: z.string().regex(/^[1-9][0-9]{0,18}$/),
  /** Names of the sealed node share, and of the sealed cluster share if the machine keeps it. */
  seals: z
    .tuple([sealName])
    .rest(sealName)
    .refine(({ length }) => length <= MAX_SEALS),
  software: z
    .array(z.strictObject({ registers: z.record(pcr, digest), signature }))
    .min(1)
    .max(MAX_SOFTWARE),
  signature,
});

/** Values of the registers (PCR, SHA-256) with which some software starts. */
type Registers = ReadonlyMap<number, Uint8Array>;

/** What an owner approves for one state disk. It replaces everything that was approved for the disk before. */
export interface ApprovalContent {
  /** UUID of the disk. */
  readonly uuid: string;
  /** The value of `approvalCounter` after the machine has taken the approval. */
  readonly generation: bigint;
  /** Names of the sealed node share, and of the sealed cluster share if the machine keeps it (`nameOfSeal()`). */
  readonly seals: readonly [Uint8Array, ...Uint8Array[]];
  /** For each software that may open the disk: its registers. All name the same registers. */
  readonly software: readonly [Registers, ...Registers[]];
}

/** An approval that the owner has signed. */
export interface VerifiedApproval extends ApprovalContent {
  /** For the TPM. */
  readonly forTpm: PcrApproval;
}

/** What the policy of a disk's shares binds approvals to (`policyRef`). */
export function approvalReference(uuid: string): Uint8Array {
  return new Uint8Array(createHash('sha256').update(REFERENCE).update(uuid).digest());
}

/**
 * Signs an approval: each set of registers for the TPM (`approvedStatement()`), and the whole for the agent, which trusts the sealed
 * shares that it names. All signatures are ECDSA with SHA-256, r and s of 32 bytes each.
 */
export function signApproval(content: ApprovalContent, key: KeyObject): Uint8Array {
  const { uuid, generation, seals } = content;
  const reference = approvalReference(uuid);
  const software = content.software.map((registers) => ({
    registers: Object.fromEntries([...registers].map(([number, value]) => [number, hex(value)])),
    signature: signed(statementOf(registers, generation, reference), key),
  }));
  const body = { version: 1, uuid, generation: `${generation}`, seals: seals.map(hex), software };
  return Buffer.from(canonicalJson({ ...body, signature: signed(signedBytes(body), key) }));
}

/**
 * Parses and verifies an approval, which may come from an attacker.
 * @param point x and y of the approval key of the machine, 32 bytes each
 * @throws StateDiskError `statedisk-approval-invalid`
 */
export function parseApproval(bytes: Uint8Array, point: Uint8Array): VerifiedApproval {
  const parsed = schema.safeParse(jsonFrom(bytes));
  if (!parsed.success) throw invalid(describeShape(parsed.error));
  const { signature: proof, ...body } = parsed.data;
  if (!Buffer.from(canonicalJson(parsed.data)).equals(bytes)) throw invalid('not in the canonical encoding');
  const key = { key: p256KeyFromPoint(point), dsaEncoding: 'ieee-p1363' } as const;
  if (!verify('sha256', signedBytes(body), key, Buffer.from(proof, 'base64')))
    throw invalid('the signature is not that of the approval key');
  const [node, ...others] = body.seals;
  const generation = BigInt(body.generation);
  const seals = [fromHex(node), ...others.map(fromHex)] as const;
  const software = body.software.map(({ registers, signature: raw }) => ({
    registers: new Map(Object.entries(registers).map(([number, value]) => [Number(number), fromHex(value)])),
    raw: Buffer.from(raw, 'base64'),
  }));
  return {
    ...{ uuid: body.uuid, generation, seals },
    software: atLeastOne(software.map(({ registers }) => registers)),
    forTpm: {
      ...{ seals, generation },
      software: software.map(({ registers, raw }) => ({
        digest: pcrDigest(registers, 'sha256'),
        signature: { algorithm: 'ecdsa', hash: 'sha256', r: raw.subarray(0, 32), s: raw.subarray(32) },
      })),
    },
  };
}

function atLeastOne(all: readonly Registers[]): readonly [Registers, ...Registers[]] {
  const [first, ...others] = all;
  if (first === undefined) throw invalid('no registers');
  const names = [...first.keys()].join();
  if (others.some((each) => [...each.keys()].join() !== names)) throw invalid('different registers');
  return [first, ...others];
}

/** What the TPM verifies for one set of registers. */
function statementOf(registers: Registers, generation: bigint, reference: Uint8Array): Uint8Array {
  const approved = { pcrs: [...registers.keys()], digest: pcrDigest(registers, 'sha256') };
  return approvedStatement({ ...approved, counter: approvalCounter, generation, reference });
}

function signedBytes(body: object): Uint8Array {
  return Buffer.concat([LABEL, Buffer.from(canonicalJson(body))]);
}

function signed(statement: Uint8Array, key: KeyObject): string {
  return sign('sha256', statement, { key, dsaEncoding: 'ieee-p1363' }).toString('base64');
}

function jsonFrom(bytes: Uint8Array): unknown {
  if (bytes.length > MAX_APPROVAL_BYTES) throw invalid(`${bytes.length} bytes`);
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    throw invalid('not JSON');
  }
}

function invalid(why: string): StateDiskError {
  return new StateDiskError('statedisk-approval-invalid', `reading an approval for a state disk: ${why}`);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function fromHex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'hex'));
}
