import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { installCli, StoryCluster, withoutEndpoints, type JoinLine } from '../harness/story-cluster.ts';

const EXIT = { usage: 2, precondition: 5, unreachable: 6, unhealthy: 10, port: 24 } as const;

await test('automation joins a machine with one command', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'joincmd');
  await cluster.machines({ controlPlanes: 1, workers: 2 });
  for (const machine of ['n2', 'n3']) {
    await installCli(bench, cluster.name, machine);
    await withoutEndpoints(cluster, machine);
  }
  const joinOn = async (machine: string, ...flags: readonly string[]) => {
    const all = ['--output', 'json', '--events', 'stdout', 'join', ...flags];
    const { code, stdout, stderr } = await cluster.try(machine, 'cluster', ...all);
    const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
    return { code, stderr, lines: lines.map((line) => JSON.parse(line) as JoinLine) };
  };
  const join = (...flags: readonly string[]) => joinOn('n2', ...flags);

  await story.test(
    '`cluster join --wait` on a machine without a cluster times out with its own error code',
    async () => {
      const { code, lines, stderr } = await join('--wait', '--timeout', '3s');
      assert.equal(code, EXIT.unreachable, stderr);
      const said = JSON.stringify(lines) + stderr;
      assert.match(said, /join-stage-idle/);
      assert.match(said, /cluster-join-wait-timeout/);
    },
  );

  await story.test(
    'a duration without a unit is a usage error, and only root may call the agent',
    async () => {
      assert.equal((await join('--wait', '--timeout', '10')).code, EXIT.usage);
      const unprivileged = await cluster.try(
        'n2',
        'runuser',
        '-u',
        'nobody',
        '--',
        'cluster',
        'join',
        '--wait',
      );
      assert.equal(unprivileged.code, EXIT.precondition, unprivileged.stderr);
    },
  );

  const first = `${await cluster.address('n1')}:9090`;
  await story.test(
    '`cluster join --wait` waits for a cluster that is being created, shows each stage, and succeeds',
    async () => {
      const made = cluster.init();
      const dead = `${(await cluster.address('n1')).replace(/\d+$/, '99')}:9090`;
      const { code, lines, stderr } = await join(
        ...['--endpoint', dead, '--endpoint', first, '--wait', '--timeout', '10m'],
      );
      await made;
      assert.equal(code, 0, stderr);
      const said = JSON.stringify(lines);
      for (const stage of ['join-directed', 'join-stage-asking', 'join-stage-member', 'join-stage-running'])
        assert.ok(said.includes(stage), `${stage} is not in ${said}`);
      const last = lines.at(-1);
      assert.equal(last?.type, 'result');
      assert.deepEqual([last.data?.stage, last.data?.nodeName], ['running', 'n2']);
      await cluster.allReady(['n1', 'n2'], 60);
    },
  );

  await story.test('the same command again, with or without --wait, changes nothing', async () => {
    const key = await cluster.nodeKey('n2');
    const pid = await cluster.pidOf('n2', 'kubelet.service');
    for (const flags of [['--endpoint', first, '--wait'], ['--endpoint', first], []]) {
      const { code, lines, stderr } = await join(...flags);
      assert.equal(code, 0, stderr);
      assert.equal(lines.at(-1)?.data?.stage, 'running');
    }
    assert.equal(await cluster.nodeKey('n2'), key);
    assert.equal(await cluster.pidOf('n2', 'kubelet.service'), pid);
    assert.equal(await cluster.members(), 2);
  });

  await story.test(
    'after its agent was killed, the machine is the same member without another approval',
    async () => {
      const [key, members] = [await cluster.nodeKey('n2'), await cluster.members()];
      await cluster.run('n2', 'systemctl', 'kill', '--signal', 'KILL', 'bootstrapper');
      const { code, lines, stderr } = await join('--wait', '--timeout', '2m');
      assert.equal(code, 0, stderr);
      assert.deepEqual([lines.at(-1)?.data?.stage, lines.at(-1)?.data?.nodeName], ['running', 'n2']);
      assert.deepEqual([await cluster.nodeKey('n2'), await cluster.members()], [key, members]);
    },
  );

  await story.test(
    'a machine whose port is in use is refused with cause and fix, and joins once the port is free',
    async () => {
      await cluster.run(
        ...['n3', 'systemd-run', '--unit=in-the-way'],
        ...['systemd-socket-activate', '--listen=0.0.0.0:10250', 'cat'],
      );
      const startedMs = Date.now();
      const refused = await joinOn('n3', '--endpoint', first, '--wait', '--timeout', '10m');
      assert.equal(refused.code, EXIT.port, refused.stderr);
      assert.match(JSON.stringify(refused.lines) + refused.stderr, /preflight-port.*10250/);
      assert.ok(Date.now() - startedMs < 60_000, 'the command waited for what no repetition cures');

      const fingerprint = await cluster.fingerprint('n3');
      const { joins } = await cluster.cliJson<{ joins: readonly Record<string, unknown>[] }>(
        ...['node', 'ls', '--joins'],
      );
      const asked = joins.find((each) => each['fingerprint'] === fingerprint);
      assert.equal(asked?.['state'], 'refused');
      assert.match(JSON.stringify(asked), /join-machine-unfit.*preflight-port/);
      const workspace = await cluster.workspace();
      const explained = await bench.cli('--workspace', workspace, 'explain', fingerprint);
      assert.equal(explained.code, EXIT.unhealthy);
      assert.match(explained.stdout, /preflight-port[^]*10250/);

      await cluster.run('n3', 'systemctl', 'stop', 'in-the-way');
      const joined = await joinOn('n3', '--endpoint', first, '--wait', '--timeout', '5m');
      assert.equal(joined.code, 0, joined.stderr);
      await cluster.allReady(['n1', 'n2', 'n3'], 60);
    },
  );
});
