import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually, NodeShell } from '../harness/node-shell.ts';

const NAME = 'power';

await test('operators restart machines and switch them off', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const [first, second] = [new NodeShell(bench, NAME), new NodeShell(bench, NAME, 'n2')];
  const { workspace } = (await bench.cluster(NAME)).paths;
  const must = (...args: readonly string[]): Promise<string> => bench.must('--workspace', workspace, ...args);
  // The machines share the kernel of the host, so the uptime does not show a restart. The start time of process 1
  // does.
  const startOf = async (node: NodeShell): Promise<string> =>
    (await node.run('sh', '-c', 'stat -c %Y /proc/1')).trim();
  const bootOf = async (node: string): Promise<string> =>
    /^ +boot +(\S+)$/m.exec(await must('node', 'show', node))?.[1] ?? '';

  // A local machine that reboots stays off, because nothing starts its container again. So the story starts it.
  const reboot = async (node: string, ...flags: readonly string[]): Promise<void> => {
    const ended = must('node', 'reboot', node, ...flags);
    ended.catch(() => undefined); // awaited below
    await untilOff(node);
    await bench.must('mini', 'start', node, '--name', NAME);
    await ended;
  };
  const untilOff = (node: string): Promise<unknown> =>
    eventually(
      `${node} is off`,
      120,
      () => bench.must('mini', 'ls'),
      (table) => new RegExp(`^${NAME} +${node} +Stopped`, 'm').test(table),
    );

  await story.test('a worker is drained, restarted and uncordoned', async () => {
    const [before, boot] = [await startOf(second), await bootOf('n2')];
    await reboot('n2', '--force', '--delete-emptydir-data');
    assert.notEqual(await startOf(second), before);
    assert.notEqual(await bootOf('n2'), boot);
    const node = await first.kubectl('get', 'node', 'n2', '-o', 'jsonpath={.spec.unschedulable}');
    assert.equal(node, '');
    await eventually(
      'the kubelet of n2 is ready',
      120,
      () => must('node', 'ls'),
      (table) => /^n2 +Healthy +Ready /m.test(table),
    );
  });

  await story.test('the only control plane is restarted after the operator has confirmed it', async () => {
    const before = await startOf(first);
    const refused = await bench.cli('--workspace', workspace, 'node', 'reboot', 'n1', '--no-drain');
    assert.match(refused.stderr, /etcd has no quorum.* until it is back/);
    assert.notEqual(refused.code, 0);
    await reboot('n1', '--no-drain', '--yes');
    assert.notEqual(await startOf(first), before);
  });

  await story.test('a worker is switched off, and returns when it is started', async () => {
    await must('node', 'shutdown', 'n2', '--yes', '--force', '--delete-emptydir-data');
    await untilOff('n2');
    await bench.must('mini', 'start', 'n2', '--name', NAME);
    await must('node', 'uncordon', 'n2');
    await eventually(
      'n2 is back',
      180,
      () => must('node', 'ls'),
      (table) => /^n2 +Healthy +Ready /m.test(table),
    );
  });
});
