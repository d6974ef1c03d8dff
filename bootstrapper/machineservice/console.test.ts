import { describe, expect, test } from '@jest/globals';
import { EventValue } from '../../internal/event/index.ts';
import { type CommandAnswer, FakeCommands, MemoryFiles, settle } from '../../internal/testing/index.ts';
import { superviseForTest } from '../../internal/testing/supervised.ts';
import type { Enrolment } from '../enrolment/index.ts';
import type { Membership } from '../membership/index.ts';
import { challengeLines, consoleRunnable, failureText, ISSUE_PATH, issueText } from './console.ts';

const fingerprint = `sha256:${'ab'.repeat(32)}`;

async function createMachine(isMember: boolean, answer?: CommandAnswer) {
  const files = new MemoryFiles();
  const commands = new FakeCommands(answer);
  const status = new EventValue<{ readonly state: string }>();
  const enrolment = { status } as unknown as Pick<Enrolment<Membership>, 'status'>;
  const tree = superviseForTest(
    consoleRunnable({ files, commands, enrolment, fingerprint, isJoinedOrJoining: async () => isMember }),
  );
  await settle();
  const shown = async (): Promise<string | undefined> => {
    const bytes = await files.read(ISSUE_PATH, 1000);
    return bytes && Buffer.from(bytes).toString('utf8');
  };
  return { commands, status, tree, shown, files };
}

describe('consoleRunnable()', () => {
  test('shows the fingerprint above each prompt and on the console until the machine is a node', async () => {
    const { commands, status, tree, shown, files } = await createMachine(false);
    await using _tree = tree;
    expect(await shown()).toBe(issueText(fingerprint));
    expect((await files.stat(ISSUE_PATH))?.mode).toBe(0o644);
    expect(commands.runs).toEqual([
      ['systemctl', '--no-block', 'restart', 'cluster-fingerprint.service'],
      ['agetty', '--reload'],
    ]);
    status.set({ state: 'Joining' });
    await settle();
    expect(await shown()).toContain(fingerprint);
    status.set({ state: 'Running' });
    await settle();
    expect(await shown()).toBeUndefined();
    expect(commands.runs.at(-1)).toEqual(['agetty', '--reload']);
  });

  test('shows nothing on a node, and deletes what an earlier run left', async () => {
    const { commands, status, tree, shown } = await createMachine(true);
    await using _tree = tree;
    expect([await shown(), commands.runs]).toEqual([undefined, []]);
    status.set({ state: 'Running' });
    await settle();
    expect(commands.runs).toEqual([]);
  });

  test('continues without a console', async () => {
    const { tree, shown } = await createMachine(false, () => ({ exitCode: 1, output: 'none' }));
    await using _tree = tree;
    expect(await shown()).toContain(fingerprint);
    expect(tree.at('root').state).toBe('healthy');
    expect(tree.records.map(({ message }) => message)).toContain('text not shown on the console');
  });
});

test('failureText() names code, cause and fix, and gives agetty nothing to interpret', () => {
  const text = failureText({ code: 'disk-locked', message: 'a\\n \u001b[2J\nb', fix: 'Boot it.' });
  expect(text).toBe('This machine does not start its agent: disk-locked\n  a/n ?[2J↵b\n  Fix: Boot it.\n\n');
  const more = failureText({ code: 'disk-locked', message: 'a', fix: 'b' }, undefined, ['one', 'two']);
  expect(more.endsWith('\n  Fix: b\none\ntwo\n\n')).toBe(true);
});

describe('challengeLines()', () => {
  const details = { pcr9: { sealed: '00'.repeat(32), now: '09'.repeat(32) }, other: 'x' };
  const challenge = '00000-00001\n00002';

  test('names the registers that changed, the challenge and where to type the code', () => {
    expect(challengeLines({ details }, { challenge, pipe: undefined, owners: 1 })).toEqual([
      'Registers of the TPM that have changed, with their values now:',
      `  pcr9  ${'09'.repeat(32)}`,
      'Without a network: on a workstation with the key of an owner, run',
      '  cluster recover disk NODE --console',
      'and give it this challenge:',
      '  00000-00001',
      '  00002',
      'Then type the code that it shows here, and press Enter.',
    ]);
  });

  test('names the pipe on a machine with logins, and no register if none changed', () => {
    const lines = challengeLines({ details: {} }, { challenge, pipe: '/run/code', owners: 1 });
    expect(lines[0]).toBe('Without a network: on a workstation with the key of an owner, run');
    expect(lines.at(-1)).toBe('Then log in as root here, and run: echo CODE > /run/code');
  });

  test('says how many owners must act', () => {
    const lines = challengeLines({ details: {} }, { challenge, pipe: undefined, owners: 2 });
    expect(lines.at(-1)).toBe(
      '2 different owners in all must do this for the same challenge, or recover the disk over the network.',
    );
  });
});
