import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { answers, expanded, helloPods, nodeAddresses, nodeField } from './ip-checks.ts';

const NAME = 'families';
const MACHINES = ['n1', 'n2'];
/** What cluster.yaml allows beside the arguments of other-network.story.ts. */
const NODE_PREFIXES = { 'node-cidr-mask-size-ipv4': 25, 'node-cidr-mask-size-ipv6': 72 };

await test('a cluster with IPv4 and IPv6', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 1, workers: 1, ipFamily: 'dual' });
  await cluster.edit((yaml) =>
    stringify({
      ...(parse(yaml) as object),
      extraArguments: { controllerManager: NODE_PREFIXES },
      charts: [{ name: 'hello', chart: 'bundle:hello', values: { replicas: 2 } }],
    }),
  );

  await story.test('a half-set configuration is refused with its line before anything changes', async () => {
    const whole = await changeServices('198.19.128.0/17');
    const { code, stderr } = await bench.cli('--workspace', await cluster.workspace(), 'config', 'validate');
    assert.notEqual(code, 0);
    assert.match(stderr, /config-invalid/);
    assert.match(
      stderr,
      /cluster\.yaml:\d+:\d+.*serviceSubnet.*IPv4 and then IPv6 networks, like those of podSubnet/,
    );
    await changeServices(whole);
  });

  await story.test('every node becomes Ready, with an address and pod addresses of each family', async () => {
    await cluster.up();
    await cluster.allReady(MACHINES, 120);
    for (const machine of MACHINES) {
      const addresses = await nodeAddresses(cluster, machine);
      assert.match(addresses, /^198\.18\.\d+\.\d+ 2001:2:0:[0-9a-f]+::[0-9a-f]+$/);
      const ranges = await nodeField(cluster, machine, '{.spec.podCIDRs[*]}');
      assert.match(ranges, /^198\.19\.\d+\.\d+\/25 2001:2:0:8000:.*\/72$/);
    }
  });

  await story.test('the certificate of the API server names both addresses and both services', async () => {
    const [, second = ''] = (await nodeAddresses(cluster, 'n1')).split(' ');
    const text = await cluster.sh(
      'n1',
      'openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName',
    );
    for (const address of [expanded(second), expanded('2001:2:0:9000::1'), '198.19.128.1'])
      assert.ok(text.includes(`IP Address:${address}`), text);
  });

  await story.test('a pod has an address of each family, and both answer on the other node', async () => {
    await cluster.sh('n1', 'kubectl -n default rollout status deployment/hello --timeout=180s');
    for (const { node, addresses } of await helloPods(cluster)) {
      assert.equal(addresses.length, 2, JSON.stringify(addresses));
      for (const address of addresses) await answers(cluster, other(node), address, 8080);
    }
  });

  await story.test(
    'a Service with RequireDualStack answers at both of its addresses on each node',
    async () => {
      const patch = JSON.stringify({ spec: { ipFamilyPolicy: 'RequireDualStack' } });
      await cluster.run('n1', 'kubectl', '-n', 'default', 'patch', 'service', 'hello', '--patch', patch);
      const shown = await cluster.run(
        ...['n1', 'kubectl', '-n', 'default', 'get', 'service', 'hello'],
        ...['-o', 'jsonpath={.spec.clusterIPs[*]} {.spec.ports[0].port}'],
      );
      const [first = '', second = '', port = ''] = shown.split(' ');
      assert.match(first, /^198\.19\./);
      assert.match(second, /^2001:2:0:9000::/);
      for (const machine of MACHINES)
        for (const address of [first, second]) await answers(cluster, machine, address, Number(port));
    },
  );

  await story.test(
    'after a power cut, the machine has the same addresses and its pods answer again',
    async () => {
      const before = await nodeField(cluster, 'n2', '{.status.addresses[*].address} {.spec.podCIDRs[*]}');
      await cluster.cutPower('n2');
      await cluster.start('n2');
      await cluster.allReady(MACHINES, 180);
      assert.equal(
        await nodeField(cluster, 'n2', '{.status.addresses[*].address} {.spec.podCIDRs[*]}'),
        before,
      );
      for (const { node, addresses } of (await helloPods(cluster)).filter((pod) => pod.node === 'n2'))
        for (const address of addresses) await answers(cluster, other(node), address, 8080);
    },
  );

  await story.test('doctor finds no fault, and names a machine that lost its IPv6 address', async () => {
    const healthy = await doctor();
    assert.doesNotMatch(healthy, /preflight-address-family|doctor-network/);
    const address = await cluster.sh('n2', "ip -6 -o address show dev eth0 scope global | awk '{print $4}'");
    await cluster.run('n2', 'ip', '-6', 'address', 'delete', address, 'dev', 'eth0');
    await eventually('doctor names n2', 120, doctor, (text) => /n2.*no IPv6 address/s.test(text));
    await cluster.run('n2', 'ip', '-6', 'address', 'add', address, 'dev', 'eth0', 'nodad');
    await eventually('doctor is content again', 120, doctor, (text) => !text.includes('no IPv6 address'));
  });

  /** Writes another range of services into cluster.yaml; returns the one before. */
  async function changeServices(to: string): Promise<string> {
    let before = '';
    await cluster.edit((yaml) => {
      before = /serviceSubnet: (\S+)/.exec(yaml)?.[1] ?? '';
      return yaml.replace(`serviceSubnet: ${before}`, `serviceSubnet: ${to}`);
    });
    return before;
  }

  async function doctor(): Promise<string> {
    const { stdout, stderr } = await bench.cli('--workspace', await cluster.workspace(), 'doctor');
    return stdout + stderr;
  }
});

function other(machine: string): string {
  return machine === 'n1' ? 'n2' : 'n1';
}
