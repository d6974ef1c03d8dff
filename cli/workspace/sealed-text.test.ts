import { inspect } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { Secret } from '../../internal/secret/index.ts';
import { Passphrase } from './passphrase.ts';
import { isSealed, openSealed, sealText, type SecretKind } from './sealed-text.ts';

const TEXT = 'planted-owner-key-text';
const passphraseOf = (text: string): Passphrase => Passphrase.parse(new Secret(text), { logN: 15 });
const passphrase = passphraseOf('correct horse battery');
const path = '/w/owner-key.pem';

interface Envelope {
  format: string;
  version: number;
  content: string;
  kdf: { name: string; logN: number; r: number; p: number; salt: string };
  cipher: { name: string; nonce: string; tag: string };
  ciphertext: string;
  more?: unknown;
}

async function sealed(): Promise<string> {
  return sealText(new Secret(TEXT), { kind: 'owner-key', passphrase });
}

async function changed(change: (envelope: Envelope) => void): Promise<string> {
  const envelope = JSON.parse(await sealed()) as Envelope;
  change(envelope);
  return JSON.stringify(envelope);
}

const open = (text: string, kind: SecretKind = 'owner-key', by = passphrase) =>
  openSealed(text, { kind, passphrase: by, path });

/** The base64 text of the same bytes with the first byte changed. */
function flipped(base64: string): string {
  const bytes = Buffer.from(base64, 'base64');
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  return bytes.toString('base64');
}

describe('openSealed()', () => {
  test('returns the text that sealText() encrypted, which the file does not contain', async () => {
    const file = await sealed();
    expect(isSealed(file)).toBe(true);
    expect(file).not.toContain(TEXT);
    expect(file).not.toContain(Buffer.from(TEXT).toString('base64').slice(0, 12));
    expect((await open(file)).reveal()).toBe(TEXT);
  });

  test('opens a file with a passphrase in another Unicode form of the same letters', async () => {
    const file = await sealText(new Secret(TEXT), {
      kind: 'owner-key',
      passphrase: passphraseOf('caf\u00e9'),
    });
    expect((await open(file, 'owner-key', passphraseOf('cafe\u0301'))).reveal()).toBe(TEXT);
  });

  test('refuses another passphrase', async () => {
    const opened = open(await sealed(), 'owner-key', passphraseOf('correct horse batterz'));
    await expect(opened).rejects.toMatchObject({ code: 'workspace-passphrase-wrong' });
  });

  test.each<{ readonly name: string; readonly change: (envelope: Envelope) => void }>([
    { name: 'ciphertext', change: (each) => (each.ciphertext = flipped(each.ciphertext)) },
    { name: 'tag', change: (each) => (each.cipher.tag = flipped(each.cipher.tag)) },
    { name: 'nonce', change: (each) => (each.cipher.nonce = flipped(each.cipher.nonce)) },
    { name: 'salt', change: (each) => (each.kdf.salt = flipped(each.kdf.salt)) },
    { name: 'cost', change: (each) => (each.kdf.logN = 16) },
  ])('refuses a changed $name', async ({ change }) => {
    await expect(open(await changed(change))).rejects.toMatchObject({ code: 'workspace-passphrase-wrong' });
  });

  test('refuses an encrypted file in the place of a file with another secret', async () => {
    await expect(open(await sealed(), 'master-secret')).rejects.toMatchObject({
      code: 'workspace-key-invalid',
    });
    const renamed = await changed((each) => (each.content = 'master-secret'));
    await expect(open(renamed, 'master-secret')).rejects.toMatchObject({
      code: 'workspace-passphrase-wrong',
    });
  });

  test.each<{ readonly name: string; readonly change: (envelope: Envelope) => void }>([
    { name: 'a cost below the minimum', change: (each) => (each.kdf.logN = 14) },
    { name: 'a cost that needs 2 GiB', change: (each) => (each.kdf.logN = 21) },
    { name: 'a cost that is no whole number', change: (each) => (each.kdf.logN = 15.5) },
    { name: 'another block size', change: (each) => (each.kdf.r = 1024) },
    { name: 'another parallelism', change: (each) => (each.kdf.p = 1_000_000) },
    { name: 'another derivation', change: (each) => (each.kdf.name = 'pbkdf2') },
    { name: 'another cipher', change: (each) => (each.cipher.name = 'aes-256-ctr') },
    { name: 'a short salt', change: (each) => (each.kdf.salt = 'AAAA') },
    { name: 'a long salt', change: (each) => (each.kdf.salt = 'A'.repeat(48)) },
    { name: 'a short nonce', change: (each) => (each.cipher.nonce = 'AAAA') },
    { name: 'a truncated tag', change: (each) => (each.cipher.tag = each.cipher.tag.slice(0, 4)) },
    { name: 'an empty ciphertext', change: (each) => (each.ciphertext = '') },
    { name: 'too much ciphertext', change: (each) => (each.ciphertext = 'A'.repeat(200_000)) },
    { name: 'text that is not base64', change: (each) => (each.ciphertext = '§§§§') },
    { name: 'an unknown member', change: (each) => (each.more = 1) },
    { name: 'a newer version', change: (each) => (each.version = 2) },
    { name: 'unknown content', change: (each) => (each.content = 'other') },
  ])('refuses $name before it derives a key', async ({ change }) => {
    const text = await changed(change);
    const before = performance.now();
    await expect(open(text)).rejects.toMatchObject({ code: 'workspace-key-invalid' });
    expect(performance.now() - before).toBeLessThan(200);
  });

  test('names neither the text nor the passphrase in an error', async () => {
    const opened: unknown = await open(
      await sealed(),
      'owner-key',
      passphraseOf('planted wrong words'),
    ).catch((error: unknown) => error);
    const shown = `${String(opened)} ${JSON.stringify(opened)} ${opened instanceof Error ? opened.stack : ''}`;
    expect(shown).toContain('owner-key.pem');
    for (const secret of [TEXT, 'planted wrong words', 'correct horse']) expect(shown).not.toContain(secret);
  });
});

describe('Passphrase.parse()', () => {
  test.each([
    { name: 'an empty passphrase', text: '' },
    { name: 'two lines', text: 'correct\nhorse' },
    { name: 'a NUL character', text: 'correct\0horse' },
    { name: 'bytes that are not UTF-8', text: Buffer.from([0x63, 0xff, 0x63]).toString('utf8') },
    { name: 'more than 1024 bytes', text: 'é'.repeat(513) },
  ])('refuses $name', ({ text }) => {
    expect(() => passphraseOf(text)).toThrow(
      expect.objectContaining({ code: 'workspace-passphrase-unusable' }),
    );
  });

  test('accepts a short passphrase for an existing file, but not for a new file', () => {
    const short = passphraseOf('eleven char');
    expect(() => short.assertStrong()).toThrow(
      expect.objectContaining({ code: 'workspace-passphrase-unusable' }),
    );
    passphraseOf('twelve chars').assertStrong();
  });

  test('prints nothing of the passphrase', () => {
    expect(JSON.stringify(passphrase) + inspect(passphrase, { depth: 9, showHidden: true })).not.toContain(
      'horse',
    );
  });
});
