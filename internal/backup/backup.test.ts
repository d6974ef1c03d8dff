import { createPrivateKey, createPublicKey } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ed25519PubKeyFrom, generateEd25519Key } from '../crypto/index.ts';
import { findCoded } from '../errors/index.ts';
import { nodeIdOf } from '../pki/index.ts';
import { Secret } from '../secret/index.ts';
import { decryptAge, encryptAge } from './age.ts';
import { readBackupHeader, readBackupParts, verifyBackup, writeBackup } from './backup-file.ts';
import { signBackupCertificate } from './certificate.ts';
import type { BackupHeader } from './header.ts';
import { PART_NAMES } from './parts.ts';
import { parseRecoveryKey, recoveryKeyOfOwner } from './recovery-key.ts';

const ownerPem = generateEd25519Key();
const nodePem = generateEd25519Key();
const owner = ed25519PubKeyFrom(ownerPem) ?? new Uint8Array();
const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
const recovery = recoveryKeyOfOwner(ownerPem);
const TRUST = { owners: [owner], clusterId: 'c0ffee', epoch: 2 };
const NOW = 1_800_000_000_000;

async function* one(...chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) {
    await Promise.resolve();
    yield chunk;
  }
}

async function all(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}

function headerOf(change: Partial<BackupHeader> = {}, recipients = [recovery.recipient]): BackupHeader {
  const certificate = signBackupCertificate(
    {
      clusterId: 'c0ffee',
      epoch: 2,
      nodeId: nodeIdOf(spki),
      recipients,
      issuedMs: NOW - 1000,
      endsMs: NOW + 1000,
    },
    { keyPem: ownerPem, vouchers: [] },
  );
  return {
    clusterId: 'c0ffee',
    clusterName: 'blue',
    epoch: 2,
    takenMs: NOW,
    revisions: { state: '7', kubernetes: '9' },
    versions: { agent: '1.0.0', kubernetes: 'v1.37.2' },
    signer: spki.toString('base64'),
    certificate,
    ...change,
  };
}

const parts = () => PART_NAMES.map((name) => ({ name, content: one(Buffer.from(`content of ${name}`)) }));
const fileOf = (header = headerOf()): Promise<Buffer> => all(writeBackup(header, parts(), nodePem));
const codeOf = async (work: Promise<unknown>): Promise<string> => {
  const result = await work.then(
    () => 'accepted',
    (error: unknown) => error,
  );
  return findCoded(result)?.code ?? String(result);
};

describe('age', () => {
  test.each([0, 1, 65_535, 65_536, 65_537, 200_000])(
    'decryptAge() returns the %d bytes that encryptAge() encrypted',
    async (size) => {
      const plain = Buffer.alloc(size, 7);
      const sealed = await all(encryptAge(one(plain), [recovery.recipient]));
      expect((await all(decryptAge(one(sealed), [recovery]))).equals(plain)).toBe(true);
    },
  );

  test.each([7, 1000, 65_536, 65_552, 65_553])(
    'decryptAge() returns what encryptAge() encrypted, in pieces of %d bytes',
    async (size) => {
      const plain = Buffer.from(Array.from({ length: 140_000 }, (_, i) => i % 251));
      const pieces = (all: Buffer): Buffer[] =>
        Array.from({ length: Math.ceil(all.length / size) }, (_, i) =>
          all.subarray(i * size, (i + 1) * size),
        );
      const sealed = await all(encryptAge(one(...pieces(plain)), [recovery.recipient]));
      const opened = await all(decryptAge(one(...pieces(sealed)), [recovery]));
      expect(opened.equals(plain)).toBe(true);
    },
  );

  test('decrypts a file of another implementation (age-encryption 0.3.1)', async () => {
    const key = parseRecoveryKey(new Secret(FOREIGN.identity));
    expect(key.recipient).toBe(FOREIGN.recipient);
    const plain = await all(decryptAge(one(Buffer.from(FOREIGN.file, 'base64')), [key]));
    expect(plain.toString()).toBe('hello from another implementation');
  });
});

describe('a backup', () => {
  test('is read by its owner, with every part', async () => {
    const file = await fileOf();
    expect(await readBackupHeader(one(file))).toEqual(headerOf());
    expect((await verifyBackup(one(file), TRUST)).sizeBytes).toBe(file.length);
    const seen: Record<string, string> = {};
    for await (const { name, data } of readBackupParts(one(file), [recovery]))
      seen[name] = (seen[name] ?? '') + Buffer.from(data).toString();
    expect(seen).toEqual(Object.fromEntries(PART_NAMES.map((name) => [name, `content of ${name}`])));
  });

  test.each(['workspace', 'objects'])(
    'is read without the part %s, which older files do not have',
    async (name) => {
      const older = parts().filter((part) => part.name !== name);
      const file = await all(writeBackup(headerOf(), older, nodePem));
      const seen = new Set<string>();
      for await (const part of readBackupParts(one(file), [recovery])) seen.add(part.name);
      expect([...seen]).toEqual(older.map((part) => part.name));
    },
  );

  test('is refused if any single byte is changed, before its content is used', async () => {
    const file = await fileOf();
    const codes = new Set<string>();
    for (let at = 0; at < file.length; at++) {
      const changed = Buffer.from(file);
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      codes.add(await codeOf(verifyBackup(one(changed), TRUST)));
    }
    expect([...codes].toSorted()).toEqual([
      'backup-malformed',
      'backup-not-a-backup',
      'backup-signature-invalid',
      'backup-truncated',
      'backup-version-newer',
    ]);
  });

  test('of several frames is refused if a bit is changed at the start, at the end or anywhere in any of its sections', async () => {
    const large = parts().map(({ name }, at) => ({ name, content: one(Buffer.alloc(40_000 * at, name)) }));
    const file = await all(writeBackup(headerOf(), large, nodePem));
    const sections = sectionsOf(file);
    expect(sections.filter(({ name }) => name === 'frame').length).toBeGreaterThan(10);
    expect(sections.at(-1)?.end).toBe(file.length);
    const place = fc.constantFrom(...sections).chain(({ name, start, end }) =>
      fc.record({
        name: fc.constant(name),
        at: fc.oneof(fc.constant(start), fc.constant(end - 1), fc.integer({ min: start, max: end - 1 })),
        bit: fc.nat(7),
      }),
    );
    const hit = new Set<string>();
    await fc.assert(
      fc.asyncProperty(place, async ({ name, at, bit }) => {
        const changed = Buffer.from(file);
        changed[at] = (changed[at] ?? 0) ^ (1 << bit);
        expect(await codeOf(verifyBackup(one(changed), TRUST))).toMatch(/^backup-/);
        hit.add(name);
      }),
      { seed: 23, numRuns: 300 },
    );
    expect([...hit].toSorted()).toEqual([...new Set(sections.map(({ name }) => name))].toSorted());
  });

  test('is refused if it is truncated anywhere or has an extra byte', async () => {
    const file = await fileOf();
    for (let length = 0; length < file.length; length++) {
      const code = await codeOf(verifyBackup(one(file.subarray(0, length)), TRUST));
      expect([length, code]).toEqual([length, length < 8 ? 'backup-not-a-backup' : 'backup-truncated']);
    }
    expect(await codeOf(verifyBackup(one(file, Buffer.alloc(1)), TRUST))).toBe('backup-malformed');
  });

  test('is refused after random damage: bytes replaced, inserted, deleted, repeated or moved', async () => {
    const file = await fileOf();
    const place = fc.nat(file.length - 1);
    const length = fc.integer({ min: 1, max: 600 });
    const damage = fc.oneof(
      fc.record({ kind: fc.constant('replace' as const), at: place, bytes: fc.uint8Array({ minLength: 1 }) }),
      fc.record({ kind: fc.constant('insert' as const), at: place, bytes: fc.uint8Array({ minLength: 1 }) }),
      fc.record({ kind: fc.constant('delete' as const), at: place, length }),
      fc.record({ kind: fc.constant('repeat' as const), at: place, length }),
      fc.record({ kind: fc.constant('move' as const), at: place, length, to: place }),
    );
    const codes = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(damage, { minLength: 1, maxLength: 4 }), async (all) => {
        const damaged = all.reduce(applyDamage, file);
        fc.pre(!damaged.equals(file));
        const code = await codeOf(verifyBackup(one(damaged), TRUST));
        expect(code).toMatch(/^backup-/);
        codes.add(code);
      }),
      { seed: 23, numRuns: 400 },
    );
    expect(codes).toContain('backup-signature-invalid');
  });

  test('of a newer format is refused before the rest is read', async () => {
    const file = await fileOf();
    file.writeUInt16BE(5, 8); // the newest format is 4
    expect(await codeOf(verifyBackup(one(file.subarray(0, 10)), TRUST))).toBe('backup-version-newer');
  });

  const otherOwner = generateEd25519Key();
  const otherOwnerPub = ed25519PubKeyFrom(otherOwner) ?? new Uint8Array();
  test.each([
    { name: 'of another cluster', trust: { ...TRUST, clusterId: 'other' }, want: 'backup-other-cluster' },
    { name: 'of an older epoch', trust: { ...TRUST, epoch: 3 }, want: 'backup-epoch-old' },
    {
      name: 'for another owner',
      trust: { ...TRUST, owners: [otherOwnerPub] },
      want: 'backup-certificate-invalid',
    },
    {
      name: 'read by a program that trusts no owner',
      trust: { ...TRUST, owners: [] },
      want: 'backup-certificate-invalid',
    },
  ])('$name is refused', async ({ trust, want }) => {
    expect(await codeOf(verifyBackup(one(await fileOf()), trust))).toBe(want);
  });

  test.each([
    { name: 'another epoch than its certificate', change: { epoch: 3 } },
    { name: 'another cluster than its certificate', change: { clusterId: 'other' } },
    { name: 'a time after the end of its certificate', change: { takenMs: NOW + 2000 } },
  ])('with $name is refused', async ({ change }) => {
    const file = await fileOf(headerOf(change));
    expect(await codeOf(verifyBackup(one(file), TRUST))).toBe('backup-certificate-invalid');
  });

  test('signed by another node than its certificate names is refused', async () => {
    const other = createPublicKey(createPrivateKey(otherOwner.reveal())).export({
      format: 'der',
      type: 'spki',
    });
    const header = headerOf({ signer: other.toString('base64') });
    const file = await all(writeBackup(header, parts(), otherOwner));
    expect(await codeOf(verifyBackup(one(file), TRUST))).toBe('backup-certificate-invalid');
  });

  test('is read with each of several recovery keys', async () => {
    const second = recoveryKeyOfOwner(generateEd25519Key());
    const file = await fileOf(headerOf({}, [recovery.recipient, second.recipient]));
    for (const key of [recovery, second]) {
      const read: string[] = [];
      for await (const { name, data } of readBackupParts(one(file), [key]))
        read.push(`${name}: ${Buffer.from(data).toString()}`);
      expect(read.filter((each) => each.includes('content of'))).toHaveLength(PART_NAMES.length);
    }
  });

  test('cannot be read with another recovery key', async () => {
    const read = async (): Promise<void> => {
      for await (const _ of readBackupParts(one(await fileOf()), [recoveryKeyOfOwner(otherOwner)]));
    };
    expect(await codeOf(read())).toBe('backup-no-recovery-key');
    expect((await fileOf()).includes('content of')).toBe(false);
  });
});

/** The sections of a file, as internal/backup/index.ts describes them, with the length and the content of each frame. */
function sectionsOf(
  file: Buffer,
): readonly { readonly name: string; readonly start: number; readonly end: number }[] {
  const sections: { name: string; start: number; end: number }[] = [];
  let start = 0;
  const add = (name: string, bytes: number): void => {
    if (bytes > 0) sections.push({ name, start, end: start + bytes });
    start += bytes;
  };
  add('magic', 8);
  add('version', 2);
  add('length of the header', 4);
  add('header', file.readUInt32BE(10));
  add('signature of the header', 64);
  for (let length = -1; length !== 0;) {
    length = file.readUInt32BE(start);
    add('length of a frame', 4);
    add('frame', length);
  }
  add('signature of the file', 64);
  return sections;
}

type Damage =
  | { readonly kind: 'replace' | 'insert'; readonly at: number; readonly bytes: Uint8Array }
  | { readonly kind: 'delete' | 'repeat'; readonly at: number; readonly length: number }
  | { readonly kind: 'move'; readonly at: number; readonly length: number; readonly to: number };

function applyDamage(file: Buffer, damage: Damage): Buffer {
  const { at } = damage;
  const [before, after] = [file.subarray(0, at), file.subarray(at)];
  switch (damage.kind) {
    case 'replace':
      return Buffer.concat([before, damage.bytes, after.subarray(damage.bytes.length)]);
    case 'insert':
      return Buffer.concat([before, damage.bytes, after]);
    case 'delete':
      return Buffer.concat([before, after.subarray(damage.length)]);
    case 'repeat':
      return Buffer.concat([before, after.subarray(0, damage.length), after]);
    case 'move': {
      const rest = Buffer.concat([before, after.subarray(damage.length)]);
      const moved = after.subarray(0, damage.length);
      return Buffer.concat([rest.subarray(0, damage.to), moved, rest.subarray(damage.to)]);
    }
  }
}

const FOREIGN = {
  identity: 'AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R',
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  file: 'YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBLRTAybkREYXJEMHhQV1MrMWhwd2w3MEhTWmxOZkQ3TWFJL1ZaZlBZOVI0Cm1xZGF0bjl4bnZ3VWltNzgremNiZ2ZEWkhHdkVvaU1QbjJCeDUzcnVnTXcKLS0tIGY2SUdQelgvTTUzejY4aFJNWW1lUVIza0lKcE5yYThBOWlPK3Q4OUJvdkkKV2EiKTHSI1k4biWYgAqzDAjiZG82uF+hni8DEwmdeg3m5UnxcBUyB8D4KGahNMHmTOYeNjra4VF+m/so26oDKnk=',
};
