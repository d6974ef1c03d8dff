import { describe, expect, test } from '@jest/globals';
import { parseRecipient, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  createConsoleChallenge,
  decodeTyped,
  wrapForConsole,
  type ConsoleChallenge,
} from '../../internal/statedisk/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { generateWorkspace } from '../cluster/index.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { runRecoverAtConsole, type RecoverAtConsoleOptions } from './index.ts';

const KEY = new Secret(new Uint8Array(32).fill(7));
/** A key pair of age-keygen(1). */
const OTHER = {
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  key: 'AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R',
};
const given = { challenge: undefined, recoveryKey: undefined, yes: true, dryRun: false } as const;

/** A workspace, and a machine whose disk its owner (or `recipient`) may open. */
async function createPair(host = new RecordingHost(), recipient?: string) {
  const files = new MemoryFiles();
  const context = { ...contextOf(files, '/owner'), host };
  await generateWorkspace(context, { name: 'prod' });
  const { keyPem } = await readOwnerKey(context, layoutOf('/owner'));
  const recipients = [parseRecipient(recipient ?? recoveryKeyOfOwner(keyPem).recipient)];
  const uuid = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';
  const machine: ConsoleChallenge = createConsoleChallenge({
    ...{ uuid, recipients },
    recovery: wrapForConsole(
      uuid,
      recipients.map((each) => ({ recipient: each, secret: KEY })),
    ),
  });
  await files.writeAtomic('/recovery.txt', `${OTHER.key}\n`);
  return {
    machine,
    recover: (options: Partial<RecoverAtConsoleOptions> = {}, workspace = '/owner') =>
      runRecoverAtConsole({ ...contextOf(files, workspace), host }, 'n2', { ...given, ...options }),
    /** Types what the command has shown. */
    opened: (): Uint8Array | undefined => {
      const { code = '' } = host.answered as { readonly code?: string };
      const decoded = decodeTyped('code', code);
      return decoded.kind === 'bytes' ? machine.open(decoded.bytes)?.reveal() : undefined;
    },
  };
}

describe('cluster recover disk --console', () => {
  test('shows the code that opens the disk, after it has said what nothing proves', async () => {
    const host = new RecordingHost();
    const { machine, recover, opened } = await createPair(host);
    await recover({ challenge: machine.text });
    expect(opened()).toEqual(KEY.reveal());
    expect(host.codes).toEqual(['recover-console-unproved']);
    expect(host.records.at(-1)).toMatchObject({ text: expect.stringContaining('at the console of n2') });
  });

  test('uses the recovery key in a file', async () => {
    const { machine, recover, opened } = await createPair(new RecordingHost(), OTHER.recipient);
    await recover({ challenge: machine.text, recoveryKey: '/recovery.txt' });
    expect(opened()).toEqual(KEY.reveal());
  });

  test('needs no workspace with the recovery key in a file', async () => {
    const host = new RecordingHost();
    const { machine, recover, opened } = await createPair(host, OTHER.recipient);
    await recover({ challenge: machine.text, recoveryKey: '/recovery.txt' }, '/empty');
    expect(opened()).toEqual(KEY.reveal());
    await expect(recover({ challenge: machine.text }, '/empty')).rejects.toMatchObject({
      code: 'workspace-missing',
    });
  });

  test('asks for the challenge line by line; a typing error costs one line', async () => {
    const lines: string[] = [];
    const host = new RecordingHost({ answer: () => true, lines });
    const { machine, recover, opened } = await createPair(host);
    const [first = '', second = '', ...rest] = machine.text.toLowerCase().split('\n');
    const wrong = `${second.slice(0, 6)}u${second.slice(7)}`;
    lines.push(first, '', wrong, second.slice(1), second, ...rest, 'not read');
    await recover();
    expect(opened()).toEqual(KEY.reveal());
    expect(host.records).toContainEqual(
      expect.objectContaining({ kind: 'warn', text: 'group 9 is mistyped; type this line again' }),
    );
    expect(host.codes.filter((code) => code === 'recover-console-line-mistyped')).toHaveLength(2);
  });

  test('does not take a line without its last group; then it takes the whole line', async () => {
    const lines: string[] = [];
    const host = new RecordingHost({ answer: () => true, lines });
    const { machine, recover, opened } = await createPair(host);
    const [first = '', second = '', ...rest] = machine.text.split('\n');
    const last = rest.at(-1) ?? '';
    lines.push(first, second.slice(0, -6), second, ...rest.slice(0, -1), last.slice(0, -6), last);
    await recover();
    expect(opened()).toEqual(KEY.reveal());
    const warned = host.records.flatMap((record) => (record.kind === 'warn' ? [record.text] : []));
    expect(warned).toEqual([
      '6 groups instead of 7; type this line again',
      '4 groups instead of 5; type this line again',
    ]);
  });

  test('takes a challenge that was pasted as one line', async () => {
    const lines: string[] = [];
    const host = new RecordingHost({ answer: () => true, lines });
    const { machine, recover, opened } = await createPair(host);
    lines.push(machine.text.replaceAll('\n', ' '));
    await recover();
    expect(opened()).toEqual(KEY.reveal());
  });

  test('makes no code with --dry-run, and none without a confirmation', async () => {
    const refused = { code: 'recover-disk-not-confirmed' };
    for (const host of [new RecordingHost(), new RecordingHost({ answer: () => false })]) {
      const { machine, recover } = await createPair(host);
      await expect(recover({ challenge: machine.text, yes: false })).rejects.toMatchObject(refused);
      expect(host.answered).toBeUndefined();
      await recover({ challenge: machine.text, dryRun: true, yes: false });
      expect(host.answered).toEqual({ node: 'n2', dryRun: true });
    }
  });

  test.each([
    ['is mistyped', (text: string) => text.replace(/^./, 'U'), 'group 1 is mistyped'],
    [
      'has only its first line',
      (text: string) => text.split('\n')[0] ?? '',
      '35 letters and digits instead of 130',
    ],
    ['is the text of something else', () => 'age-encryption.org/v1', 'group'],
  ])('makes no code for a challenge that %s', async (_, change, why) => {
    const host = new RecordingHost();
    const { machine, recover } = await createPair(host);
    await expect(recover({ challenge: change(machine.text) })).rejects.toMatchObject({
      code: 'recover-console-challenge-invalid',
      message: expect.stringContaining(why),
    });
    expect(host.answered).toBeUndefined();
  });

  test('needs a challenge where nobody can be asked', async () => {
    const { recover } = await createPair();
    await expect(recover()).rejects.toMatchObject({ code: 'recover-console-challenge-invalid' });
  });
});
