import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { createSwtpmFactory, type SwtpmFactory } from '../testing/index.ts';
import {
  approvedStatement,
  nameOfSeal,
  sealApprovable,
  testApproval,
  unsealApprovable,
  type PcrApproval,
} from './approved-seal.ts';
import { extendPcr, readPcrs, type TpmConnection } from './index.ts';
import { NvCounter } from './nv-counter.ts';
import { createProved, encodeHalves } from './proved-seal.ts';
import { pcrDigest } from './structures/pcr-selection.ts';
import { counterPolicyDigest, orPolicyDigest, pcrPolicyDigest } from './structures/policy-digest.ts';
import { WireWriter } from './wire.ts';

const never = new AbortController().signal;
const SECRET = new Secret<Uint8Array>(new Uint8Array(32).fill(5));
const PCRS = [7, 11];
const STEP = new Uint8Array(32).fill(9);
const counter = new NvCounter(0x01800001, 'a test counter');
const owner = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const other = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const authority = { point: pointOf(owner.publicKey), reference: new Uint8Array(32).fill(1) };
const FOR = { purpose: 'node share of 1', pcrs: PCRS, authority, counter };

let factory: SwtpmFactory;
beforeAll(async () => void (factory = await createSwtpmFactory()), 60_000);
afterAll(async () => factory[Symbol.asyncDispose]());

function pointOf(key: KeyObject): Uint8Array {
  const { x = '', y = '' } = key.export({ format: 'jwk' });
  return Buffer.concat([Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
}

const extend = (connection: TpmConnection): Promise<void> =>
  extendPcr(connection, { pcr: 11, hash: 'sha256', digest: STEP }, never);

const digestNow = async (connection: TpmConnection): Promise<Uint8Array> =>
  pcrDigest(await readPcrs(connection, { hash: 'sha256', pcrs: PCRS }, never), 'sha256');

/** The digest of the PCRs after `extend()`. */
async function digestNext(connection: TpmConnection): Promise<Uint8Array> {
  const values = await readPcrs(connection, { hash: 'sha256', pcrs: PCRS }, never);
  const next = createHash('sha256')
    .update(values.get(11) ?? '')
    .update(STEP)
    .digest();
  return pcrDigest(new Map([...values, [11, new Uint8Array(next)]]), 'sha256');
}

interface Approving {
  readonly digest: Uint8Array;
  readonly generation: bigint;
  readonly sealed: Uint8Array;
  readonly by?: KeyObject;
  readonly reference?: Uint8Array;
}

function approve({ digest, generation, sealed, by = owner.privateKey, reference }: Approving): PcrApproval {
  const statement = approvedStatement({
    ...{ counter, generation, pcrs: PCRS, digest },
    reference: reference ?? authority.reference,
  });
  const raw = sign('sha256', statement, { key: by, dsaEncoding: 'ieee-p1363' });
  const signature = {
    ...({ algorithm: 'ecdsa', hash: 'sha256' } as const),
    ...{ r: raw.subarray(0, 32), s: raw.subarray(32) },
  };
  return { seals: [nameOfSeal(sealed)], generation, software: [{ digest, signature }] };
}

/** A TPM with a secret that is sealed to its PCRs after a reset; the next generation of approvals is `next`. */
async function withSeal(
  task: (tpm: {
    readonly connection: TpmConnection;
    readonly sealed: Uint8Array;
    readonly next: bigint;
    readonly unseal: (approval?: PcrApproval) => Promise<Uint8Array>;
  }) => Promise<void>,
): Promise<void> {
  await using swtpm = await factory.start();
  await using tpm = swtpm.open();
  await tpm.use(never, async (connection) => {
    await counter.start(connection, never);
    const generation = (await counter.read(connection, never)) ?? 0n;
    const sealed = await sealApprovable(connection, SECRET, { ...FOR, generation }, never);
    const unseal = async (approval?: PcrApproval): Promise<Uint8Array> =>
      (await unsealApprovable(connection, sealed, { ...FOR, approval }, never)).reveal();
    await task({ connection, sealed, next: generation + 1n, unseal });
  });
}

const code = (expected: string): unknown => expect.objectContaining({ code: expected });

describe('sealApprovable()', () => {
  test('seals a secret that opens without an approval until the PCRs change, and afterwards with one', async () => {
    await withSeal(async ({ connection, sealed, next, unseal }) => {
      expect(await unseal()).toEqual(SECRET.reveal());
      const approval = approve({ digest: await digestNext(connection), generation: next, sealed });
      await testApproval(connection, sealed, { ...FOR, approval }, never);
      expect(await unseal(approval)).toEqual(SECRET.reveal());
      await extend(connection);
      await expect(unseal()).rejects.toEqual(code('tpm-policy-failed'));
      expect(await unseal(approval)).toEqual(SECRET.reveal());
      await counter.increment(connection, never);
      expect(await unseal(approval)).toEqual(SECRET.reveal());
      await extend(connection);
      await expect(unseal(approval)).rejects.toEqual(code('tpm-policy-failed'));
    });
  });

  test('the PCRs at the sealing open it no more once the counter was incremented, unless they are approved', async () => {
    await withSeal(async ({ connection, sealed, next, unseal }) => {
      const approval = approve({ digest: await digestNow(connection), generation: next, sealed });
      await counter.increment(connection, never);
      await expect(unseal()).rejects.toEqual(code('tpm-policy-failed'));
      expect(await unseal(approval)).toEqual(SECRET.reveal());
    });
  });

  test('an approval ends when the counter passes its generation, also if it is replayed', async () => {
    await withSeal(async ({ connection, sealed, next, unseal }) => {
      const digest = await digestNow(connection);
      const old = approve({ digest, generation: next, sealed });
      await counter.increment(connection, never);
      expect(await unseal(old)).toEqual(SECRET.reveal());
      await counter.increment(connection, never);
      await expect(unseal(old)).rejects.toEqual(code('tpm-policy-failed'));
      await expect(unseal({ ...old, generation: next + 1n })).rejects.toEqual(code('tpm-refused'));
    });
  });

  test.each<{
    readonly name: string;
    readonly change: (approving: Approving) => PcrApproval;
    readonly code: string;
  }>([
    {
      name: 'by another key',
      change: (approving) => approve({ ...approving, by: other.privateKey }),
      code: 'tpm-refused',
    },
    {
      name: 'for another disk or machine',
      change: (approving) => approve({ ...approving, reference: new Uint8Array(32).fill(2) }),
      code: 'tpm-refused',
    },
    {
      name: 'of other PCRs, shown as one of these',
      change: (approving) => {
        const { software, ...rest } = approve({ ...approving, digest: new Uint8Array(32).fill(3) });
        return { ...rest, software: software.map((each) => ({ ...each, digest: approving.digest })) };
      },
      code: 'tpm-refused',
    },
    {
      name: 'for another secret',
      change: (approving) => ({ ...approve(approving), seals: [new Uint8Array(34)] }),
      code: 'tpm-seal-unproved',
    },
  ])('an approval $name does not count', async ({ change, code: refusal }) => {
    await withSeal(async ({ connection, sealed, next, unseal }) => {
      const approval = change({ digest: await digestNext(connection), generation: next, sealed });
      const tested = testApproval(connection, sealed, { ...FOR, approval }, never);
      await expect(tested).rejects.toEqual(code(refusal));
      await extend(connection);
      await expect(unseal(approval)).rejects.toEqual(code(refusal));
    });
  });

  test('a secret that approved software has chosen and sealed, but no approval names, does not open later', async () => {
    await withSeal(async ({ connection, sealed, next }) => {
      const approval = approve({ digest: await digestNext(connection), generation: next, sealed });
      const chosen = new Secret<Uint8Array>(new Uint8Array(32).fill(6));
      const planted = await sealApprovable(connection, chosen, { ...FOR, generation: next }, never);
      await extend(connection);
      await expect(unsealApprovable(connection, planted, { ...FOR, approval }, never)).rejects.toEqual(
        code('tpm-seal-unproved'),
      );
    });
  });

  test('a secret that has ended opens with no approval either, also with one that is made afterwards', async () => {
    const expiryCounter = new NvCounter(0x01800002, 'a test counter');
    await withSeal(async ({ connection, next }) => {
      await expiryCounter.start(connection, never);
      const last = (await expiryCounter.read(connection, never)) ?? 0n;
      const expiry = { counter: expiryCounter, last };
      const sealed = await sealApprovable(connection, SECRET, { ...FOR, expiry, generation: next }, never);
      const approval = approve({ digest: await digestNow(connection), generation: next, sealed });
      const ending = { ...FOR, expiryCounter };
      await testApproval(connection, sealed, { ...ending, approval }, never);
      const unseal = async (by?: PcrApproval): Promise<Uint8Array> =>
        (await unsealApprovable(connection, sealed, { ...ending, approval: by }, never)).reveal();
      expect([await unseal(), await unseal(approval)]).toEqual([SECRET.reveal(), SECRET.reveal()]);
      await expiryCounter.increment(connection, never);
      for (const by of [
        undefined,
        approval,
        approve({ digest: await digestNow(connection), generation: next + 1n, sealed }),
      ])
        await expect(unseal(by)).rejects.toEqual(code('tpm-policy-failed'));
    });
  });

  test('testApproval() refuses a secret for whose key or disk the approval is not', async () => {
    await withSeal(async ({ connection, sealed, next }) => {
      const digest = await digestNext(connection);
      const reference = new Uint8Array(32).fill(2);
      for (const [by, approver] of [
        [other.privateKey, { ...authority, point: pointOf(other.publicKey) }],
        [owner.privateKey, { ...authority, reference }],
      ] as const) {
        const approving = { digest, generation: next, sealed, by, reference: approver.reference };
        const options = { ...FOR, authority: approver, approval: approve(approving) };
        await expect(testApproval(connection, sealed, options, never)).rejects.toEqual(
          code('tpm-seal-unproved'),
        );
      }
    });
  });

  test('a secret that other software has chosen and sealed to the PCR values of this software is refused', async () => {
    await withSeal(async ({ connection, sealed, next }) => {
      // Other software runs, which knows the values that the PCRs will have, and the key and the counter.
      const later = await digestNext(connection);
      const branch = sealed.slice(14, 46);
      const own = pcrPolicyDigest(PCRS, later, counterPolicyDigest(counter.definition, next));
      const policyOf = (): Uint8Array => orPolicyDigest([own, branch]);
      const options = { purpose: FOR.purpose, pcrs: PCRS, secret: SECRET, policyOf };
      const halves = await createProved(connection, options, never);
      const head = new WireWriter().bytes(sealed.slice(0, 6)).u64(next).bytes(branch);
      const forged = encodeHalves(head, halves).finish();
      await extend(connection);
      await expect(
        unsealApprovable(connection, forged, { ...FOR, approval: undefined }, never),
      ).rejects.toEqual(code('tpm-seal-unproved'));
    });
  });

  test('a secret whose own branch is for other PCRs than those at its sealing is refused', async () => {
    await withSeal(async ({ connection, sealed }) => {
      const genuine = Buffer.from(sealed);
      for (const at of [13, 20, 60]) {
        const altered = Buffer.from(genuine);
        altered.writeUInt8(altered.readUInt8(at) ^ 1, at); // generation, branch of the key, public part
        await expect(
          unsealApprovable(connection, altered, { ...FOR, approval: undefined }, never),
        ).rejects.toEqual(code('tpm-seal-unproved'));
      }
    });
  });

  test('without the key in its settings, a program accepts the secret only with the PCRs at its sealing', async () => {
    await withSeal(async ({ connection, sealed, next }) => {
      const approval = approve({ digest: await digestNext(connection), generation: next, sealed });
      const settings = { ...FOR, authority: undefined, approval };
      const opened = await unsealApprovable(connection, sealed, settings, never);
      expect(opened.reveal()).toEqual(SECRET.reveal());
      await extend(connection);
      await expect(unsealApprovable(connection, sealed, settings, never)).rejects.toEqual(
        code('tpm-policy-failed'),
      );
    });
  });
});
