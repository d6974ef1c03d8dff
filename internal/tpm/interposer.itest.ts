import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import {
  createSoftKey,
  createSwtpmFactory,
  interpose,
  type Alteration,
  type Intercepted,
  type Swtpm,
  type SwtpmFactory,
  type TpmInterposer,
} from '../testing/index.ts';
import { digestOf } from './algorithms.ts';
import { CC, type CommandName } from './command.ts';
import {
  activateCredential,
  createAttestationKey,
  openEndorsementKey,
  quote,
  readPcrs,
  sealProved,
  sealSecret,
  unsealProved,
  unsealSecret,
  withEndorsementAuth,
  type Tpm,
  type TpmTask,
} from './index.ts';
import { approvedStatement, nameOfSeal, sealApprovable, unsealApprovable } from './approved-seal.ts';
import { NvCounter } from './nv-counter.ts';
import { parseProvedSeal } from './proved-seal.ts';
import { pcrDigest } from './structures/pcr-selection.ts';
import { nameOf, parsePublic } from './structures/public.ts';
import { WireReader, WireWriter } from './wire.ts';
import { makeCredential } from '../attestation/enrolment/index.ts';

const never = new AbortController().signal;
const FOR = { purpose: 'node share of 1', pcrs: [7, 11] };
const HEADER = 10;

let factory: SwtpmFactory;
let swtpm: Swtpm;
let interposer: TpmInterposer;
let tpm: Tpm;
beforeAll(async () => void (factory = await createSwtpmFactory()), 60_000);
afterAll(async () => factory[Symbol.asyncDispose]());
beforeEach(async () => {
  swtpm = await factory.start();
  interposer = await interpose(swtpm.socketPath);
  tpm = interposer.open();
});
afterEach(async () => {
  await tpm[Symbol.asyncDispose]();
  await interposer[Symbol.asyncDispose]();
  await swtpm[Symbol.asyncDispose]();
});

const use = <T>(task: TpmTask<T>): Promise<T> => tpm.use(never, task);
const newSecret = (): Secret<Uint8Array> => new Secret(new Uint8Array(randomBytes(32)));
const seal = (secret: Secret<Uint8Array>) =>
  use((connection, signal) => sealProved(connection, secret, FOR, signal));
const unseal = (sealed: Uint8Array) =>
  use((connection, signal) => unsealProved(connection, sealed, FOR, signal));
const coded = (code: string): unknown => expect.objectContaining({ code });

/** Changes the responses, or the commands, with this name. */
function altering(
  direction: Intercepted['direction'],
  name: CommandName,
  change: (bytes: Buffer) => Uint8Array | undefined,
): Alteration {
  return (message) =>
    message.direction === direction && message.code === CC[name]
      ? change(Buffer.from(message.bytes))
      : undefined;
}

const flipped =
  (at: number) =>
  (bytes: Buffer): Buffer => {
    const index = at < 0 ? bytes.length + at : at;
    bytes.writeUInt8(bytes.readUInt8(index) ^ 0x10, index);
    return bytes;
  };

/** The same message with another body and the right length. */
function withBody(tag: number, code: number, body: Uint8Array): Uint8Array {
  return new WireWriter()
    .u16(tag)
    .u32(HEADER + body.length)
    .u32(code)
    .bytes(body)
    .finish();
}

function countOf(name: CommandName): number {
  return interposer.traffic.filter(({ code, direction }) => direction === 'command' && code === CC[name])
    .length;
}

describe('what passes between machine and TPM', () => {
  test('does not have a secret that is sealed and unsealed with proof', async () => {
    const secret = newSecret();
    const sealed = await seal(secret);
    expect((await unseal(sealed)).reveal()).toEqual(secret.reveal());
    expect(interposer.saw(parseProvedSeal(sealed).privatePart)).toBe(true);
    expect(interposer.saw(secret.reveal())).toBe(false);
    expect(interposer.saw(secret.reveal().subarray(0, 8))).toBe(false);
  });

  test('does not have the secret of the attestation key when it is sealed and unsealed', async () => {
    const secret = newSecret();
    const opened = await use(async (connection, signal) =>
      unsealSecret(connection, await sealSecret(connection, secret, [7], signal), signal),
    );
    expect(opened.reveal()).toEqual(secret.reveal());
    expect(interposer.saw(secret.reveal().subarray(0, 8))).toBe(false);
  });

  test('does not have the authorization value of the attestation key', async () => {
    const secret = newSecret();
    const selection = { hash: 'sha256', pcrs: [0] } as const;
    await use(async (connection, signal) => {
      await using key = await createAttestationKey(connection, secret, signal);
      await quote(connection, { key, extraData: Buffer.from('nonce'), selection }, signal);
      await quote(connection, { key, extraData: Buffer.from('other nonce'), selection }, signal);
    });
    const derived = (label: string): Uint8Array =>
      digestOf('sha256', Buffer.from(`cluster ak ${label}\0`), secret.reveal());
    expect(interposer.saw(derived('auth').subarray(0, 8))).toBe(false);
    // A TPM encrypts only the first parameter (docs/tpm-evidence.md, 7).
    expect(interposer.saw(derived('unique'))).toBe(true);
    expect(interposer.saw(Buffer.from('other nonce'))).toBe(true);
  });

  test('does not have the secret of a credential that the TPM decrypts', async () => {
    const text = randomBytes(32);
    const opened = await use(async (connection, signal) => {
      await using endorsementKey = await openEndorsementKey(connection, 'ecc-p384', signal);
      await using attestationKey = await createAttestationKey(connection, newSecret(), signal);
      const credential = makeCredential(endorsementKey.publicArea, attestationKey.name, text);
      return await withEndorsementAuth(connection, endorsementKey, signal, (auth) =>
        activateCredential(
          connection,
          { attestationKey, endorsementKey: { ...endorsementKey, auth }, ...credential },
          signal,
        ),
      );
    });
    expect(Buffer.from(opened).equals(text)).toBe(true);
    expect(interposer.saw(text.subarray(0, 8))).toBe(false);
  });
});

describe('an interposer that alters the response to unsealing', () => {
  // TPM2B of 32 bytes, the policy session with an empty HMAC, the salted session with nonce and HMAC.
  const PARAMETERS = HEADER + 4;
  test.each([
    ['the encrypted secret', PARAMETERS + 2],
    ['the size of the secret', PARAMETERS + 1],
    ['the nonce', -40],
    ['the attributes', -35],
    ['the HMAC', -1],
  ])('by flipping a bit of %s is refused', async (_, at) => {
    const sealed = await seal(newSecret());
    interposer.alter = altering('response', 'unseal', flipped(at));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-response-altered'));
  });

  test('by removing the encryption is refused, by this program and by the TPM', async () => {
    const sealed = await seal(newSecret());
    // The attributes of the salted session, before its HMAC of 32 bytes: 0x41 is continueSession and encrypt.
    const withAttributes = (attributes: number) => (bytes: Buffer) => {
      expect(bytes.readUInt8(bytes.length - 35)).toBe(0x41);
      bytes.writeUInt8(attributes, bytes.length - 35);
      return bytes;
    };
    interposer.alter = altering('response', 'unseal', withAttributes(0x01));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-response-altered'));
    interposer.alter = altering('command', 'unseal', withAttributes(0x01));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-refused'));
    // With the attribute "audit" instead, the session has a purpose, and the TPM checks its HMAC.
    interposer.alter = altering('command', 'unseal', withAttributes(0x81));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-auth-failed'));
  });

  test('by taking all sessions away is refused', async () => {
    const sealed = await seal(newSecret());
    const chosen = new WireWriter().sized(new Uint8Array(32)).finish();
    interposer.alter = altering('response', 'unseal', () => withBody(0x8001, 0, chosen));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-malformed'));
  });

  test('by an empty HMAC, as if the session had no salt, is refused', async () => {
    const sealed = await seal(newSecret());
    const chosen = new WireWriter().sized(new Uint8Array(32)).finish();
    const sessions = new WireWriter().u16(0).u8(1).u16(0).u16(0).u8(0x41).u16(0).finish();
    const body = new WireWriter().u32(chosen.length).bytes(chosen).bytes(sessions).finish();
    interposer.alter = altering('response', 'unseal', () => withBody(0x8002, 0, body));
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-response-altered'));
  });

  test('by a recorded one is refused, and the next unsealing without an interposer works', async () => {
    const secret = newSecret();
    const sealed = await seal(secret);
    await unseal(sealed);
    const recorded = interposer.traffic.find(
      ({ direction, code }) => direction === 'response' && code === CC.unseal,
    );
    interposer.alter = altering('response', 'unseal', () => recorded?.bytes);
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-response-altered'));
    interposer.alter = () => undefined;
    expect((await unseal(sealed)).reveal()).toEqual(secret.reveal());
  });
});

describe('an interposer that shows a storage key of its own', () => {
  /** The response to TPM2_CreatePrimary with the public key of the interposer, and the right Name for it. */
  function substituted(bytes: Buffer): Uint8Array {
    const reader = new WireReader(bytes.subarray(HEADER), 'a response');
    const handle = reader.u32('handle');
    const parameters = new WireReader(reader.bytes(reader.u32('size'), 'parameters'), 'parameters');
    const real = parameters.sized('public area', 1024);
    const rest = parameters.bytes(parameters.remaining - 36, 'creation');
    const point = createSoftKey().publicArea.slice(-68);
    const shown = Buffer.concat([real.subarray(0, -68), point]);
    const name = nameOf(parsePublic(new Uint8Array(shown)));
    const changed = new WireWriter().sized(shown).bytes(rest).sized(name).finish();
    const sessions = reader.bytes(reader.remaining, 'sessions');
    const body = new WireWriter().u32(handle).u32(changed.length).bytes(changed).bytes(sessions);
    return withBody(0x8002, 0, body.finish());
  }

  test('is refused at unsealing before a session begins', async () => {
    const sealed = await seal(newSecret());
    await tpm[Symbol.asyncDispose]();
    tpm = interposer.open(); // a program that remembers nothing, as after a boot
    const before = countOf('startAuthSession');
    interposer.alter = altering('response', 'createPrimary', substituted);
    await expect(unseal(sealed)).rejects.toEqual(coded('tpm-storage-key-changed'));
    expect([countOf('startAuthSession') - before, countOf('unseal')]).toEqual([0, 0]);
  });

  test('is refused at sealing once the program has used the right one', async () => {
    await seal(newSecret());
    const before = countOf('startAuthSession');
    interposer.alter = altering('response', 'createPrimary', substituted);
    await expect(seal(newSecret())).rejects.toEqual(coded('tpm-storage-key-changed'));
    expect([countOf('startAuthSession') - before, countOf('create')]).toEqual([0, 1]);
  });
});

describe('an interposer that alters another message', () => {
  test.each<{
    readonly part: string;
    readonly direction: Intercepted['direction'];
    readonly name: CommandName;
    readonly at: number;
    readonly code: RegExp;
  }>([
    {
      part: 'the encrypted salt',
      direction: 'command',
      name: 'startAuthSession',
      at: HEADER + 8 + 34 + 6,
      code: /tpm-(refused|auth-failed)/,
    },
    {
      part: 'the nonce of the TPM',
      direction: 'response',
      name: 'startAuthSession',
      at: HEADER + 6,
      code: /tpm-auth-failed/,
    },
    {
      part: 'the encrypted secret of a sealing',
      direction: 'command',
      name: 'create',
      at: HEADER + 4 + 80,
      code: /tpm-auth-failed/,
    },
    {
      part: 'the created object',
      direction: 'response',
      name: 'create',
      at: HEADER + 8,
      code: /tpm-response-altered/,
    },
    {
      part: 'the proof of the creation',
      direction: 'response',
      name: 'certifyCreation',
      at: HEADER + 8,
      code: /tpm-response-altered/,
    },
    {
      part: 'the object that is loaded',
      direction: 'command',
      name: 'load',
      at: -1,
      code: /tpm-auth-failed/,
    },
  ])('$part, is refused', async ({ direction, name, at, code }) => {
    interposer.alter = altering(direction, name, flipped(at));
    const attempt = seal(newSecret()).then((sealed) => unseal(sealed));
    await expect(attempt).rejects.toMatchObject({ code: expect.stringMatching(code) as unknown });
    expect(countOf('unseal')).toBe(0);
  });

  test('and says that the TPM has created a sealed object that it has not created, is refused', async () => {
    const sealed = await seal(newSecret());
    const forged = { ...parseProvedSeal(sealed), ticket: new Uint8Array(32) };
    const blob = new WireWriter()
      .u32(0x63545050)
      .u16(1)
      .sized(forged.publicPart)
      .sized(forged.privatePart)
      .sized(forged.creationData)
      .sized(forged.ticket)
      .finish();
    await expect(unseal(blob)).rejects.toEqual(coded('tpm-seal-unproved'));
    interposer.alter = altering('response', 'certifyCreation', () => {
      const parameters = new WireWriter().sized(new Uint8Array(4)).u16(0x0010).finish();
      const session = new WireWriter().sized(new Uint8Array(32)).u8(1).sized(new Uint8Array(32)).finish();
      const body = new WireWriter().u32(parameters.length).bytes(parameters).bytes(session).finish();
      return withBody(0x8002, 0, body);
    });
    await expect(unseal(blob)).rejects.toEqual(coded('tpm-response-altered'));
  });

  test.each<[string, Intercepted['direction'], CommandName, number]>([
    ['the ticket for an approval', 'response', 'verifySignature', -1],
    ['the approved policy', 'command', 'policyAuthorize', HEADER + 4 + 2],
    ['the key of an approval', 'command', 'loadExternal', -6],
    ['the generation of an approval', 'command', 'policyNv', -5],
    ['the PCRs of a policy', 'command', 'policyPcr', -1],
  ])('%s, gets no secret', async (_, direction, name, at) => {
    const secret = newSecret();
    const approver = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const { x = '', y = '' } = approver.publicKey.export({ format: 'jwk' });
    const point = Buffer.concat([Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
    const counter = new NvCounter(0x01800001, 'a test counter');
    const approvable = { ...FOR, counter, authority: { point, reference: new Uint8Array(32) } };
    const opened = await use(async (connection, signal) => {
      await counter.start(connection, signal);
      const generation = (await counter.read(connection, signal)) ?? 0n;
      const sealed = await sealApprovable(connection, secret, { ...approvable, generation }, signal);
      const values = await readPcrs(connection, { hash: 'sha256', pcrs: FOR.pcrs }, signal);
      const digest = pcrDigest(values, 'sha256');
      const signed = { ...approvable, generation, digest, reference: new Uint8Array(32) };
      const raw = sign('sha256', approvedStatement(signed), {
        ...{ key: approver.privateKey, dsaEncoding: 'ieee-p1363' },
      });
      const [r, s] = [raw.subarray(0, 32), raw.subarray(32)];
      const software = [{ digest, signature: { algorithm: 'ecdsa', hash: 'sha256', r, s } as const }];
      const approval = { seals: [nameOfSeal(sealed)], generation, software };
      const open = () => unsealApprovable(connection, sealed, { ...approvable, approval }, signal);
      expect((await open()).reveal()).toEqual(secret.reveal());
      interposer.alter = altering(direction, name, flipped(at));
      return open().catch((error: unknown) => (error as { readonly code: string }).code);
    });
    expect(opened).toMatch(/^tpm-/);
    expect(interposer.saw(secret.reveal().subarray(0, 8))).toBe(false);
  });

  test('and shows other values of the PCRs, does not have the secret sealed to them', async () => {
    interposer.alter = altering('response', 'pcrRead', flipped(-1));
    await expect(seal(newSecret())).rejects.toEqual(coded('tpm-pcrs-moving'));
  });
});
