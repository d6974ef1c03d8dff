import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness, type CliResult } from '../../machines/harness.ts';
import { requireApproval, StoryCluster } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { waitForExit } from '../harness/program-output.ts';

const NAME = 'policy';
const DOCUMENT = '/cluster/configuration/current';

interface Shown {
  readonly revision: string | number;
  readonly updatedBy: string;
  readonly configuration: {
    readonly join: { readonly policy: string; readonly inventory: readonly unknown[] };
    readonly certificates: { readonly nodeMinutes: number };
  };
}

interface Explained {
  readonly join?: { readonly state: string; readonly code: string; readonly identity: string };
  readonly facts: readonly { readonly side: string; readonly name: string; readonly expected: string }[];
}

await test('a configuration change is active at once, or refused', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 1 }, requireApproval);
  await cluster.init();
  const workspace = await cluster.workspace();
  const file = join(workspace, 'cluster.yaml');
  const runCli = (...args: readonly string[]): Promise<CliResult> =>
    bench.cli('--workspace', workspace, ...args);
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const show = () => cluster.cliJson<Shown>('config', 'show');

  /** `cluster config edit` with an editor that replaces one text with another. */
  const editor = join(bench.directory, 'editor');
  await writeFile(editor, '#!/bin/sh\nexec sed -i "$EDIT" "$1"\n');
  await chmod(editor, 0o755);
  const edit = (replace: string): Promise<CliResult> =>
    waitForExit(
      bench.startCliAtTerminalIn(
        { EDITOR: editor, EDIT: replace },
        '--workspace',
        workspace,
        'config',
        'edit',
      ),
    );
  const explain = async (): Promise<Explained> => {
    const fingerprint = await cluster.fingerprint('n2');
    const { stdout } = await runCli('explain', fingerprint, '--output', 'json');
    const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as { readonly data: Explained };
    return last.data;
  };
  /** Waits until the cluster refuses n2 with this code, by this revision of its configuration. */
  const judged = (code: string, revision: string | number, withinSeconds: number) =>
    eventually(
      `n2: ${code} by configuration-${revision}`,
      withinSeconds,
      explain,
      ({ join: request, facts }) =>
        request?.code === code &&
        facts.some(
          ({ name, expected }) => name === 'policy' && expected.includes(`(configuration-${revision})`),
        ),
    );

  await story.test(
    'the configuration of the init is shown with its revision, equal to the file',
    async () => {
      const { revision, configuration } = await show();
      assert.equal(configuration.join.policy, 'approve');
      assert.match(await must('config', 'apply'), new RegExp(`No changes: revision ${revision} `));
      await judged('join-awaiting-approval', revision, 180);
    },
  );

  await story.test('an edit is active at once: the join service refuses a waiting machine', async () => {
    const { code, stderr, stdout } = await edit('s/policy: approve/policy: inventory/');
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout + stderr, /Applied as revision[^]*join\.policy/);
    const { revision, updatedBy, configuration } = await show();
    assert.equal(configuration.join.policy, 'inventory');
    assert.match(updatedBy, /^operator:/);
    await judged('join-unknown-machine', revision, 30);
  });

  await story.test(
    'an invalid configuration is refused with line and column, and nothing changes',
    async () => {
      const before = await show();
      const good = await readFile(file, 'utf8');
      const bad = [
        ['policy: approve', 'policy: everybody', 'config-invalid'],
        [`name: ${NAME}`, 'name: another', 'configuration-immutable'],
      ] as const;
      for (const [from, to, code] of bad) {
        const path = join(bench.directory, 'bad.yaml');
        assert.ok(good.includes(from), `${from} is in ${good}`);
        await writeFile(path, good.replace(from, to));
        const said = await runCli('config', 'apply', '--file', path);
        assert.notEqual(said.code, 0);
        assert.match(said.stderr, new RegExp(code));
        assert.match(said.stderr, /bad\.yaml:\d+:\d+/);
      }
      assert.deepEqual(await show(), before);
    },
  );

  await story.test(
    'the join service logs the revision of an unreadable configuration and keeps the previous one',
    async () => {
      const { revision } = await show();
      const stored = await cluster.etcdctl('n1', 'get', DOCUMENT, '--print-value-only');
      const broken = { ...(JSON.parse(stored) as object), document: btoa('join: [') };
      const put = (value: string) => cluster.etcdctl('n1', 'put', DOCUMENT, value);
      await put(JSON.stringify(broken));
      await eventually(
        'the join service says so',
        30,
        () => cluster.run('n1', 'journalctl', '-u', 'cluster-joinservice', '-o', 'cat', '--no-pager'),
        (log) =>
          log
            .split('\n')
            .some(
              (line) =>
                line.includes('configuration invalid, keeping the previous one') &&
                line.includes(`configuration-${revision}`),
            ),
      );
      await cluster.run('n2', 'systemctl', 'restart', 'bootstrapper');
      await judged('join-unknown-machine', revision, 60);
      assert.equal(await cluster.members(), 1);
      await put(stored);
    },
  );

  await story.test(
    'concurrent edits of different settings are merged, and a newly listed machine is admitted',
    async () => {
      const { code, stderr } = await edit('s/nodeMinutes: .*/nodeMinutes: 4320/');
      assert.equal(code, 0, stderr);
      const { identity = '' } = (await explain()).join ?? {};
      const list = `join:\n  policy: inventory\n  inventory:\n    - { identity: '${identity}', name: n2, roles: [worker] }\n`;
      await cluster.edit((yaml) => yaml.replace(/^join:\n(?: .*\n)*/m, list));
      const said = await must('config', 'apply', '--yes');
      assert.match(said, /Applied as revision/);
      const { revision, configuration } = await show();
      assert.equal(configuration.certificates.nodeMinutes, 4320);
      assert.equal(configuration.join.inventory.length, 1);
      await cluster.allReady(['n1', 'n2'], 180);
      const entries = await cluster.audit();
      const joined = entries.filter(({ detail }) => detail.verdict === 'joined');
      assert.deepEqual(
        joined.map(({ detail }) => detail.by),
        [`policy:configuration-${revision}`],
      );
    },
  );

  await story.test(
    'concurrent edits of the same setting conflict: the second editor gets the name of the setting, and the first edit stays',
    async () => {
      const { code, stderr } = await edit('s/policy: inventory/policy: auto/');
      assert.equal(code, 0, stderr);
      await cluster.edit((yaml) => yaml.replace('policy: inventory', 'policy: approve'));
      const said = await runCli('config', 'apply');
      assert.notEqual(said.code, 0);
      assert.match(said.stderr, /configuration-conflict/);
      assert.match(said.stderr, /cluster\.yaml:\d+:\d+: join\.policy/);
      assert.equal((await show()).configuration.join.policy, 'auto');
    },
  );

  await story.test(
    'the exported audit log can be verified without the cluster, and a changed one is refused',
    async () => {
      const file = join(bench.directory, 'audit.export');
      assert.match(await must('audit', 'export', file), /Wrote \d+ entries/);
      const entries = await cluster.audit();
      // A network namespace without interfaces: only the exported file and the workspace's checkpoints are available.
      const offline = async (path: string): Promise<CliResult> =>
        waitForExit(bench.startCliOffline('--workspace', workspace, 'audit', 'verify', path));
      const whole = await offline(file);
      assert.equal(whole.code, 0, whole.stderr);
      assert.match(whole.stdout, /audit log verified: \d+ entries up to \d+, [1-9]\d* checkpoint/);
      const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
      assert.ok(lines.length > 3 && lines.length <= entries.length, `${lines.length} of ${entries.length}`);
      const altered = Buffer.from(lines[1] ?? '', 'base64')
        .toString('utf8')
        .replace(/"method":"./, '"method":"X');
      const bad = [
        ['left out', [lines[0], ...lines.slice(2)]],
        ['altered', [lines[0], Buffer.from(altered).toString('base64'), ...lines.slice(2)]],
        ['in another order', [lines[1], lines[0], ...lines.slice(2)]],
      ] as const;
      for (const [name, those] of bad) {
        const path = join(bench.directory, 'bad.export');
        await writeFile(path, `${those.join('\n')}\n`);
        const said = await offline(path);
        assert.notEqual(said.code, 0, name);
        assert.match(said.stderr, /audit-chain-broken|audit-log-altered/, name);
      }
    },
  );
});
