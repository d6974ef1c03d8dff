import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster, withLifetimes } from '../harness/story-cluster.ts';
import { eventually } from '../harness/node-shell.ts';
import { addMachine } from '../harness/add-machine.ts';

const NAME = 'absence';
/** Certificate lifetime: long enough to replace the control plane before the absent worker's certificate expires. */
const MINUTES = 7;
const MEMBERSHIP = '/var/lib/cluster/membership';
/** Files with which a machine finds its cluster: addresses of curators, relays and API servers. */
const KNOWLEDGE =
  'var/lib/cluster/membership var/lib/cluster/credentials etc/cluster-apilb etc/cluster-relay';
const PROVISIONING = '/etc/cluster/provisioning.json';
const RELAY_PORTS = [9093, 9094];

await test('a worker returns to its cluster although every control plane that it knew is gone', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 2 }, withLifetimes(MINUTES));
  await cluster.up();
  const [first, second] = [await cluster.address('n1'), await cluster.address('n2')];
  const local = await bench.cluster(NAME);
  const key = await cluster.nodeKey('n3');
  const uid = await cluster.sh('n1', 'kubectl get node n3 -o jsonpath={.metadata.uid}');
  let fourth = '';
  /** Expiry of the certificate that n3 had when its power was cut. */
  let endsMs = 0;

  /** Waits until the kubelet of n3 reports Ready to the new control plane, at or after this time. */
  const isBack = async (sinceMs: number): Promise<void> => {
    const condition = '{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}';
    await eventually(
      'n3 is Ready again',
      150,
      () => cluster.sh('n4', `kubectl get node n3 -o jsonpath='{.metadata.uid} ${condition}'`),
      (said) => {
        const [node, ready, saidAt = ''] = said.split(' ');
        return node === uid && ready === 'True' && Date.parse(saidAt) >= sinceMs;
      },
    );
    assert.equal(await cluster.nodeKey('n3'), key);
    // The curators that n3 knows are in its directory file or, before the first update, in its ticket.
    const known = await cluster.sh(
      'n3',
      `cd ${MEMBERSHIP}; cat directory.json 2>/dev/null || cat membership.json`,
    );
    assert.ok(known.includes(`"${fourth}"`) && !known.includes(`"${first}"`), known);
  };
  const switchOn = async (): Promise<number> => {
    const nowMs = Math.floor(Date.now() / 1000) * 1000; // Kubernetes' times are whole seconds
    await cluster.start('n3');
    return nowMs;
  };
  /** Restores the files that n3 had at its first power cut, so that it forgets later addresses. */
  const putBack = async (joinEndpoints: readonly string[]): Promise<void> => {
    const found = JSON.parse(await cluster.run('n3', 'cat', PROVISIONING)) as Record<string, unknown>;
    const base64 = Buffer.from(JSON.stringify({ ...found, joinEndpoints })).toString('base64');
    await cluster.sh(
      'n3',
      `systemctl stop bootstrapper; cd /; rm -rf ${KNOWLEDGE}; tar -xf /root/before.tar; echo ${base64} | base64 -d > ${PROVISIONING}; sync`,
    );
    await cluster.cutPower('n3');
  };

  await story.test(
    'workers store the addresses of all relays, and a relay listens on each worker',
    async () => {
      for (const machine of ['n2', 'n3'])
        await eventually(
          `${machine} has stored the addresses of both relays`,
          60,
          () => cluster.try(machine, 'cat', `${MEMBERSHIP}/relays.json`),
          ({ stdout }) => stdout.includes(second),
        );
      for (const machine of ['n2', 'n3'])
        await eventually(
          `the relay of ${machine} listens, behind its pods`,
          60,
          () => cluster.sh(machine, `ss -Hltn | awk '{print $4}'`),
          (listening) =>
            RELAY_PORTS.every((port) => listening.split('\n').some((place) => place.endsWith(`:${port}`))),
        );
      const user = await cluster.sh('n2', 'ps -o user= -p $(systemctl show -P MainPID cluster-relay)');
      assert.notEqual(user, 'root');
      const onFirst = await cluster.try('n1', 'systemctl', 'is-active', 'cluster-relay.service');
      assert.notEqual(onFirst.stdout.trim(), 'active');
    },
  );

  await story.test('one worker is off while another machine replaces the only control plane', async () => {
    await cluster.sh('n3', `cd /; tar -cf /root/before.tar ${KNOWLEDGE}; sync`);
    const pem = await cluster.run('n3', 'cat', '/var/lib/cluster/credentials/node.crt');
    endsMs = Date.parse(new X509Certificate(pem).validTo);
    await cluster.cutPower('n3');
    const identity = await addMachine(bench, local, {
      name: 'n4',
      like: 'n2',
      joinEndpoints: [`${first}:9090`],
    });
    fourth = await cluster.address('n4');
    await eventually(
      'an operator approves the new machine',
      120,
      () => cluster.cliJson('node', 'approve', identity, '--name', 'n4', '--roles', 'control-plane'),
      () => true,
    );
    const voters = async (from: string): Promise<number> =>
      (await cluster.etcdctl(from, 'member', 'list'))
        .split('\n')
        .filter((line) => /, started, .*, false$/.test(line)).length;
    await eventually(
      'two voters',
      240,
      () => voters('n1'),
      (count) => count === 2,
    );
    await eventually(
      'n4 says that its API server is ready',
      240,
      () =>
        cluster.cliJson<{ controlPlane: readonly { name: string; isReady: boolean }[] }>(
          'node',
          'show',
          'n4',
        ),
      ({ controlPlane }) => controlPlane.some(({ name, isReady }) => name === 'kube-apiserver' && isReady),
    );
    await cluster.cliJson('node', 'set-role', '--yes', 'n1', '--worker', '--force', '--delete-emptydir-data');
    await eventually(
      'one voter',
      120,
      () => voters('n4'),
      (count) => count === 1,
    );
    await cluster.cutPower('n1');
  });

  await story.test('the worker returns through the relay of the other worker', async () => {
    await cluster.sh('n2', 'systemctl stop cluster-relay');
    assert.ok(Date.now() < endsMs, 'the certificate of n3 is still valid');
    const sinceMs = await switchOn();
    await eventually(
      'n3 tries the relay of the other worker',
      90,
      () => cluster.log('n3'),
      (log) => log.includes(`${second}:${String(RELAY_PORTS[0])}`),
    );
    await cluster.sh('n2', 'systemctl start cluster-relay');
    await isBack(sinceMs);
    assert.doesNotMatch(await cluster.log('n3'), /expired while the node was off/);
  });

  await story.test(
    'the worker with an expired certificate renews it at the join service through the relay',
    async () => {
      await putBack([`${first}:9090`]);
      await eventually(
        'the certificate of n3 has expired',
        MINUTES * 60,
        () => Promise.resolve(Date.now()),
        (nowMs) => nowMs > endsMs + 1_000,
      );
      await isBack(await switchOn());
      assert.match(await cluster.log('n3'), /expired while the node was off/);
    },
  );

  await story.test('the worker uses the join endpoint of its provisioning when no relay runs', async () => {
    await putBack([`${first}:9090`, `${fourth}:9090`]);
    await cluster.sh('n2', 'systemctl stop cluster-relay');
    await isBack(await switchOn());
    const { stdout } = await cluster.try('n2', 'systemctl', 'is-active', 'cluster-relay.service');
    assert.notEqual(stdout.trim(), 'active');
  });
});
