import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'verify';
const EXIT_REFUSED = 4;
const FIXTURES = join(import.meta.dirname, '../../../internal/attestation');
/** A real certificate of a processor, and real documents of Intel that expired long ago. */
const VCEK = join(FIXTURES, 'snp/fixtures/milan.vcek');
const OUT_OF_DATE = join(FIXTURES, 'tdx/fixtures/v4.collateral');

interface Report {
  readonly verdict: string;
  readonly identity: string;
  readonly proof: string;
  readonly code?: string;
  readonly checks: readonly { readonly name: string; readonly outcome: string; readonly actual?: string }[];
  readonly registers: readonly { readonly name: string; readonly actual: string; readonly verdict: string }[];
  readonly warnings: readonly string[];
}

await test('an operator verifies nodes with fresh evidence, and uploads collateral', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const { workspace } = (await bench.cluster(NAME)).paths;
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  const must = (...args: readonly string[]) => bench.must('--workspace', workspace, ...args);
  const verify = async (node: string): Promise<Report & { readonly exit: number }> => {
    const { code, stdout, stderr } = await cli('verify', node, '--output', 'json');
    assert.notEqual(stdout, '', stderr);
    return { ...dataOf<Report>(stdout), exit: code };
  };
  const countOf = ({ checks }: Report): bigint =>
    BigInt(checks.find(({ name }) => name === 'lock-counter')?.actual ?? '0');

  await story.test('the first machine and a joined one are verified, as a table and as JSON', async () => {
    const table = await must('verify', 'n1');
    assert.match(table, /pcr15/);
    for (const node of ['n1', 'n2']) {
      const report = await verify(node);
      assert.equal(report.exit, 0);
      assert.equal(report.verdict, 'verified');
      assert.match(report.identity, /^tpm-ek:[0-9a-f]{64}$/);
      assert.match(report.proof, /^(endorsed|pinned)$/);
      assert.match(report.warnings.join(' '), /No firmware measured this boot/);
    }
  });

  await story.test(
    'each machine proves that its node lock is for this cluster, and reports how often a lock was taken',
    async () => {
      for (const node of ['n1', 'n2']) {
        const report = await verify(node);
        const lock = report.registers.find(({ name }) => name === 'pcr15');
        assert.equal(lock?.verdict, 'as expected');
        assert.notEqual(lock.actual, '00'.repeat(32));
        assert.ok(countOf(report) > 1n, JSON.stringify(report.checks));
      }
    },
  );

  await story.test(
    'a machine with another PCR value than the policy expects is refused with exit code 4',
    async () => {
      const path = join(workspace, 'cluster.yaml');
      const before = await readFile(path, 'utf8');
      const config = parse(before) as { attestation: { policy: Record<string, unknown> } };
      config.attestation.policy['registers'] = { 4: { expected: 'ee'.repeat(32) } };
      await writeFile(path, stringify(config));
      const report = await verify('n1');
      assert.equal(report.exit, EXIT_REFUSED);
      assert.equal(report.verdict, 'refused');
      assert.equal(report.code, 'attestation-register-mismatch');
      assert.equal(report.registers.find(({ name }) => name === 'pcr4')?.verdict, 'differs');
      await writeFile(path, before);
      assert.equal((await verify('n1')).exit, 0);
    },
  );

  await story.test(
    'a node record that was changed to the identity of another machine is reported and refused',
    async () => {
      const shell = new StoryCluster(bench, NAME);
      const get = async (key: string) => shell.etcdctl('n1', 'get', '--print-value-only', key);
      const keys = (await shell.etcdctl('n1', 'get', '--prefix', '--keys-only', '/cluster/nodes/')).split(
        '\n',
      );
      const nodes = await Promise.all(
        keys
          .filter((key) => key.endsWith('/record'))
          .map(async (key) => ({ key, record: JSON.parse(await get(key)) as StoredNode })),
      );
      const [first, second] = ['n1', 'n2'].map((name) => nodes.find(({ record }) => record.name === name));
      assert.ok(first !== undefined && second !== undefined);
      const forged = { ...second.record, admission: first.record.admission };
      await shell.etcdctl('n1', 'put', second.key, JSON.stringify(forged));
      const report = await verify('n2');
      assert.equal(report.exit, EXIT_REFUSED);
      assert.equal(report.code, 'nodes-machine-changed');
      await shell.etcdctl('n1', 'put', second.key, JSON.stringify(second.record));
      assert.equal((await verify('n2')).exit, 0);
    },
  );

  await story.test('uploaded collateral is shown, and a refused upload changes nothing', async () => {
    const show = async () =>
      dataOf<Collateral>(await must('attest', 'collateral', 'show', '--output', 'json'));
    assert.deepEqual((await show()).documents, []);
    const nothing = await cli('attest', 'collateral', 'upload');
    assert.match(nothing.stderr, /attest-collateral-missing/);
    const keep = (file: string) =>
      cli('attest', 'collateral', file, '--out', join(workspace, 'collateral', 'bundle.json'));
    await mkdir(join(workspace, 'collateral'), { recursive: true });
    await keep(VCEK);
    assert.match(await must('attest', 'collateral', 'upload'), /1 documents/);
    const shown = await show();
    assert.equal(shown.documents.length, 1);
    assert.equal(shown.updatedBy, 'operator:owner');
    await keep(OUT_OF_DATE);
    const refused = await cli('attest', 'collateral', 'upload');
    assert.equal(refused.code, EXIT_REFUSED);
    assert.match(refused.stderr, /operatorapi-collateral-refused/);
    assert.deepEqual(await show(), shown);
    assert.match(await must('audit', 'ls'), /PutCollateral/);
  });

  await story.test(
    'every member stores uploaded collateral, and never replaces it with a file on its disk',
    async () => {
      const cluster = await bench.cluster(NAME);
      for (const name of ['n1', 'n2']) {
        const node = await cluster.node(name);
        const run = async (...argv: readonly [string, ...string[]]) =>
          (await node.exec(argv, { signal: bench.signal, timeoutMs: 120_000 })).stdout;
        // An agent fetches collateral at its start, and otherwise every quarter of an hour.
        await run('systemctl', 'restart', 'bootstrapper');
        const kept = async () => run('sh', '-c', 'cat /var/lib/cluster/collateral/collateral.json || true');
        while ((await kept()) === '') await run('sleep', '1');
        const { bundle } = (JSON.parse(await kept()) as { value: { bundle: string } }).value;
        assert.equal((JSON.parse(bundle) as { items: unknown[] }).items.length, 1);
        assert.equal(
          await run('stat', '-c', '%a %U', '/var/lib/cluster/collateral/collateral.json'),
          '600 root\n',
        );
        // The agent ignores a collateral file that was put next to the provisioning file after the install.
        await run('sh', '-c', 'echo hello > /etc/cluster/collateral.json && systemctl restart bootstrapper');
        assert.match(await run('cat', '/var/lib/cluster/collateral/collateral.json'), /"bundle"/);
        await run('rm', '/etc/cluster/collateral.json');
      }
      assert.equal((await verify('n2')).exit, 0);
    },
  );
});

interface StoredNode {
  readonly name: string;
  readonly admission: unknown;
}

interface Collateral {
  readonly documents: readonly unknown[];
  readonly updatedBy?: string;
}

/** The data of the result in the output of `--output json`, which has one record per line. */
function dataOf<T>(stdout: string): T {
  const records = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { readonly type: string; readonly data?: T });
  const data = records.find(({ type }) => type === 'result')?.data;
  assert.ok(data !== undefined, stdout);
  return data;
}
