import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { SystemClock } from '../../../internal/clock/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { verifyCuratorCertificate } from '../../../internal/pki/index.ts';
import { createClient, RpcChannel, tlsClientUpgrade } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { reportRefused } from '../../attack-report.ts';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { installCli, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'fulldb';
/**
 * Writes random values with etcdctl until etcd refuses the next write, because its quota of 1 GiB is used up. Prints
 * the error.
 */
const FILL = `while head -c 700000 /dev/urandom | base64 -w0 | ETCDCTL put /cluster/filled >/dev/null 2>/tmp/fill; do :; done; cat /tmp/fill`;

await test('a worker cannot fill etcd with its status; a full etcd is reported, and one command frees space', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  const workspace = await cluster.workspace();
  const cli = (...args: readonly string[]) => bench.cli('--workspace', workspace, ...args);
  await installCli(bench, NAME, 'n1');
  const revision = async (): Promise<number> => {
    const status = await cluster.etcdctl('n1', 'endpoint', 'status', '--write-out', 'json');
    const [{ Status }] = JSON.parse(status) as [{ Status: { header: { revision: number } } }];
    return Status.header.revision;
  };

  await story.test(
    'a worker can report neither the address of another node nor a large status',
    async (step) => {
      const { paths } = await (await bench.cluster(NAME)).node('n2');
      const read = (file: string) => readFile(join(paths.data, 'cluster', file), 'utf8');
      const certPem = await read('credentials/node.crt');
      const keyPem = new Secret(await read('machine/key.pem'));
      const state = JSON.parse(await readFile(join(workspace, 'state.json'), 'utf8')) as State;
      const { clusterId, clusterCaPem: caPem } = state.init.result;
      const trust = { caPem, clusterId, nowMs: () => Date.now() };
      const upgrade = tlsClientUpgrade({
        clock: new SystemClock(),
        identity: { certPem, keyPem },
        accept: (certificate) => verifyCuratorCertificate(certificate, trust),
      });
      using channel = new RpcChannel({ endpoint: `${await cluster.address('n1')}:9091`, upgrade });
      const curator = createClient(Curator, channel);
      const report = async (status: object): Promise<string> => {
        try {
          await curator.updateNodeStatus({ status }, { signal: bench.signal });
          return 'stored';
        } catch (error) {
          return findCoded(error)?.code ?? String(error);
        }
      };
      const refusedStatus = async (attempted: string, status: object): Promise<void> => {
        assert.equal(await report(status), 'curator-request-invalid');
        reportRefused(step, attempted, 'the curator', 'curator-request-invalid');
      };
      await refusedStatus('report the address of another node', { address: await cluster.address('n1') });
      await refusedStatus('report a status of 100 kB', { agentVersion: 'x'.repeat(100_000) });
      const before = await revision();
      const answers = new Map<string, number>();
      for (let i = 0; i < 500; i++) {
        const path = `${i} ${'x'.repeat(200)}`;
        const answer = await report({ runnables: Array.from({ length: 250 }, () => ({ path })) });
        answers.set(answer, (answers.get(answer) ?? 0) + 1);
      }
      step.diagnostic(JSON.stringify([...answers]));
      assert.ok((answers.get('stored') ?? 0) < 25);
      assert.ok((answers.get('curator-status-too-often') ?? 0) > 400);
      assert.ok((await revision()) - before < 100);
      reportRefused(step, 'report 500 statuses at once', 'the curator', 'curator-status-too-often');
    },
  );

  await story.test('cluster status lists the full database as its first problem', async (step) => {
    const etcdctl = 'etcdctl --endpoints https://127.0.0.1:2382';
    const users = '/var/lib/cluster/consensus/state/users/root';
    const identity = `--cacert ${users}/ca.crt --cert ${users}/client.crt --key ${users}/client.key`;
    const said = await cluster.sh('n1', FILL.replace('ETCDCTL', `/opt/cluster/bin/${etcdctl} ${identity}`));
    assert.match(said, /database space exceeded/);
    const { stdout } = await eventually(
      'cluster status reports the full etcd',
      60,
      () => cli('status'),
      (answer) => /state etcd is full/.test(answer.stdout),
    );
    step.diagnostic(stdout);
    const problems = stdout.slice(stdout.indexOf('state etcd is full'));
    assert.match(problems, /cluster recover space/);
    assert.equal(
      (await cli('node', 'label', 'n2', 'story=full')).code === 0,
      false,
      'nothing can be changed',
    );
  });

  await story.test(
    'cluster recover space frees space in the database, also after a run that was killed',
    async (step) => {
      await cluster.try('n1', 'timeout', '-s', 'KILL', '1', 'cluster', 'recover', 'space');
      step.diagnostic(await cluster.run('n1', 'cluster', 'recover', 'space'));
      step.diagnostic(await cluster.run('n1', 'cluster', 'recover', 'space'));
      const { stdout } = await cli('status');
      assert.doesNotMatch(stdout, /etcd is full/);
      await bench.must('--workspace', workspace, 'node', 'label', 'n2', 'story=freed');
      await cluster.allReady(['n1', 'n2'], 120);
    },
  );
});

interface State {
  readonly init: { readonly result: { readonly clusterId: string; readonly clusterCaPem: string } };
}
