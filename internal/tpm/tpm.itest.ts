import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { createSwtpmFactory, type Swtpm, type SwtpmFactory } from '../testing/index.ts';
import { eventPcr, readProperty, undefineNv, writeNv } from '../testing/tpm/test-commands.ts';
import {
  BatchQuoter,
  certifyNv,
  createAttestationKey,
  createPrimary,
  defineCounter,
  defineNv,
  encodePcrSelection,
  extendPcr,
  getRandom,
  HIERARCHY,
  incrementCounter,
  listHandles,
  NV_ATTRIBUTE,
  nvNameOf,
  openEndorsementKey,
  parseNvAttest,
  parseQuoteAttest,
  password,
  pcrDigest,
  qualifiedNameOf,
  quote,
  readCounter,
  readEndorsementCertificate,
  readNv,
  readNvPublic,
  readPcrs,
  readPublic,
  sealSecret,
  shutdown,
  TRANSIENT_HANDLES,
  unsealSecret,
  type Tpm,
  type TpmTask,
  LOCK_COUNTER,
  lockCounter,
  WireWriter,
} from './index.ts';
import { parseSealed } from './seal.ts';
import { attestationKeyTemplate } from './structures/templates.ts';

/** All kinds of endorsement keys. */
const EK_KINDS = ['rsa-2048', 'ecc-p256', 'ecc-p384'] as const;
const never = new AbortController().signal;
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const FAST_QUOTE_MS = 3;

describe('commands on a software TPM', () => {
  let factory: SwtpmFactory;
  let swtpm: Swtpm;
  let tpm: Tpm;
  const use = <T>(task: TpmTask<T>): Promise<T> => tpm.use(never, task);

  beforeAll(async () => {
    factory = await createSwtpmFactory();
    swtpm = await factory.start();
    tpm = swtpm.open();
  }, 60_000);

  afterAll(async () => {
    await tpm[Symbol.asyncDispose]();
    await swtpm[Symbol.asyncDispose]();
    await factory[Symbol.asyncDispose]();
  });

  test('getRandom() returns random bytes, and readProperty() the manufacturer', async () => {
    const [bytes, manufacturer] = await use(async (connection, signal) => [
      await getRandom(connection, 100, signal),
      await readProperty(connection, 0x105, signal),
    ]);
    expect(bytes).toHaveLength(100);
    expect(manufacturer).toBe(0x49424d00); // "IBM"
  });

  test('readPcrs() reads all 24 PCRs as one state, and extendPcr() extends one', async () => {
    const all = Array.from({ length: 24 }, (_, pcr) => pcr);
    const values = await use((connection, signal) =>
      readPcrs(connection, { hash: 'sha256', pcrs: all }, signal),
    );
    expect([...values.keys()]).toEqual(all);
    const after = await use(async (connection, signal) => {
      await extendPcr(connection, { pcr: 23, hash: 'sha256', digest: new Uint8Array(32).fill(1) }, signal);
      await eventPcr(connection, 16, Buffer.from('event'), signal);
      return readPcrs(connection, { hash: 'sha256', pcrs: [16, 23] }, signal);
    });
    expect(hex(after.get(23) ?? new Uint8Array())).not.toBe('00'.repeat(32));
    expect(hex(after.get(16) ?? new Uint8Array())).not.toBe('00'.repeat(32));
  });

  test.each(EK_KINDS)('openEndorsementKey() opens the endorsement key of kind %s', async (kind) => {
    const opened = await use(async (connection, signal) => {
      await using key = await openEndorsementKey(connection, kind, signal);
      const certificate = await readEndorsementCertificate(connection, kind, signal);
      return { attributes: key.publicArea.attributes, certificate };
    });
    // 0x30000 is `restricted` and `decrypt`.
    expect(opened.attributes & 0x30000).toBe(0x30000);
    // swtpm 0.7.1 writes certificates for RSA-2048 and P-384 only.
    expect(opened.certificate === undefined).toBe(kind === 'ecc-p256');
  });

  test('createAttestationKey() derives the same key each time, and another key for each secret', async () => {
    const nameWith = (secret: Secret<Uint8Array> | undefined) =>
      use(async (connection, signal) => {
        await using key = await createAttestationKey(connection, secret, signal);
        const again = await readPublic(connection, key.handle, signal);
        expect(hex(again.name)).toBe(hex(key.name));
        return hex(key.name);
      });
    const secretOf = (fill: number) => new Secret<Uint8Array>(new Uint8Array(32).fill(fill));
    const names = [await nameWith(undefined), await nameWith(secretOf(1)), await nameWith(secretOf(2))];
    expect(new Set(names).size).toBe(3);
    expect([await nameWith(undefined), await nameWith(secretOf(1))]).toEqual(names.slice(0, 2));
  });

  test('an attestation key with a secret signs only for programs that know the secret', async () => {
    const secret = new Secret<Uint8Array>(new Uint8Array(32).fill(3));
    const attempt = use(async (connection, signal) => {
      await using key = await createAttestationKey(connection, secret, signal);
      const stolen = { ...key, auth: password() };
      const selection = { hash: 'sha256', pcrs: [0] } as const;
      return await quote(connection, { key: stolen, extraData: new Uint8Array(32), selection }, signal);
    });
    await expect(attempt).rejects.toMatchObject({ code: 'tpm-auth-failed' });
  });

  test('quote() signs the requested PCRs and data with a primary key of the endorsement hierarchy', async () => {
    const { statement, signer, values } = await use(async (connection, signal) => {
      await using key = await createAttestationKey(connection, undefined, signal);
      const selection = { hash: 'sha256', pcrs: [0, 7, 23] } as const;
      const { attest } = await quote(connection, { key, extraData: Buffer.from('nonce'), selection }, signal);
      return {
        statement: parseQuoteAttest(attest),
        signer: qualifiedNameOf(key.publicArea, HIERARCHY.endorsement),
        values: await readPcrs(connection, selection, signal),
      };
    });
    expect(hex(statement.qualifiedSigner)).toBe(hex(signer));
    expect(Buffer.from(statement.extraData).toString()).toBe('nonce');
    expect(hex(statement.pcrDigest)).toBe(hex(pcrDigest(values, 'sha256')));
  });

  test('BatchQuoter returns a quote in less than 3 ms, including the queue, reading PCRs and the key', async () => {
    const quoter = new BatchQuoter({ tpm, pcrs: [0, 1, 2, 3, 4, 5, 6, 7] });
    const times: number[] = [];
    for (let round = 0; round < 100; round++) {
      const startMs = performance.now();
      await quoter.quote(Uint8Array.of(round), never);
      times.push(performance.now() - startMs);
    }
    // Compares the 11th fastest of the 100 quotes, because other load on the machine slows down only some of them.
    expect(times.sort((a, b) => a - b)[10]).toBeLessThan(FAST_QUOTE_MS);
  });

  test('sealSecret() seals to the current PCR values, and unsealing fails after a change', async () => {
    await use(async (connection, signal) => {
      const secret = new Secret<Uint8Array>(Buffer.from('key'));
      const sealed = await sealSecret(connection, secret, [0, 13], signal);
      const opened = await unsealSecret(connection, sealed, signal);
      expect(Buffer.from(opened.reveal()).toString()).toBe('key');
      const digest = new Uint8Array(32).fill(9);
      await extendPcr(connection, { pcr: 13, hash: 'sha256', digest }, signal);
      await expect(unsealSecret(connection, sealed, signal)).rejects.toMatchObject({
        code: 'tpm-policy-failed',
      });
    });
  });

  test('unsealSecret() opens a secret that an earlier version sealed, without the name of the storage key', async () => {
    const secret = new Secret<Uint8Array>(Buffer.from('key'));
    const opened = await use(async (connection, signal) => {
      const { publicPart, privatePart } = parseSealed(await sealSecret(connection, secret, [0], signal));
      const earlier = new WireWriter()
        .u32(0x63545053)
        .u16(1)
        .bytes(encodePcrSelection({ hash: 'sha256', pcrs: [0] }))
        .sized(publicPart)
        .sized(privatePart)
        .finish();
      return unsealSecret(connection, earlier, signal);
    });
    expect(Buffer.from(opened.reveal()).toString()).toBe('key');
  });

  test('unsealSecret() refuses a sealed secret with any byte altered', async () => {
    const secret = new Secret<Uint8Array>(Buffer.from('key'));
    const sealed = await use((connection, signal) => sealSecret(connection, secret, [0], signal));
    let refused = 0;
    for (let at = 0; at < sealed.length; at += 5) {
      const altered = sealed.slice();
      altered[at] = (altered[at] ?? 0) ^ 0x10;
      const attempt = use((connection, signal) => unsealSecret(connection, altered, signal));
      await expect(attempt).rejects.toMatchObject({ code: expect.stringMatching(/^tpm-/) as unknown });
      refused++;
    }
    expect(refused).toBeGreaterThan(40);
  });

  const INDEX = 0x01800101;
  const auth = new Uint8Array(Buffer.from('counter-auth'));

  test('a counter never goes back, even after it was deleted and defined again', async () => {
    const read = () => use((connection, signal) => readCounter(connection, INDEX, password(auth), signal));
    await use((connection, signal) => defineCounter(connection, INDEX, auth, signal));
    const first = await read();
    await use((connection, signal) => incrementCounter(connection, INDEX, password(auth), signal));
    const second = await read();
    expect(second).toBe(first + 1n);
    await use(async (connection, signal) => {
      await undefineNv(connection, INDEX, signal);
      await defineCounter(connection, INDEX, auth, signal);
    });
    expect(await read()).toBeGreaterThan(second);
  });

  test('certifyNv() certifies the counter with the attestation key', async () => {
    const { statement, name } = await use(async (connection, signal) => {
      await using key = await createAttestationKey(connection, undefined, signal);
      const nv = await readNvPublic(connection, INDEX, signal);
      if (nv === undefined) throw new Error('not defined');
      const options = { key, nv, indexAuth: password(auth) };
      const certified = await certifyNv(connection, { ...options, extraData: new Uint8Array(32) }, signal);
      return { statement: parseNvAttest(certified.attest), name: hex(nvNameOf(nv)) };
    });
    expect(hex(statement.indexName)).toBe(name);
    expect(statement.contents).toHaveLength(8);
  });

  test('NvCounter.start() defines the counter once, and refuses the NV index if other software uses it', async () => {
    const value = () => use((connection, signal) => lockCounter.read(connection, signal));
    expect(await value()).toBeUndefined();
    await use((connection, signal) => lockCounter.start(connection, signal));
    const first = await value();
    await use((connection, signal) => lockCounter.start(connection, signal));
    expect(await value()).toBe(first);
    await use((connection, signal) => lockCounter.increment(connection, signal));
    expect(await value()).toBe((first ?? 0n) + 1n);
    const fresh = { ...LOCK_COUNTER, attributes: LOCK_COUNTER.attributes & ~NV_ATTRIBUTE.written };
    for (const foreign of [
      { attributes: NV_ATTRIBUTE.authRead | NV_ATTRIBUTE.authWrite | NV_ATTRIBUTE.noDa },
      { nameHash: 'sha384' },
      { authPolicy: new Uint8Array(32).fill(1) },
    ] as const) {
      await use(async (connection, signal) => {
        await undefineNv(connection, LOCK_COUNTER.index, signal);
        await defineNv(connection, { ...fresh, ...foreign }, new Uint8Array(), signal);
      });
      await expect(value()).rejects.toMatchObject({ code: 'tpm-nv-foreign' });
      const starting = use((connection, signal) => lockCounter.start(connection, signal));
      await expect(starting).rejects.toMatchObject({ code: 'tpm-nv-foreign' });
    }
    await use((connection, signal) => undefineNv(connection, LOCK_COUNTER.index, signal));
  });

  test('incrementCounter() refuses a wrong authorization value', async () => {
    const attempt = use((connection, signal) => incrementCounter(connection, INDEX, password(), signal));
    await expect(attempt).rejects.toMatchObject({ code: 'tpm-auth-failed' });
  });

  test('writeNv() and readNv() handle an index larger than one command, and undefineNv() deletes it', async () => {
    const index = 0x01800102;
    const data = new Uint8Array(1200).map((_, at) => at);
    const attributes = NV_ATTRIBUTE.authRead | NV_ATTRIBUTE.authWrite | NV_ATTRIBUTE.noDa;
    const nv = {
      index,
      nameHash: 'sha256',
      attributes,
      authPolicy: new Uint8Array(),
      sizeBytes: data.length,
    } as const;
    await use(async (connection, signal) => {
      await defineNv(connection, nv, auth, signal);
      await writeNv(connection, { index, auth: password(auth), data }, signal);
      expect(await readNv(connection, index, signal, password(auth))).toEqual(data);
      await undefineNv(connection, index, signal);
      expect(await readNvPublic(connection, index, signal)).toBeUndefined();
    });
    const attempt = use((connection, signal) => readNv(connection, index, signal));
    await expect(attempt).rejects.toMatchObject({ code: 'tpm-handle-missing' });
  });

  test('no object stays loaded after tasks that complete, fail or are aborted', async () => {
    const template = attestationKeyTemplate();
    const load: TpmTask<unknown> = (connection, signal) =>
      createPrimary(connection, { hierarchy: HIERARCHY.endorsement, template }, signal);
    await use(load);
    await expect(
      use((...task) => load(...task).then(() => Promise.reject(new Error('mine')))),
    ).rejects.toThrow('mine');
    const abort = new AbortController();
    const aborted = tpm.use(abort.signal, async (...task) => {
      await load(...task);
      abort.abort(new Error('enough'));
      return load(...task);
    });
    await expect(aborted).rejects.toThrow('enough');
    expect(await use((connection, signal) => listHandles(connection, TRANSIENT_HANDLES, signal))).toEqual([]);
  });

  test('the TPM is released between two tasks so that another program can use it', async () => {
    await using other = swtpm.open();
    const answers = await Promise.all([
      use((connection, signal) => getRandom(connection, 8, signal)),
      other.use(never, (connection, signal) => getRandom(connection, 8, signal)),
    ]);
    expect(answers.map((answer) => answer.length)).toEqual([8, 8]);
  });

  test('a quote’s clock counts restarts, and is marked safe only after an orderly shutdown', async () => {
    const clock = () =>
      use(async (connection, signal) => {
        await using key = await createAttestationKey(connection, undefined, signal);
        const selection = { hash: 'sha256', pcrs: [0] } as const;
        const { attest } = await quote(connection, { key, extraData: new Uint8Array(32), selection }, signal);
        return parseQuoteAttest(attest).clock;
      });
    const restart = async (): Promise<void> => {
      await tpm[Symbol.asyncDispose]();
      await swtpm[Symbol.asyncDispose]();
      swtpm = await factory.start();
      tpm = swtpm.open();
    };
    const first = await clock();
    await use(shutdown);
    await restart();
    const second = await clock();
    await restart();
    const third = await clock();
    expect([second.resetCount - first.resetCount, third.resetCount - second.resetCount]).toEqual([1, 1]);
    expect([second.safe, third.safe]).toEqual([true, false]);
  });
});
