import { createHash } from 'node:crypto';
import { afterEach, expect, test } from '@jest/globals';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../../internal/bundle/index.ts';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import { contextOf, createCuratorHarness } from '../curator/fake-curator.ts';
import { generateWorkspace, runVersion } from '../index.ts';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

const SETTINGS = {
  ...{ version: 1, clusterName: 'prod', kubernetesVersion: 'v1.37.2', bundleManifest: 'MANIFEST' },
  ...{ podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20', apiServerSans: [] },
};

async function createCluster(listNodes: () => Promise<object>) {
  const harness = await createCuratorHarness(
    { listNodes, getClusterInfo: async () => ({ clusterName: 'prod' }) },
    { listDocuments: async () => ({ settings: Buffer.from(JSON.stringify(SETTINGS)) }) },
  );
  open.push(harness);
  return contextOf(harness.files, '/owner');
}

const nodeWith = (name: string, agentVersion: string, kubernetesVersion: string) => ({
  ...{ nodeId: name, name, createdMs: 0n },
  status: { address: '192.0.2.1', agentVersion, kubernetesVersion },
});

test('runVersion() shows only the client in a workspace without a cluster', async () => {
  const context = contextOf(new MemoryFiles(), '/new');
  await generateWorkspace(context, { name: 'prod' });
  expect(await runVersion(context)).toBe('ok');
  const client = {
    version: VERSION,
    kubernetesVersions: KUBERNETES_VERSIONS,
    defaultKubernetesVersion: DEFAULT_KUBERNETES_VERSION,
  };
  expect(context.host.answered).toEqual({ client, workspace: '/new', cluster: undefined });
});

test('runVersion() shows only the client outside of a workspace', async () => {
  const context = contextOf(new MemoryFiles(), '/nowhere');
  expect(await runVersion(context)).toBe('ok');
  expect(context.host.answered).toMatchObject({ client: { version: VERSION } });
});

test('runVersion() shows bundle, agents and Kubernetes, and notes versions that do not fit together', async () => {
  const minor = Number(VERSION.split('.')[1]);
  const far = `0.${minor + 2}.0`;
  const context = await createCluster(async () => ({
    nodes: [
      nodeWith('n10', far, 'v1.20.1'),
      nodeWith('n2', VERSION, DEFAULT_KUBERNETES_VERSION),
      nodeWith('n3', VERSION, DEFAULT_KUBERNETES_VERSION.replace(/\d+$/, '0')),
    ],
  }));
  expect(await runVersion(context)).toBe('ok');
  const manifestSha256 = createHash('sha256').update('MANIFEST').digest('hex');
  expect(context.host.answered).toMatchObject({
    cluster: {
      ok: true,
      value: {
        ...{ name: 'prod', kubernetesVersion: 'v1.37.2', manifestSha256 },
        nodes: [
          { name: 'n2', agentVersion: VERSION, note: '' },
          {
            name: 'n3',
            note: `Kubernetes ${DEFAULT_KUBERNETES_VERSION} is the patch release that this program supports`,
          },
          {
            name: 'n10',
            note: `agent ${far} and client ${VERSION} differ by more than one minor version; Kubernetes v1.20.1 is outside the window of supported versions`,
          },
        ],
      },
    },
  });
});

test('runVersion() shows the client and the error of a cluster that does not respond, and returns unreachable', async () => {
  const context = await createCluster(async () => {
    throw new Error('closed');
  });
  expect(await runVersion(context)).toBe('unreachable');
  expect(context.host.answered).toMatchObject({ cluster: { ok: false } });
});
