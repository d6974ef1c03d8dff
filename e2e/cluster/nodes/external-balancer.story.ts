import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { certificateExpiryMs } from '../harness/api-availability.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { certificateNames } from '../harness/node-shell.ts';
import { FaultyConnection } from '../init/faulty-connection.ts';

/** An additional name in the certificate. It need not resolve. */
const SAN = 'api.example.test';

await test('a cluster with an external load balancer of the API servers', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'ownlb');
  await cluster.machines({ controlPlanes: 1, workers: 0 });
  const node = await cluster.address('n1');
  // The host's address in the machines' network; the load balancer runs outside of every machine.
  const outside = node.replace(/\.\d+$/, '.1');
  await using balancer = await FaultyConnection.open(outside, { host: node, port: 6443 });
  const { endpoint } = balancer;
  await cluster.machines({ controlPlanes: 1, workers: 0 }, (yaml) =>
    yaml.replace('extraSans: []', `extraSans: [${SAN}]\n  endpoint: ${endpoint}`),
  );
  await cluster.up();

  await story.test(
    'the certificate of the API server has the address and the name of the load balancer',
    async () => {
      const names = await certificateNames(node, 6443);
      assert.ok(names.includes(`IP Address:${outside}`) && names.includes(`DNS:${SAN}`), names);
      const [host = '', port = ''] = endpoint.split(':');
      assert.equal(await certificateExpiryMs(host, Number(port)), await certificateExpiryMs(node, 6443));
    },
  );

  await story.test('kubelet, kube-proxy and every kubeconfig use the load balancer', async () => {
    for (const path of ['/etc/kubernetes/kubelet.conf', '/etc/kubernetes/admin.conf'])
      assert.ok((await cluster.run('n1', 'cat', path)).includes(`https://${endpoint}`), path);
    const proxy = await cluster.sh('n1', 'kubectl -n kube-system get configmap kube-proxy -o yaml');
    assert.ok(proxy.includes(`https://${endpoint}`), proxy);
    const kubeconfig = await cluster.cliJson<{ kubeconfig: string }>('kubeconfig');
    assert.ok(kubeconfig.kubeconfig.includes(`https://${endpoint}`));
    assert.ok(balancer.made > 0);
    await cluster.allReady(['n1'], 30);
  });

  await story.test('no node-local balancer runs', async () => {
    const { stdout } = await cluster.try('n1', 'systemctl', 'is-active', 'cluster-apilb.service');
    assert.notEqual(stdout.trim(), 'active');
  });
});
