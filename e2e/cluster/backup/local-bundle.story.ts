import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { installCli, StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'local';
const EXIT_UNHEALTHY = 10;
const PLANTED = 'planted-4711-secret';
/** Lines as the kubelet, containerd and programs in pods write them. */
const PLANTED_LINES = [
  `E1124 10:00:00.1 7 a.go:1] "failed" err="{\\"password\\":\\"${PLANTED}\\"}"`,
  `spec {"name":"DB_PASSWORD","value":"${PLANTED}"} {Name:DB_PASSWORD Value:${PLANTED} ValueFrom:nil}`,
  `<password>${PLANTED}</password> pwd=${PLANTED} sharedKey=${PLANTED} secret_id=${PLANTED}`,
  `curl -u app:${PLANTED} https://${PLANTED}@example.invalid with password ${PLANTED}`,
  `password:\n  ${PLANTED}\nlast line\n`,
];

interface Finding {
  readonly code: string;
  readonly grade: string;
  readonly cause: string;
  readonly followsFrom?: string;
}
interface Opened {
  readonly clusterName: string;
  readonly missing: readonly { readonly path: string; readonly error: string }[];
  readonly problems: readonly Finding[];
}

/** The bundle of a machine, opened at the workstation. */
interface LocalBundle extends Opened {
  readonly exit: number;
  readonly texts: ReadonlyMap<string, string>;
  readonly tookMs: number;
}

await test('a support bundle is made on a machine whose agent, etcd or network is down, and names the cause', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  await cluster.allReady(['n1', 'n2'], 60);
  for (const machine of ['n1', 'n2']) await installCli(bench, NAME, machine);
  const workspace = await cluster.workspace();
  const { recipient } = await cluster.cliJson<{ readonly recipient: string }>('support', 'recipient');
  await cluster.sh(
    'n1',
    `directory=/var/log/pods/kube-system_planted_0123abcd/planted && mkdir -p $directory
     echo "DB_PASSWORD=${PLANTED} started" > $directory/0.log
     echo ${Buffer.from(PLANTED_LINES.join('\n')).toString('base64')} | base64 -d >> $directory/0.log`,
  );
  const key = await cluster.sh('n1', "sed -n '2p' /etc/kubernetes/pki/ca.key");
  assert.ok(key.length > 40, key);
  let bundles = 0;
  const bundleOf = async (machine: string): Promise<LocalBundle> => {
    const path = `/run/${++bundles}.support`;
    const startMs = Date.now();
    const made = await cluster.sh(
      machine,
      `cluster support bundle --local --to ${path} --recipient ${recipient} --lines 500 && stat -c %a ${path}`,
    );
    const tookMs = Date.now() - startMs;
    assert.match(made, /\n600$/);
    const file = join(workspace, `${bundles}.support`);
    await writeFile(file, Buffer.from(await cluster.run(machine, 'base64', path), 'base64'));
    const directory = join(workspace, `opened-${bundles}`);
    const { code: exit, stdout } = await bench.cli(
      ...['--workspace', workspace, '--output', 'json', 'support', 'open', file, '--to', directory],
    );
    const last = stdout.trim().split('\n').at(-1) ?? '';
    const { data: opened } = JSON.parse(last) as { readonly data: Opened };
    return { ...opened, exit, tookMs, texts: await textsBelow(directory) };
  };
  const errorsOf = ({ problems }: LocalBundle) => problems.filter(({ grade }) => grade === 'error');

  await story.test('a bundle of a machine without a fault has logs, states and no secret', async (step) => {
    const bundle = await bundleOf('n1');
    step.diagnostic(
      `${bundle.texts.size} files in ${bundle.tookMs} ms; missing: ${JSON.stringify(bundle.missing)}`,
    );
    step.diagnostic(`problems: ${bundle.problems.map(({ code, cause }) => `${code}: ${cause}`).join('; ')}`);
    assert.equal(bundle.clusterName, NAME);
    assert.deepEqual(errorsOf(bundle), []);
    for (const path of [
      ...['bootstrapper.log', 'kubelet.log', 'cluster-etcd-state.log', 'metrics.txt', 'etcd-state.json'],
      ...['enrolment.json', 'quorum.json', 'preflight.json', 'membership.json'],
    ])
      assert.ok((bundle.texts.get(`nodes/n1/${path}`)?.length ?? 0) > 100, path);
    assert.match(bundle.texts.get('kubernetes/nodes.json') ?? '', /"n2"/);
    assert.match(bundle.texts.get('nodes/n1/pods/kube-apiserver-n1/kube-apiserver.log') ?? '', /\w/);
    for (const [path, text] of bundle.texts)
      for (const secret of [PLANTED, key, 'PRIVATE KEY'])
        assert.equal(text.includes(secret), false, `${path}: ${secret}`);
    // The redactor may remove the next word too: a secret may contain spaces.
    const planted = bundle.texts.get('nodes/n1/pods/planted/planted.log') ?? '';
    assert.match(planted, /^DB_PASSWORD=<removed> /);
    assert.match(planted, /\nlast line\n/);
  });

  await story.test('a stopped agent', async (step) => {
    await cluster.sh('n1', 'systemctl stop bootstrapper.service');
    const bundle = await bundleOf('n1');
    step.diagnostic(`missing: ${JSON.stringify(bundle.missing)}`);
    assert.equal(bundle.exit, EXIT_UNHEALTHY);
    assert.deepEqual(
      errorsOf(bundle).map(({ code, cause }) => [code, cause.split(' ')[0]]),
      [['doctor-machine-units', 'bootstrapper.service']],
    );
    assert.ok(bundle.missing.some(({ path }) => path === 'nodes/n1/enrolment.json'));
  });

  await story.test(
    'stopped etcd members, while the agent and so the API server are down too',
    async (step) => {
      await cluster.sh('n1', 'systemctl stop cluster-etcd-state.service cluster-etcd-kubernetes.service');
      const bundle = await bundleOf('n1');
      step.diagnostic(`missing: ${JSON.stringify(bundle.missing)}`);
      assert.equal(bundle.exit, EXIT_UNHEALTHY);
      const errors = errorsOf(bundle);
      assert.deepEqual(
        errors.filter(({ followsFrom }) => followsFrom === undefined).map(({ cause }) => cause.split(' ')[0]),
        ['bootstrapper.service', 'cluster-etcd-state.service', 'cluster-etcd-kubernetes.service'],
      );
      const effects = errors.filter(({ followsFrom }) => followsFrom === 'doctor-machine-units');
      assert.ok(
        effects.some(({ code }) => code === 'doctor-etcd-member'),
        JSON.stringify(errors),
      );
      assert.match(bundle.texts.get('nodes/n1/cluster-etcd-state.log') ?? '', /etcd/);
      const refused = await bench.cli(
        '--workspace',
        workspace,
        'support',
        'bundle',
        '--to',
        join(workspace, 'x'),
      );
      assert.match(refused.stdout + refused.stderr, /`cluster support bundle --local`/);
      await cluster.sh('n1', 'systemctl start bootstrapper.service');
      await cluster.allReady(['n1', 'n2'], 120);
    },
  );

  await story.test('a machine that is cut from the network', async (step) => {
    const address = await cluster.address('n2');
    const device = await cluster.sh('n2', `ip -o address | awk '/inet ${address}/ { print $2 }'`);
    await cluster.sh('n2', `ip link set dev ${device} down`);
    const bundle = await bundleOf('n2');
    step.diagnostic(`problems: ${bundle.problems.map(({ code, cause }) => `${code}: ${cause}`).join('; ')}`);
    assert.equal(bundle.exit, EXIT_UNHEALTHY);
    const [first, ...others] = errorsOf(bundle).filter(({ followsFrom }) => followsFrom === undefined);
    assert.equal(first?.code, 'doctor-machine-network');
    assert.match(first?.cause ?? '', /is on no interface that is up/);
    // Without its interface the machine does not meet the requirement of an address either.
    assert.ok(others.every(({ code }) => /^doctor-machine-(network|requirements)$/.test(code)));
    assert.match(bundle.texts.get('network/addresses.txt') ?? '', new RegExp(`${device}.*state DOWN`));
    await cluster.sh('n2', `ip link set dev ${device} up`);
  });
});

async function textsBelow(directory: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for (const name of await readdir(directory, { recursive: true })) {
    const path = join(directory, name);
    if ((await stat(path)).isFile()) texts.set(name, await readFile(path, 'utf8'));
  }
  return texts;
}
