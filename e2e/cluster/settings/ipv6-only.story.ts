import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { PORTS, VXLAN_PORT } from '../../../internal/endpoint/index.ts';
import { createHarness } from '../../machines/harness.ts';
import { etcdctlArgv, eventually } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { answers, diagnose, expanded, helloPods, nodeAddresses, nodeField } from './ip-checks.ts';

const NAME = 'ipv6';
const [FIRST, SECOND, WORKER] = ['n1', 'n2', 'n3'];
const MACHINES = [FIRST, SECOND, WORKER];
const NODE_PORT = 30080;
/** The first addresses of the services of local clusters with IPv6 only. */
const [API, DNS] = ['2001:2:0:9000::1', '2001:2:0:9000::a'];
/** Ports at which other machines must reach each node, of those with `PORTS.apiServer` a control plane. */
const PORTS_OF_ALL = [PORTS.kubelet, PORTS.kubeProxyHealth, PORTS.exporter];
const PORTS_OF_CONTROL_PLANES = [PORTS.join, PORTS.curator, PORTS.apiServer, PORTS.stateEtcd.peer];
const PORTS_OF_WORKERS = [PORTS.joinRelay, PORTS.curatorRelay];
/** The doctor reports these about a slow disk or a busy processor of the host, and that two members survive no failure. */
const NOT_OF_IPV6 = [
  'doctor-fsync',
  'doctor-latency',
  'doctor-node-latency',
  'doctor-disk-space',
  'doctor-backup',
];

await test('a cluster with IPv6 only', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await cluster.machines({ controlPlanes: 2, workers: 1, ipFamily: 'ipv6' });
  await cluster.edit((yaml) =>
    stringify({
      ...(parse(yaml) as object),
      monitoring: { exporter: true },
      extraArguments: { controllerManager: { 'node-cidr-mask-size-ipv6': 72 } },
      charts: [
        {
          name: 'hello',
          chart: 'bundle:hello',
          values: { replicas: 3, service: { nodePort: NODE_PORT } },
        },
      ],
    }),
  );

  await story.test('the machines have no IPv4 address besides that of the loopback interface', async () => {
    for (const machine of MACHINES) {
      const shown = await cluster.run(machine, 'ip', '-4', '-o', 'address', 'show');
      assert.deepEqual(
        shown.split('\n').map((line) => line.split(/\s+/)[1]),
        ['lo'],
        shown,
      );
      assert.equal(await cluster.run(machine, 'ip', '-4', 'route', 'show', 'default'), '');
    }
  });

  await story.test('contradictory networks are refused with their line before anything changes', async () => {
    const refused = async (from: RegExp, to: string, says: RegExp): Promise<void> => {
      let before = '';
      await cluster.edit((yaml) => {
        before = yaml;
        assert.match(yaml, from);
        return yaml.replace(from, to);
      });
      const result = await bench.cli('--workspace', await cluster.workspace(), 'config', 'validate');
      assert.notEqual(result.code, 0);
      assert.match(result.stderr, says);
      await cluster.edit(() => before);
    };
    await refused(
      /serviceSubnet: \S+/,
      'serviceSubnet: 198.19.128.0/17',
      /cluster\.yaml:\d+:\d+.*serviceSubnet.*IPv6 networks, like those of podSubnet/,
    );
    await refused(
      /podSubnet: \S+/,
      'podSubnet: 198.19.0.0/17',
      /cluster\.yaml:\d+:\d+.*serviceSubnet.*IPv4 networks, like those of podSubnet/,
    );
    await refused(
      /node-cidr-mask-size-ipv6/,
      'node-cidr-mask-size-ipv4',
      /cluster\.yaml:\d+:\d+.*node-cidr-mask-size-ipv4.*no IPv4 network/,
    );
  });

  await story.test('two control planes and a worker become Ready, with IPv6 addresses only', async () => {
    await cluster.up();
    await cluster.allReady(MACHINES, 180);
    for (const machine of MACHINES) {
      assert.match(await nodeAddresses(cluster, machine), /^2001:2:0:[0-9a-f]+::[0-9a-f]+$/);
      assert.match(await nodeField(cluster, machine, '{.spec.podCIDRs[*]}'), /^2001:2:0:8000:.*\/72$/);
    }
  });

  await story.test('both etcd clusters have two voters, which reach each other by IPv6', async () => {
    await eventually(
      'two voters',
      120,
      () => cluster.etcdMembers(),
      ({ voters, learners }) => voters === 2 && learners === 0,
    );
    for (const user of ['root', 'kubernetes-root'] as const) {
      const text = await cluster.run(FIRST, ...etcdctlArgv(user), 'member', 'list', '--write-out', 'json');
      const { members } = JSON.parse(text) as {
        readonly members: readonly {
          readonly peerURLs: readonly string[];
          readonly clientURLs: readonly string[];
        }[];
      };
      const urls = members.flatMap(({ peerURLs, clientURLs }) => [...peerURLs, ...clientURLs]);
      assert.equal(urls.length, 4, text);
      for (const url of urls) assert.match(url, /^https:\/\/\[2001:2:0:[0-9a-f]+::[0-9a-f]+\]:\d+$/);
    }
  });

  await story.test(
    'the certificate of each API server names its IPv6 address and that of the Service',
    async () => {
      for (const machine of [FIRST, SECOND]) {
        const text = await cluster.sh(
          machine,
          'openssl x509 -in /etc/kubernetes/pki/apiserver.crt -noout -ext subjectAltName',
        );
        for (const address of [await nodeAddresses(cluster, machine), API])
          assert.ok(text.includes(`IP Address:${expanded(address)}`), text);
      }
    },
  );

  await story.test('other machines reach the services of each node', async () => {
    for (const machine of MACHINES) {
      const own = machine === WORKER ? PORTS_OF_WORKERS : PORTS_OF_CONTROL_PLANES;
      const address = await nodeAddresses(cluster, machine);
      for (const port of [...PORTS_OF_ALL, ...own])
        await eventually(
          `${other(machine)} reaches port ${port} of ${machine}`,
          90,
          () => cluster.try(other(machine), 'bash', '-c', `exec 3<>/dev/tcp/${address}/${port}`),
          ({ code }) => code === 0,
        );
    }
  });

  await story.test('each pod has one IPv6 address, and answers on the other nodes', async () => {
    await cluster.sh(FIRST, 'kubectl -n default rollout status deployment/hello --timeout=180s');
    const pods = await helloPods(cluster);
    assert.equal(pods.length, 3);
    for (const { node, addresses } of pods) {
      assert.deepEqual(addresses.length, 1, JSON.stringify(addresses));
      for (const machine of MACHINES.filter((each) => each !== node))
        await answers(cluster, machine, addresses[0] ?? '', 8080);
    }
  });

  await story.test('a Service answers on each node at its address and at the node port', async () => {
    const address = await serviceAddress();
    assert.match(address, /^2001:2:0:9000::/);
    for (const machine of MACHINES) {
      await answers(cluster, machine, address, 80);
      await answers(cluster, other(machine), await nodeAddresses(cluster, machine), NODE_PORT);
    }
  });

  await story.test(
    'the name of a Service resolves to its IPv6 address, at the name server that pods get',
    async () => {
      const script = `const { Resolver } = require('node:dns').promises; const dns = new Resolver(); dns.setServers(['${DNS}']);
      dns.resolve6('hello.default.svc.cluster.local').then((found) => console.log(found.join()))`;
      for (const machine of MACHINES)
        assert.equal(
          await cluster.run(machine, '/usr/lib/cluster/node', '-e', script),
          await serviceAddress(),
        );
      const kubelet = parse(await cluster.run(WORKER, 'cat', '/var/lib/kubelet/config.yaml')) as {
        readonly clusterDNS: unknown;
      };
      assert.deepEqual(kubelet.clusterDNS, [DNS]);
    },
  );

  await story.test('status and doctor find a healthy cluster, and nodes that answer each other', async () => {
    await untilHealthy();
    const findings = await diagnose(bench, cluster);
    for (const machine of MACHINES)
      assert.deepEqual(
        findings.filter(({ subject }) => subject === `pod network of ${machine}`).map(({ figure }) => figure),
        ['other nodes answer'],
      );
    const status = await bench.cli('--workspace', await cluster.workspace(), 'status');
    for (const machine of MACHINES) assert.match(status.stdout, new RegExp(`${machine} +Healthy`));
  });

  await story.test('doctor names a node that others do not reach through the network of pods', async () => {
    const rule = ['INPUT', '-p', 'udp', '--dport', String(VXLAN_PORT), '-j', 'DROP'];
    await cluster.run(WORKER, 'ip6tables', '--insert', ...rule);
    await eventually(
      `doctor names ${WORKER}`,
      180,
      () => diagnose(bench, cluster),
      (findings) =>
        findings.some(
          ({ code, grade, subject }) =>
            code === 'doctor-pod-network' && grade !== 'good' && subject === `pod network of ${WORKER}`,
        ),
    );
    await cluster.run(WORKER, 'ip6tables', '--delete', ...rule);
    await untilHealthy();
  });

  await story.test(
    'after a power cut of all machines, they have the same addresses and their pods answer',
    async () => {
      const path = '{.status.addresses[*].address} {.spec.podCIDRs[*]}';
      const before = await Promise.all(MACHINES.map((machine) => nodeField(cluster, machine, path)));
      for (const machine of MACHINES) await cluster.cutPower(machine);
      await Promise.all(MACHINES.map((machine) => cluster.start(machine)));
      await cluster.allReady(MACHINES, 240);
      assert.deepEqual(
        await Promise.all(MACHINES.map((machine) => nodeField(cluster, machine, path))),
        before,
      );
      for (const machine of MACHINES) await answers(cluster, machine, await serviceAddress(), 80);
      await untilHealthy();
    },
  );

  async function serviceAddress(): Promise<string> {
    return cluster.run(
      ...[FIRST, 'kubectl', '-n', 'default', 'get', 'service', 'hello'],
      ...['-o', 'jsonpath={.spec.clusterIPs[*]}'],
    );
  }

  async function untilHealthy(): Promise<void> {
    await eventually(
      'doctor finds nothing',
      240,
      async () =>
        (await diagnose(bench, cluster)).filter(
          ({ grade, code }) => grade !== 'good' && !NOT_OF_IPV6.includes(code),
        ),
      (problems) => problems.length === 0,
    );
  }
});

function other(machine: string): string {
  return machine === FIRST ? SECOND : FIRST;
}
