import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { requireApproval, StoryCluster, withoutEndpoints } from '../harness/story-cluster.ts';
import { WatchedMachine } from '../init/watched-machine.ts';
import { eventually } from '../harness/node-shell.ts';
import { OutputLines, recordWrites } from '../harness/record-writes.ts';

const NAME = 'killservice';
const AS = ['--name', 'n2', '--roles', 'control-plane,worker'] as const;
const SIGNER_LOG = 'journalctl --follow --lines 0 --output cat --unit cluster-signer'.split(' ');
/** The moment after the signer has issued the certificates and before the join service sends them. */
const SIGNATURE = 'signature';
/**
 * The etcd transactions of every join of a control plane, as `recordWrites` names them. The story also kills the join service
 * after every other write.
 */
const EXPECTED = [
  /^audit RequestAdmission waiting.*joins pending/,
  /^audit DecideJoin approved.*joins approved/,
  /^audit IssueJoinTicket joined.*identities, joins joined.*node-names, nodes\/record UP/,
  /^slots\/control-plane\/queue/,
  /^slots\/control-plane\/intent/,
  /^signature$/,
];

await test('kill -9 of the join service after each write of a join: the machine joins once', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 0 }, requireApproval);
  await withoutEndpoints(cluster, 'n2'); // The machine must not ask to join before the story watches all writes.
  await cluster.init();
  const [first, machine] = await Promise.all(
    ['n1', 'n2'].map((name) => WatchedMachine.joining(bench, NAME, name)),
  );
  assert.ok(first !== undefined && machine !== undefined);

  /** The writes after which the story killed the join service, in order. */
  const killedAt = new Set<string>();
  let killing = Promise.resolve();
  const errors: unknown[] = [];
  const killAt = (what: string): void => {
    if (killedAt.has(what)) return;
    killedAt.add(what);
    const both = async (): Promise<void> => {
      await first.kill('joinservice');
      if (what === SIGNATURE) await first.kill('signer');
    };
    killing = killing.then(both).catch((error: unknown) => void errors.push(error));
  };
  using _writes = recordWrites(bench, NAME, killAt);
  using _signatures = new OutputLines(
    bench.startCli('mini', 'exec', '--name', NAME, 'n1', '--', ...SIGNER_LOG),
    (line) => {
      if (line.includes('signed for a node')) killAt(SIGNATURE);
    },
  );

  await story.test(
    'the join completes although the join service is killed after each write of the request, approval, ticket and etcd slot',
    async (step) => {
      const [joiner, endpoint] = [`${machine.address}:9000`, `${first.address}:9090`];
      await cluster.cliJson('join', '--node', joiner, '--endpoint', endpoint);
      await eventually(
        'an operator approves the machine',
        180,
        () => bench.cli('--workspace', machine.workspace, 'node', 'approve', machine.fingerprint, ...AS),
        ({ code }) => code === 0,
      );
      await cluster.allReady(['n1', 'n2'], 420);
      await killing;
      for (const write of killedAt) step.diagnostic(write);
      assert.deepEqual(errors, []);
      for (const expected of EXPECTED)
        assert.ok(
          [...killedAt].some((write) => expected.test(write)),
          `${expected}`,
        );
    },
  );

  await story.test(
    'the machine is one member and one voter, was admitted once, and every service runs',
    async () => {
      await eventually(
        'two voters',
        120,
        async () => (await cluster.etcdctl('n1', 'member', 'list')).split('\n'),
        (lines) => lines.length === 2 && lines.every((line) => /, started, .*, false$/.test(line)),
      );
      assert.equal(await cluster.members(), 2);
      const entries = await cluster.audit();
      assert.equal(entries.filter(({ detail }) => detail.verdict === 'joined').length, 1);
      for (const node of ['n1', 'n2'])
        for (const unit of [
          'cluster-joinservice',
          'cluster-signer',
          'cluster-etcd-state',
          'cluster-etcd-kubernetes',
        ])
          assert.equal(await cluster.run(node, 'systemctl', 'is-active', unit), 'active');
      await bench.must('--workspace', machine.workspace, 'audit', 'verify');
      await eventually(
        'the cluster is healthy',
        90,
        () => cluster.cliJson<{ healthy: boolean }>('status'),
        ({ healthy }) => healthy,
      );
      await cluster.expectNoInternet(['n1', 'n2']);
    },
  );
});
