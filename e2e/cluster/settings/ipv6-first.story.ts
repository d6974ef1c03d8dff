import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { answers, diagnose, helloPods, nodeAddresses, nodeField } from './ip-checks.ts';

const NAME = 'ipv6-first';
const MACHINES = ['n1', 'n2'];
const OF_IP = [
  'preflight-address-family',
  'doctor-network',
  'doctor-pod-network',
  'doctor-mtu',
  'doctor-name-lookup',
];

interface Networks {
  readonly networking: { readonly podSubnet: string; readonly serviceSubnet: string };
}

await test('a cluster with IPv6 and IPv4', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 1, ipFamily: 'dual' });
  await cluster.edit((yaml) => {
    const config = parse(yaml) as Networks;
    const { podSubnet, serviceSubnet } = config.networking;
    const networking = { podSubnet: reversed(podSubnet), serviceSubnet: reversed(serviceSubnet) };
    return stringify({
      ...config,
      networking,
      charts: [{ name: 'hello', chart: 'bundle:hello', values: { replicas: 2 } }],
    });
  });

  await story.test('a machine whose address is IPv4 is refused, and stays as it is', async () => {
    const node = `${await cluster.address('n1')}:9000`;
    const { code, stderr } = await bench.cli(
      ...['--workspace', await cluster.workspace(), 'init'],
      ...['--node', node, '--fingerprint', await cluster.fingerprint('n1')],
    );
    assert.notEqual(code, 0);
    assert.match(stderr, /preflight-address-family/);
  });

  await story.test('with an IPv6 address in its provisioning, every machine becomes a node', async () => {
    for (const machine of MACHINES) {
      const address = await cluster.sh(
        machine,
        "ip -6 -o address show dev eth0 scope global | awk '{print $4}' | cut -d/ -f1",
      );
      await cluster.sh(
        machine,
        `sed -i 's/"address": "[0-9.]*"/"address": "${address}"/' /etc/cluster/provisioning.json; systemctl restart bootstrapper`,
      );
    }
    await cluster.up();
    await cluster.allReady(MACHINES, 120);
    for (const machine of MACHINES) {
      assert.match(
        await nodeAddresses(cluster, machine),
        /^2001:2:0:[0-9a-f]+::[0-9a-f]+ 198\.18\.\d+\.\d+$/,
      );
      assert.match(
        await nodeField(cluster, machine, '{.spec.podCIDRs[*]}'),
        /^2001:2:0:80[0-9a-f]{2}::\/64 198\.19\.\d+\.\d+\/24$/,
      );
    }
  });

  await story.test(
    'pods answer at both addresses on the other node, and a Service at both of its own',
    async () => {
      await cluster.sh('n1', 'kubectl -n default rollout status deployment/hello --timeout=180s');
      for (const { node, addresses } of await helloPods(cluster)) {
        assert.equal(addresses.length, 2, JSON.stringify(addresses));
        for (const address of addresses) await answers(cluster, other(node), address, 8080);
      }
      const patch = JSON.stringify({ spec: { ipFamilyPolicy: 'RequireDualStack' } });
      await cluster.run('n1', 'kubectl', '-n', 'default', 'patch', 'service', 'hello', '--patch', patch);
      const shown = await cluster.run(
        ...['n1', 'kubectl', '-n', 'default', 'get', 'service', 'hello'],
        ...['-o', 'jsonpath={.spec.clusterIPs[*]}'],
      );
      assert.match(shown, /^2001:2:0:9000::\S+ 198\.19\.\S+$/);
      for (const machine of MACHINES)
        for (const address of shown.split(' ')) await answers(cluster, machine, address, 80);
    },
  );

  await story.test('doctor finds no fault, and nodes that answer each other', async () => {
    await eventually(
      'nodes answer each other, and the name server answers them',
      120,
      () => diagnose(bench, cluster),
      (findings) =>
        MACHINES.every((machine) =>
          ['other nodes answer', 'answers'].every((figure) =>
            findings.some(
              ({ subject, figure: seen }) => subject.endsWith(` of ${machine}`) && seen === figure,
            ),
          ),
        ),
    );
    const wrong = (await diagnose(bench, cluster)).filter(
      ({ grade, code }) => grade !== 'good' && OF_IP.includes(code),
    );
    assert.deepEqual(wrong, []);
  });
});

/** "IPv6,IPv4" of "IPv4,IPv6". */
function reversed(networks: string): string {
  return networks.split(',').toReversed().join();
}

function other(machine: string): string {
  return machine === 'n1' ? 'n2' : 'n1';
}
