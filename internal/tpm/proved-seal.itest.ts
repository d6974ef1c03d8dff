import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { createSwtpmFactory, type SwtpmFactory } from '../testing/index.ts';
import { createSealed, type ProvedHalves } from './commands/creation.ts';
import { extendPcr, readPcrs, sealProved, unsealProved, type TpmConnection } from './index.ts';
import { NvCounter } from './nv-counter.ts';
import { parseProvedSeal } from './proved-seal.ts';
import { openStorage } from './storage.ts';
import { pcrDigest } from './structures/pcr-selection.ts';
import { pcrPolicyDigest } from './structures/policy-digest.ts';
import { sealedObjectTemplate } from './structures/templates.ts';
import { WireWriter } from './wire.ts';

const never = new AbortController().signal;
const SECRET = new Secret<Uint8Array>(new Uint8Array(32).fill(5));
const FOR = { purpose: 'node share of 1', pcrs: [7, 11] };
const STEP = new Uint8Array(32).fill(9);

let factory: SwtpmFactory;
/** A second factory, which makes TPMs with other seeds. */
let others: SwtpmFactory;
beforeAll(async () => {
  factory = await createSwtpmFactory();
  others = await createSwtpmFactory();
}, 60_000);
afterAll(async () => {
  await factory[Symbol.asyncDispose]();
  await others[Symbol.asyncDispose]();
});

/** Runs a test with a TPM whose PCRs have their values after a reset. */
async function withTpm(task: (connection: TpmConnection) => Promise<void>, from = factory): Promise<void> {
  await using swtpm = await from.start();
  await using tpm = swtpm.open();
  await tpm.use(never, task);
}

const extend = (connection: TpmConnection, pcr: number): Promise<void> =>
  extendPcr(connection, { pcr, hash: 'sha256', digest: STEP }, never);

function encode(parts: ProvedHalves): Uint8Array {
  const writer = new WireWriter().u32(0x63545050).u16(1);
  return writer
    .sized(parts.publicPart)
    .sized(parts.privatePart)
    .sized(parts.creationData)
    .sized(parts.ticket)
    .finish();
}

describe('sealProved()', () => {
  test('seals a secret that only the same TPM unseals, and only while the PCRs have the same values', async () => {
    let kept = new Uint8Array();
    await withTpm(async (connection) => {
      await extend(connection, 11);
      const sealed = await sealProved(connection, SECRET, FOR, never);
      expect((await unsealProved(connection, sealed, FOR, never)).reveal()).toEqual(SECRET.reveal());
      const reordered = { ...FOR, pcrs: [11, 7] };
      expect((await unsealProved(connection, sealed, reordered, never)).reveal()).toEqual(SECRET.reveal());
      await extend(connection, 11);
      await expect(unsealProved(connection, sealed, FOR, never)).rejects.toMatchObject({
        code: 'tpm-policy-failed',
      });
      kept = new Uint8Array(sealed);
    });
    await withTpm(async (other) => {
      await extend(other, 11);
      await expect(unsealProved(other, kept, FOR, never)).rejects.toMatchObject({
        code: 'tpm-storage-key-changed',
      });
    }, others);
  });

  test.each([
    ['for another purpose', { ...FOR, purpose: 'node share of 2' }],
    ['that is sealed to fewer PCRs than wanted', { ...FOR, pcrs: [7, 11, 12] }],
    ['that is sealed to other PCRs', { ...FOR, pcrs: [7, 12] }],
  ])('unsealProved() refuses a secret %s', async (_, other) => {
    await withTpm(async (connection) => {
      const sealed = await sealProved(connection, SECRET, other, never);
      await expect(unsealProved(connection, sealed, FOR, never)).rejects.toMatchObject({
        code: 'tpm-seal-unproved',
      });
    });
  });

  test('unsealProved() refuses a secret that other software has chosen and sealed to the PCR values of this software', async () => {
    await withTpm(async (connection) => {
      // Other software runs, and PCR 11 was not extended yet. This software knows the value that PCR 11 will have while
      // the accepted software runs.
      const now = await readPcrs(connection, { hash: 'sha256', pcrs: [...FOR.pcrs] }, never);
      const later = createHash('sha256')
        .update(now.get(11) ?? '')
        .update(STEP)
        .digest();
      const label = createHash('sha256').update(`cluster sealed secret v1\0${FOR.purpose}`).digest();
      const values = new Map([...now, [11, new Uint8Array(later)]]);
      const template = sealedObjectTemplate(pcrPolicyDigest(FOR.pcrs, pcrDigest(values, 'sha256')));
      const { key: parent, session, ...storage } = await openStorage(connection, undefined, never);
      const forged = await createSealed(
        connection,
        { ...{ parent, session, template, secret: SECRET.reveal(), pcrs: FOR.pcrs }, outsideInfo: label },
        never,
      );
      await storage[Symbol.asyncDispose]();
      await extend(connection, 11);
      await expect(unsealProved(connection, encode(forged), FOR, never)).rejects.toMatchObject({
        code: 'tpm-seal-unproved',
      });
      // The creation data and the ticket of a secret that the accepted software has sealed do not match the forged
      // secret.
      const genuine = parseProvedSeal(await sealProved(connection, SECRET, FOR, never));
      const mixed = encode({ ...forged, creationData: genuine.creationData, ticket: genuine.ticket });
      await expect(unsealProved(connection, mixed, FOR, never)).rejects.toMatchObject({
        code: 'tpm-seal-unproved',
      });
    });
  });

  test('unsealProved() refuses a blob with any byte altered', async () => {
    await withTpm(async (connection) => {
      const sealed = await sealProved(connection, SECRET, FOR, never);
      for (let at = 0; at < sealed.length; at += 7) {
        const altered = sealed.slice();
        altered[at] = (altered[at] ?? 0) ^ 0x10;
        await expect(unsealProved(connection, altered, FOR, never)).rejects.toMatchObject({
          code: expect.stringMatching(/^tpm-/) as unknown,
        });
      }
    });
  });
});

describe('a secret with an end', () => {
  const expiryCounter = new NvCounter(0x01800002, 'a test counter');
  const ENDING = { ...FOR, expiryCounter };

  test('opens until its counter is incremented beyond its last value, and never again', async () => {
    await withTpm(async (connection) => {
      await expiryCounter.start(connection, never);
      const now = (await expiryCounter.read(connection, never)) ?? 0n;
      const seal = (last: bigint): Promise<Uint8Array> =>
        sealProved(connection, SECRET, { ...FOR, expiry: { counter: expiryCounter, last } }, never);
      const [sealed, later] = [await seal(now), await seal(now + 1n)];
      const unseal = async (from: Uint8Array): Promise<Uint8Array> =>
        (await unsealProved(connection, from, ENDING, never)).reveal();
      expect([await unseal(sealed), await unseal(later)]).toEqual([SECRET.reveal(), SECRET.reveal()]);
      await expiryCounter.increment(connection, never);
      await expect(unseal(sealed)).rejects.toMatchObject({ code: 'tpm-policy-failed' });
      expect(await unseal(later)).toEqual(SECRET.reveal());
      await expiryCounter.increment(connection, never);
      await expect(unseal(later)).rejects.toMatchObject({ code: 'tpm-policy-failed' });
    });
  });

  test('opens for no purpose without a counter, with no later end, and not without its end', async () => {
    await withTpm(async (connection) => {
      await expiryCounter.start(connection, never);
      const last = (await expiryCounter.read(connection, never)) ?? 0n;
      const expiry = { counter: expiryCounter, last };
      const sealed = await sealProved(connection, SECRET, { ...FOR, expiry }, never);
      const refused = expect.objectContaining({ code: 'tpm-seal-unproved' });
      await expect(unsealProved(connection, sealed, FOR, never)).rejects.toEqual(refused);
      const forged = Buffer.from(sealed);
      forged.writeBigUInt64BE(last + 1n, 6);
      await expect(unsealProved(connection, forged, ENDING, never)).rejects.toEqual(refused);
      const endless = encode(parseProvedSeal(sealed));
      await expect(unsealProved(connection, endless, ENDING, never)).rejects.toEqual(refused);
    });
  });
});
