import { afterEach, describe, expect, test } from '@jest/globals';
import { accessFromKubeconfig } from '../../internal/kube/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../cluster/curator/fake-fast-forward-clock.ts';
import { createKubernetes, type FakeRequest } from '../cluster/curator/fake-kubernetes.ts';
import { layoutOf } from '../workspace/index.ts';
import { restartSystemPods } from './system-pods.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each[Symbol.asyncDispose]();
});

/**
 * A cluster in which the namespaces return these CAs of API servers, one response after the other. "new" stands for the
 * CA of the kubeconfig.
 */
async function create(cas: readonly string[]) {
  const harness = await createCuratorHarness({}, {});
  open.push(harness);
  const { files } = harness;
  const path = layoutOf('/owner').kubeconfig;
  const patches: FakeRequest[] = [];
  let asked = 0;
  let caPem = '';
  open.push(
    await createKubernetes(
      files,
      path,
      { metadata: { annotations: {} }, spec: {} },
      {
        ...{ address: '127.0.0.1', port: 0 },
        answer: (request) => {
          if (request.url.endsWith('/configmaps/kube-root-ca.crt')) {
            const ca = cas[Math.min(asked++, cas.length - 1)];
            return { data: { 'ca.crt': ca === 'new' ? caPem : ca } };
          }
          if (request.method === 'PATCH') return (patches.push(request), {});
          return undefined;
        },
      },
    ),
  );
  const raw = await files.read(path, 1_000_000);
  ({ caPem } = accessFromKubeconfig(Buffer.from(raw ?? []).toString('utf8'), path));
  const owner = { ...harness.owner, ports: { ...harness.owner.ports, clock: new FastForwardClock(1) } };
  return { owner, files, patches };
}

describe('restartSystemPods()', () => {
  test('restarts kube-proxy, CoreDNS and the pod network as soon as new pods would read the new CA', async () => {
    const { owner, patches } = await create(['old', 'old', 'new']);
    await restartSystemPods(owner, 3);
    expect(patches.map(({ url }) => url)).toEqual([
      '/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy',
      '/apis/apps/v1/namespaces/kube-system/deployments/coredns',
      '/apis/apps/v1/namespaces/kube-flannel/daemonsets/flannel',
    ]);
    const annotations = { 'cluster/servers-ca-generation': '3' };
    for (const { body } of patches)
      expect(body).toEqual({ spec: { template: { metadata: { annotations } } } });
    expect(owner.host.records.filter(({ kind }) => kind === 'warn')).toEqual([]);
  });

  test('restarts nothing, and warns, while new pods would read the old CA', async () => {
    const { owner, patches } = await create(['old']);
    await restartSystemPods(owner, 3);
    expect(patches).toEqual([]);
    expect(JSON.stringify(owner.host.records)).toMatch(/keys-pods-not-restarted.*another CA/);
  });

  test('warns a caller without a kubeconfig', async () => {
    const { files } = await create(['new']);
    const nobody = contextOf(files, '/nobody');
    await restartSystemPods(nobody, 3);
    expect(JSON.stringify(nobody.host.records)).toMatch(/keys-pods-not-restarted/);
  });
});
