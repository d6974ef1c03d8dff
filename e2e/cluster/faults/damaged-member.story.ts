import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'differs';
const MACHINES = ['n1', 'n2', 'n3'];
/** Stands in the value of one key. Both have the same length. */
const PLANTED = 'the-value-that-a-disk-changes';
const CHANGED = 'the-value-that-a-disk-CHANGES';
const DATABASE = '/var/lib/cluster/etcd-state/data/member/snap/db';
/**
 * Changes the value in the database file of the etcd that runs: etcd reads the file through a memory map, so from then on it reads
 * what the disk has.
 */
const DAMAGE = `for at in $(grep -abo ${PLANTED} ${DATABASE} | cut -d: -f1); do printf ${CHANGED} | dd of=${DATABASE} bs=1 seek=$at conv=notrunc 2>/dev/null; done; grep -c ${CHANGED} ${DATABASE}`;
/** The first comparison is five minutes after the start of an agent, and the next one soon after the members have changed. */
const COMPARED_S = 420;

interface Finding {
  readonly code: string;
  readonly grade: string;
  readonly node?: string;
  readonly figure: string;
  readonly cause: string;
}

await test('a member of etcd whose disk has changed a value is found, is no backup, and is replaced', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3');
  const workspace = await cluster.workspace();
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  const content = async (): Promise<readonly Finding[]> => {
    const { stdout } = await cli('doctor', '--output', 'json');
    const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as {
      readonly data: { readonly findings: readonly Finding[] };
    };
    return last.data.findings.filter(({ code }) => code === 'doctor-etcd-content');
  };

  await story.test('doctor names an etcd member whose disk has changed a value', async (step) => {
    await cluster.etcdctl('n1', 'put', '/planted', PLANTED);
    const stored = (): Promise<string> => cluster.sh('n2', `grep -c ${PLANTED} ${DATABASE}`);
    await eventually('the value is in the database of n2', 30, stored, (count) => Number(count) > 0);
    assert.ok(Number(await cluster.sh('n2', DAMAGE)) > 0);
    // The comparison before the damage must not be the newest one for an hour.
    for (const machine of MACHINES) await cluster.sh(machine, 'systemctl restart bootstrapper');
    const found = await eventually('doctor names n2', COMPARED_S, content, (findings) =>
      findings.some(({ grade, node }) => grade === 'error' && node === 'n2'),
    );
    for (const { grade, cause, figure } of found) step.diagnostic(`${grade}: ${cause || figure}`);
    assert.deepEqual(
      found.filter(({ grade }) => grade === 'error').map(({ node, cause }) => [node, cause]),
      [['n2', 'the state etcd member of n2 has other content than n1 and n3']],
    );
  });

  await story.test('no good member is taken out meanwhile, and no backup has the changed value', async () => {
    for (const change of [
      ['node', 'remove', 'n3', '--yes'],
      ['node', 'reboot', 'n1', '--yes'],
      ['keys', 'rotate', '--yes'],
    ]) {
      const { code, stderr } = await cli(...change);
      assert.notEqual(code, 0, change.join(' '));
      assert.match(stderr, /n2 has other content than n1 and n3[^]*doctor-change-unsafe/);
    }
    const refused = await cli('backup', 'create', '--node', 'n2', '--to', join(bench.directory, 'n2.backup'));
    assert.match(refused.stderr, /doctor-backup-damaged/);
    await bench.must(
      '--workspace',
      workspace,
      'backup',
      'create',
      '--to',
      join(bench.directory, 'good.backup'),
    );
  });

  await story.test('the damaged member is taken out and joins again with the right content', async (step) => {
    const roles = ['--force', '--delete-emptydir-data', '--yes'];
    await bench.must('--workspace', workspace, 'node', 'set-role', 'n2', '--worker', ...roles);
    const gone = await cluster.try('n2', 'test', '-e', DATABASE);
    assert.notEqual(gone.code, 0, 'its data is deleted');
    await bench.must(
      ...['--workspace', workspace, 'node', 'set-role', 'n2', '--control-plane', '--worker', ...roles],
    );
    const stored = (): Promise<string> => cluster.sh('n2', `grep -c ${PLANTED} ${DATABASE}`);
    await eventually('the value is in the new database of n2', 60, stored, (count) => Number(count) > 0);
    assert.notEqual((await cluster.try('n2', 'grep', '-q', CHANGED, DATABASE)).code, 0);
    const found = await eventually('all members agree', COMPARED_S, content, (findings) =>
      findings.every(({ grade, figure }) => grade === 'good' && figure.startsWith('3 of 3 members agree')),
    );
    for (const { figure } of found) step.diagnostic(figure);
  });
});
