import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Harness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { requireApproval, type StoryCluster } from '../harness/story-cluster.ts';
import type { MetadataMock } from './metadata-service.ts';

const LABELS = `jsonpath={.metadata.labels.topology\\.kubernetes\\.io/region} {.metadata.labels.topology\\.kubernetes\\.io/zone}`;
const KEPT = '/var/lib/cluster/machine/cloud-hints.json';
const PROVISIONING = '/etc/cluster/provisioning.json';

interface Joins {
  readonly joins: readonly {
    readonly wantedName: string;
    readonly address: string;
    readonly state: string;
  }[];
}

/**
 * Two machines with a mock of AWS' instance metadata service at 169.254.169.254. The mock names an address that must not be
 * used: one that neither machine has, or a loopback address.
 */
export async function playHints(
  story: TestContext,
  {
    bench,
    cluster,
    mock,
  }: { readonly bench: Harness; readonly cluster: StoryCluster; readonly mock: MetadataMock },
): Promise<void> {
  const { hints } = mock;
  await cluster.machines({ controlPlanes: 1, workers: 1 }, requireApproval);
  for (const machine of ['n1', 'n2']) {
    await mock.start(machine);
    await onAws(cluster, machine);
  }

  await story.test(
    'an agent queries the metadata service with a token and without its proxy, and stores the answer',
    async () => {
      for (const machine of ['n1', 'n2'])
        assert.deepEqual(JSON.parse(await cluster.run(machine, 'cat', KEPT)), { cloud: 'aws', ...hints });
    },
  );

  await cluster.init();
  await story.test(
    'the first node has the name that its owner chose, its own address, and the labels from the cloud',
    async () => {
      assert.equal(
        await cluster.run('n1', 'kubectl', 'get', 'node', 'n1', '-o', LABELS),
        `${hints.region} ${hints.zone}`,
      );
      assert.equal(await addressOf(cluster, 'n1'), await cluster.address('n1'));
    },
  );

  await story.test(
    'a joining machine requests the name from the cloud, but not the address from the cloud',
    async () => {
      const { joins } = await eventually(
        'n2 asks to join',
        120,
        () => cluster.cliJson<Joins>('node', 'ls', '--joins'),
        ({ joins: all }) => all.length === 1,
      );
      assert.deepEqual(
        joins.map(({ wantedName, address, state }) => [wantedName, address, state]),
        [[hints.name, await cluster.address('n2'), 'pending']],
      );
      await eventually(
        'the status of the unit says what the machine waits for',
        30,
        () => cluster.run('n2', 'systemctl', 'show', '--property', 'StatusText', '--value', 'bootstrapper'),
        (text) => /^fingerprint sha256:\S+; waits for cluster \S+: ./.test(text),
      );
    },
  );

  await story.test(
    'the operator decides the name and a label of the joining node, and other labels come from the cloud',
    async () => {
      const fingerprint = await cluster.fingerprint('n2');
      await bench.must(
        '--workspace',
        await cluster.workspace(),
        'node',
        'approve',
        fingerprint,
        '--name',
        'n2',
        '--label',
        'pool=edge',
        '--wait',
      );
      await eventually(
        'the label of the approval is in Kubernetes',
        30,
        () => cluster.run('n1', 'kubectl', 'get', 'nodes', '-l', 'pool=edge', '-o', 'name'),
        (names) => names === 'node/n2',
      );
      assert.equal(
        await cluster.run('n1', 'kubectl', 'get', 'node', 'n2', '-o', LABELS),
        `${hints.region} ${hints.zone}`,
      );
    },
  );

  await story.test(
    'nothing changes on a node when its agent restarts and cannot reach the metadata service',
    async () => {
      const kubelet = await cluster.pidOf('n2', 'kubelet.service');
      await mock.stop('n2');
      await cluster.sh('n2', 'systemctl restart bootstrapper');
      await eventually(
        'the agent of n2 runs',
        60,
        () => cluster.run('n2', 'systemctl', 'show', '--property', 'StatusText', '--value', 'bootstrapper'),
        (text) => text !== '',
      );
      await cluster.allReady(['n1', 'n2'], 60);
      assert.equal(await cluster.pidOf('n2', 'kubelet.service'), kubelet);
    },
  );
}

/**
 * Configures a machine as on AWS. Also configures a proxy for its agent at an address where nothing listens, to prove
 * that the agent does not use a proxy for the metadata service.
 */
async function onAws(cluster: StoryCluster, machine: string): Promise<void> {
  const provisioning = JSON.parse(await cluster.run(machine, 'cat', PROVISIONING)) as Record<string, unknown>;
  const text = JSON.stringify({ ...provisioning, cloud: 'aws', nodeName: undefined });
  const proxy = 'NODE_USE_ENV_PROXY=1 http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9';
  await cluster.sh(
    machine,
    `echo '${text}' > ${PROVISIONING}
     mkdir -p /run/systemd/system/bootstrapper.service.d
     printf '[Service]\\nEnvironment=${proxy}\\n' > /run/systemd/system/bootstrapper.service.d/proxy.conf
     systemctl daemon-reload && systemctl restart bootstrapper`,
  );
}

function addressOf(cluster: StoryCluster, node: string): Promise<string> {
  const path = 'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}';
  return cluster.run('n1', 'kubectl', 'get', 'node', node, '-o', path);
}
