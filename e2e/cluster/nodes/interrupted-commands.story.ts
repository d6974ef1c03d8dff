import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { NodeShell } from '../harness/node-shell.ts';
import { waitForExit, waitForOutput } from '../harness/program-output.ts';

const NAME = 'halves';
const EXIT_USAGE = 2;
const EXIT_INTERRUPTED = 130;
const CTRL_C = '\u0003';
const FORCED = ['--yes', '--force', '--delete-emptydir-data'] as const;

await test('an interrupted command succeeds when it is run again', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '3');
  const { paths } = await bench.cluster(NAME);
  const first = new NodeShell(bench, NAME);
  const words = (...args: readonly string[]) => ['--workspace', paths.workspace, ...args];
  const start = (...args: readonly string[]) => bench.startCli(...words(...args));
  const must = (...args: readonly string[]) => bench.must(...words(...args));
  const nodes = async () => (await first.kubectl('get', 'nodes', '-o', 'name')).trim().split('\n').sort();

  /** Kills the CLI with SIGKILL as soon as it prints that it has reached a step. */
  const killAt = async (step: RegExp, ...args: readonly string[]): Promise<void> => {
    const cli = start(...args);
    const end = waitForExit(cli);
    await waitForOutput(cli, step);
    cli.kill('SIGKILL');
    await end;
  };
  /** Closes both outputs of the CLI at a step, as `| head` does. Returns the exit code. */
  const leaveAt = async (step: RegExp, ...args: readonly string[]): Promise<number> => {
    const cli = start(...args);
    const end = waitForExit(cli);
    await waitForOutput(cli, step);
    cli.stdout?.destroy();
    cli.stderr?.destroy();
    return (await end).code;
  };
  /** Starts the CLI in a terminal, and waits until it has reached a step. */
  const terminalAt = async (step: RegExp, ...args: readonly string[]): Promise<ChildProcess> => {
    const cli = bench.startCliAtTerminal(...words(...args));
    await waitForOutput(cli, step);
    return cli;
  };

  await story.test('destructive commands are refused without a terminal', async () => {
    const before = await nodes();
    for (const args of [
      ['node', 'remove', 'n2'],
      ['node', 'reset', 'n2'],
      ['node', 'set-role', 'n2', '--control-plane'],
      ['node', 'set-role', 'n2'],
      ['keys', 'rotate'],
    ]) {
      const { code, stderr } = await bench.cli(...words(...args));
      assert.equal(code, EXIT_USAGE, `${args.join(' ')}: ${stderr}`);
      assert.match(stderr, /loss-not-confirmed|no role given/);
    }
    assert.deepEqual(await nodes(), before);
    const dry = await must('node', 'reset', 'n2', '--dry-run');
    assert.match(dry, /Consequences:[^]*all data of the cluster on the machine/);
  });

  await story.test('drain: after kill -9 the same command succeeds', async () => {
    await killAt(/Draining node n2/, 'node', 'drain', 'n2', '--force', '--delete-emptydir-data', '--yes');
    assert.match(await must('node', 'drain', 'n2', '--force', '--delete-emptydir-data', '--yes'), /n2/);
    await must('node', 'uncordon', 'n2');
  });

  await story.test(
    'set-role: after SIGHUP, and after Ctrl-C while the role is changed back, the same command succeeds',
    async () => {
      const promote = ['node', 'set-role', 'n2', '--control-plane', '--worker'];
      const closed = await terminalAt(/Waiting for n2 to change its roles/, ...promote);
      const gone = waitForExit(closed);
      closed.kill('SIGKILL'); // script(1) holds the terminal of the CLI, so its death hangs up this terminal.
      await gone;
      await must(...promote);
      const demote = ['node', 'set-role', 'n2', '--worker', ...FORCED];
      const left = await terminalAt(/Waiting for n2 to change its roles/, ...demote);
      const end = waitForExit(left);
      left.stdin?.write(CTRL_C);
      assert.equal((await end).code, EXIT_INTERRUPTED);
      await must(...demote);
    },
  );

  await story.test('reset: completes although its output is closed', async () => {
    assert.equal(await leaveAt(/Draining node n2/, 'node', 'reset', 'n2', ...FORCED), 0);
    assert.ok(!(await nodes()).includes('node/n2'));
    assert.match(await must('node', 'reset', 'n2', ...FORCED), /Node n2 is removed/);
  });

  await story.test(
    'reset: after kill -9 when the machine has received the reset order, the same command succeeds',
    async () => {
      await killAt(/Deleting the records of n3/, 'node', 'reset', 'n3', ...FORCED);
      assert.match(await must('node', 'reset', 'n3', ...FORCED), /Node n3 is removed/);
      assert.ok(!(await nodes()).includes('node/n3'));
    },
  );

  await story.test(
    'remove: after Ctrl-C during the deletion of the records, the same command succeeds',
    async () => {
      const left = await terminalAt(/Deleting the records of n4/, 'node', 'remove', 'n4', ...FORCED);
      const end = waitForExit(left);
      left.stdin?.write(CTRL_C);
      assert.equal((await end).code, EXIT_INTERRUPTED);
      assert.match(await must('node', 'remove', 'n4', ...FORCED), /is removed/);
      assert.deepEqual(await nodes(), ['node/n1']);
    },
  );
});
