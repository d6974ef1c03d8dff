import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createHarness } from '../../machines/harness.ts';
import { eventually } from '../harness/node-shell.ts';
import { Registry } from '../harness/registry.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { buildKubeRouter, IMAGE, writeKubeRouterChart } from './kube-router.ts';

const NAME = 'network';
const MACHINES = ['n1', 'n2'];

/** The extra arguments that `cluster.yaml` allows; ip-families.story.ts has the two for clusters with IPv6. If a Kubernetes release drops one of them, this story fails. */
const EXTRA_ARGUMENTS = {
  apiServer: { 'event-ttl': '2h', 'service-node-port-range': '30000-30999' },
  controllerManager: {
    'horizontal-pod-autoscaler-downscale-stabilization': '2m',
    'horizontal-pod-autoscaler-sync-period': '20s',
    'node-cidr-mask-size': 25,
    'node-monitor-grace-period': '50s',
    v: 1,
  },
  scheduler: { v: 1 },
  kubelet: {
    allowedUnsafeSysctls: ['net.core.somaxconn'],
    containerLogMaxFiles: 3,
    containerLogMaxSize: '5Mi',
    cpuManagerPolicy: 'none',
    imageMinimumGCAge: '3m',
    kubeReserved: { memory: '64Mi', pid: '500' },
    maxParallelImagePulls: 3,
    maxPods: 60,
    nodeStatusUpdateFrequency: '9s',
    registryBurst: 11,
    registryPullQPS: 6,
    serializeImagePulls: false,
    systemReserved: { cpu: '100m', memory: '64Mi', 'ephemeral-storage': '100Mi' },
    topologyManagerPolicy: 'none',
  },
};

await test('a cluster with extra arguments and kube-router as its pod network', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  const layout = await buildKubeRouter(bench);
  await cluster.machines({ controlPlanes: 1, workers: 1 });
  await using registry = await Registry.start(bench.directory, await cluster.workstation(), {
    image: { reference: IMAGE, layout },
  });
  const chart = await writeKubeRouterChart(bench.directory);
  await cluster.edit((yaml) => {
    const { networking, ...config } = parse(yaml) as { readonly networking: object };
    return stringify({
      ...config,
      networking: { ...networking, plugin: 'none' },
      extraArguments: EXTRA_ARGUMENTS,
      podSecurity: { exemptNamespaces: ['kube-router'] },
      registries: [{ name: 'docker.io', fallback: false, mirrors: [{ url: `http://${registry.address}` }] }],
      charts: [
        { name: 'kube-router', namespace: 'kube-router', chart },
        { name: 'hello', chart: 'bundle:hello', needs: ['kube-router'], values: { replicas: 2 } },
      ],
    });
  });

  await story.test(
    'init installs kube-router as a chart, and every node becomes Ready without flannel',
    async () => {
      await cluster.up();
      await cluster.allReady(MACHINES, 120);
      const pods = await cluster.run('n1', 'kubectl', 'get', 'pods', '--all-namespaces', '-o', 'name');
      assert.ok(!pods.includes('flannel'));
      for (const machine of MACHINES) {
        const links = await cluster.run(machine, 'ip', '-o', 'link', 'show');
        assert.doesNotMatch(links, /cni0|flannel/);
        await cluster.run(machine, 'test', '-s', '/etc/cni/net.d/10-kube-router.conflist');
      }
    },
  );

  await story.test(
    'a pod is reached from the other node, by its own address and by its Service',
    async () => {
      await cluster.sh('n1', 'kubectl -n default rollout status deployment/hello --timeout=120s');
      const shown = await cluster.run(
        ...['n1', 'kubectl', 'get', 'pods', '-A', '-l', 'app.kubernetes.io/name=hello'],
        ...['-o', 'jsonpath={range .items[*]}{.spec.nodeName}={.status.podIP}{"\\n"}{end}'],
      );
      const found = new Map(shown.split('\n').map((line) => line.split('=') as [string, string]));
      assert.ok(found.size > 0, shown);
      const service = await cluster.sh(
        'n1',
        `kubectl get services -A -l app.kubernetes.io/name=hello -o jsonpath='{.items[0].spec.clusterIP}:{.items[0].spec.ports[0].port}'`,
      );
      for (const machine of MACHINES)
        for (const address of [...[...found.values()].map((ip) => `${ip}:8080`), service]) {
          const script = `fetch('http://${address}/').then((response) => console.log(response.status))`;
          // kube-router is ready before its neighbours have told it their routes (BGP).
          await eventually(
            `${machine} reaches ${address}`,
            60,
            () => cluster.try(machine, '/usr/lib/cluster/node', '-e', script),
            ({ code, stdout }) => code === 0 && stdout.trim() === '200',
          );
        }
    },
  );

  await story.test('kubelets, controller manager and scheduler run with the extra arguments', async () => {
    for (const machine of MACHINES) {
      const text = await cluster.run(
        'n1',
        'kubectl',
        'get',
        '--raw',
        `/api/v1/nodes/${machine}/proxy/configz`,
      );
      const { kubeletconfig } = JSON.parse(text) as { readonly kubeletconfig: Record<string, unknown> };
      const { imageMinimumGCAge, nodeStatusUpdateFrequency, ...rest } = EXTRA_ARGUMENTS.kubelet;
      for (const [name, value] of Object.entries(rest)) assert.deepEqual(kubeletconfig[name], value, name);
      assert.equal(kubeletconfig['imageMinimumGCAge'], `${imageMinimumGCAge}0s`);
      assert.equal(kubeletconfig['nodeStatusUpdateFrequency'], nodeStatusUpdateFrequency);
      const { podCIDR, capacity } = await nodeOf(machine);
      assert.match(podCIDR, /\/25$/);
      assert.equal(capacity, '60');
    }
    for (const [program, own] of [
      ['kube-apiserver', EXTRA_ARGUMENTS.apiServer],
      ['kube-controller-manager', EXTRA_ARGUMENTS.controllerManager],
      ['kube-scheduler', EXTRA_ARGUMENTS.scheduler],
    ] as const) {
      const line = await cluster.sh('n1', `tr '\\0' ' ' < /proc/$(pgrep -x ${program.slice(0, 15)})/cmdline`);
      for (const [name, value] of Object.entries(own))
        assert.ok(`${line} `.includes(`--${name}=${value} `), line);
    }
  });

  await story.test('doctor finds no fault in the network', async () => {
    const { stdout } = await bench.cli('--workspace', await cluster.workspace(), 'doctor');
    assert.match(stdout, /another network/);
    assert.doesNotMatch(stdout, /doctor-network/);
  });

  async function nodeOf(name: string): Promise<{ readonly podCIDR: string; readonly capacity: string }> {
    const shown = await cluster.sh(
      'n1',
      `kubectl get node ${name} -o jsonpath='{.spec.podCIDR} {.status.capacity.pods}'`,
    );
    const [podCIDR = '', capacity = ''] = shown.split(' ');
    return { podCIDR, capacity };
  }
});
