import { describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { confirmStop, execOn, runMiniDown, showStop } from './manage-machines.ts';

const stop = { name: 'mini', node: 'n1', powerCut: false, dryRun: false, yes: false };
const cut = { ...stop, powerCut: true };
const no = () => new RecordingHost({ answer: () => false });

describe('cluster mini stop', () => {
  test('asks at a terminal before it cuts the power, unless --yes was given', async () => {
    await expect(confirmStop({ host: no() }, cut)).rejects.toMatchObject({ code: 'loss-declined' });
    await confirmStop({ host: no() }, { ...cut, yes: true });
  });

  test('asks nothing before a graceful shutdown, and nothing in a script', async () => {
    await confirmStop({ host: no() }, stop);
    await confirmStop({ host: new RecordingHost() }, cut);
  });

  test('with --dry-run shows what is lost', () => {
    const host = new RecordingHost();
    showStop({ host }, { ...cut, dryRun: true });
    expect(host.answered).toMatchObject({ node: 'n1', dryRun: true, losses: [expect.any(String)] });
  });
});

describe('cluster mini down', () => {
  const directory = '/data/mini/blue';
  /** A machine with the local cluster "blue" of two machines. */
  const setUp = async (host: RecordingHost) => {
    const files = new MemoryFiles();
    const texts = {
      '/proc/self/mountinfo': '',
      '/var/lib/cluster-mini/clu7': directory,
      [`${directory}/nodes/n1/node.json`]: '{}',
      [`${directory}/nodes/n2/node.json`]: '{}',
    };
    for (const [path, text] of Object.entries(texts)) {
      await files.makeDirectory(dirname(path));
      await files.writeAtomic(path, text);
    }
    const context = { ...contextOf(files, '/owner'), host };
    const isThere = async (): Promise<boolean> => (await files.stat(directory)) !== undefined;
    return { context, isThere };
  };
  const losses = ['machines and their disks: n1, n2', `workspace with the owner key: ${directory}/workspace`];

  test('with --dry-run shows what is lost, and deletes nothing', async () => {
    const host = new RecordingHost();
    const { context, isThere } = await setUp(host);
    await runMiniDown(context, { name: 'blue', dryRun: true, yes: true });
    expect(host.records).toMatchObject([
      {
        kind: 'result',
        data: { dryRun: true, removed: false, losses },
        text: expect.stringContaining('would be deleted'),
      },
    ]);
    expect([await isThere(), context.ports.commands.runs]).toEqual([true, []]);
  });

  test('asks at a terminal, shows what is lost, and deletes nothing after a no', async () => {
    const host = no();
    const { context, isThere } = await setUp(host);
    const refused = { code: 'loss-declined', details: { losses } };
    await expect(runMiniDown(context, { name: 'blue' })).rejects.toMatchObject(refused);
    expect(host.records).toMatchObject([
      { kind: 'say', data: { losses } },
      { kind: 'confirm', answer: false },
    ]);
    expect([await isThere(), context.ports.commands.runs]).toEqual([true, []]);
  });

  test('deletes after a yes, with --yes, and without a terminal, where it asks nothing', async () => {
    const yes = () => new RecordingHost({ answer: () => true });
    for (const [host, options] of [
      [yes(), {}],
      [no(), { yes: true }],
      [new RecordingHost(), {}],
    ] as const) {
      const { context, isThere } = await setUp(host);
      await runMiniDown(context, { name: 'blue', ...options });
      expect([await isThere(), host.answered]).toEqual([false, { cluster: 'blue', removed: true }]);
      expect(host.records.filter(({ kind }) => kind === 'confirm')).toHaveLength(
        host.interactive && !('yes' in options) ? 1 : 0,
      );
    }
  });
});

describe('cluster mini exec', () => {
  const program = ['systemctl', 'is-active', 'x'] as const;
  /** A machine on which the program ends with 3. */
  const setUp = (host: RecordingHost) => {
    const calls: unknown[] = [];
    const node: Parameters<typeof execOn>[1] = {
      name: 'n1',
      exec: async (argv, { okExitCodes }) => {
        calls.push(['exec', argv, okExitCodes?.includes(3), okExitCodes?.includes(255)]);
        return { exitCode: 3, stdout: 'inactive\n', stderr: 'oh\n' };
      },
      attach: async (argv, { env, terminal }) => {
        calls.push(['attach', argv, env, terminal]);
        return 3;
      },
    };
    const context = { ...contextOf(new MemoryFiles(), '/owner'), host, env: { TERM: 'xterm' } };
    return { calls, run: () => execOn(context, node, program) };
  };

  test('with -o json has output and exit code of the program in its result, and ends with that code', async () => {
    const host = new RecordingHost({ wantsData: true });
    const { calls, run } = setUp(host);
    expect(await run()).toBe(3);
    expect(calls).toEqual([['exec', program, true, true]]);
    expect(host.records).toMatchObject([
      { kind: 'result', data: { node: 'n1', exitCode: 3, stdout: 'inactive\n', stderr: 'oh\n' } },
    ]);
  });

  test('gives the program the streams of this process otherwise, and its own terminal at a terminal', async () => {
    for (const host of [no(), new RecordingHost()]) {
      const { calls, run } = setUp(host);
      expect(await run()).toBe(3);
      expect(calls).toEqual([['attach', program, { TERM: 'xterm' }, host.interactive]]);
      expect(host.records).toEqual([]);
    }
  });
});
