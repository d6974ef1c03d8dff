import { describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../host/fake-host.ts';
import { PromptPassphrases } from './prompt-passphrases.ts';

const GOOD = 'correct horse battery';

function start(options: {
  readonly secrets?: readonly string[];
  readonly descriptor?: number;
  readonly files?: Readonly<Record<number, string>>;
}) {
  const host = new RecordingHost({ secrets: options.secrets ?? [] });
  const read: number[] = [];
  const passphrases = new PromptPassphrases({
    descriptor: options.descriptor,
    readDescriptor: async (descriptor, maxBytes) => {
      read.push(descriptor);
      const bytes = Buffer.from(options.files?.[descriptor] ?? '');
      if (options.files?.[descriptor] === undefined || bytes.length > maxBytes) throw new Error('EBADF');
      return bytes;
    },
    askSecrets: (questions) => host.askSecrets(questions),
  });
  return { passphrases, read, asked: () => host.records.length };
}

describe('PromptPassphrases', () => {
  test('asks once at a terminal, twice for a new passphrase', async () => {
    const { passphrases, asked } = start({ secrets: [GOOD, 'another passphrase', 'another passphrase'] });
    const first = await passphrases.current('/w/a');
    expect(await passphrases.current('/w/b')).toBe(first);
    expect(asked()).toBe(1);
    const created = await passphrases.create({ replaces: true });
    expect(await passphrases.create({ replaces: true })).toBe(created);
    expect(asked()).toBe(3);
  });

  test('reads a descriptor once, without its line end, and does not prompt', async () => {
    const { passphrases, read, asked } = start({ descriptor: 3, files: { 3: `${GOOD}\r\n` } });
    const other = start({ secrets: [GOOD] });
    const first = await passphrases.current('/w/a');
    expect(first.equals(await other.passphrases.current('/w/a'))).toBe(true);
    expect(await passphrases.current('/w/b')).toBe(first);
    expect([read, asked()]).toEqual([[3], 0]);
  });

  test('takes the new passphrase from its own descriptor, or from --passphrase-fd when there is no old one', async () => {
    const files = { 3: GOOD, 4: 'another passphrase' };
    const both = start({ descriptor: 3, files });
    await both.passphrases.current('/w/a');
    await both.passphrases.create({ descriptor: 4, replaces: true });
    expect(both.read).toEqual([3, 4]);
    const first = start({ descriptor: 3, files });
    await first.passphrases.create({ replaces: false });
    expect(first.read).toEqual([3]);
    const missing = start({ descriptor: 3, files });
    await expect(missing.passphrases.create({ replaces: true })).rejects.toMatchObject({
      code: 'workspace-passphrase-needed',
    });
  });

  test.each([
    {
      name: 'to go on with neither a terminal nor a descriptor',
      code: 'workspace-passphrase-needed',
      given: {},
    },
    {
      name: 'a descriptor that cannot be read',
      code: 'workspace-passphrase-descriptor',
      given: { descriptor: 9 },
    },
    {
      name: 'an empty descriptor',
      code: 'workspace-passphrase-unusable',
      given: { descriptor: 3, files: { 3: '\n' } },
    },
    {
      name: 'two lines',
      code: 'workspace-passphrase-unusable',
      given: { descriptor: 3, files: { 3: `${GOOD}\nx\n` } },
    },
    {
      name: 'a long text',
      code: 'workspace-passphrase-descriptor',
      given: { descriptor: 3, files: { 3: 'x'.repeat(1027) } },
    },
    { name: 'an empty answer', code: 'workspace-passphrase-unusable', given: { secrets: [''] } },
  ])('refuses $name', async ({ code, given }) => {
    await expect(start(given).passphrases.current('/w/a')).rejects.toMatchObject({ code });
  });

  test.each([
    { name: 'two entries that differ', secrets: [GOOD, 'correct horse batterz'] },
    { name: 'a short text', secrets: ['short', 'short'] },
  ])('refuses $name as a new passphrase', async ({ secrets }) => {
    const { passphrases } = start({ secrets });
    await expect(passphrases.create({ replaces: false })).rejects.toMatchObject({
      code: 'workspace-passphrase-unusable',
    });
  });
});
