import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  createEncryptionKey,
  encryptionKeyFrom,
  trustedPem,
  KEY_PHASES,
  createPairs,
  createServersCa,
  SERVERS_CA,
  type KeySet,
  type RotatingPairs,
} from '../../../internal/keyset/index.ts';
import { maySignCas } from '../../../internal/pki/index.ts';
import { FakeClock, MemoryFiles } from '../../../internal/testing/index.ts';
import { buildKubeadmConfig } from '../kubeadm/kubeadm-config.ts';
import { renderEncryptionConfig } from '../encryption/encryption-config.ts';
import { createSharedKeys } from './create-shared-keys.ts';
import { KUBELET_CLIENTS_CA, KUBELET_FILES, ROTATED_FILES } from './key-files.ts';
import { PATHS } from '../settings.ts';
import {
  NEVER_ROTATED,
  writeKubeletClientsCa,
  readSharedKeyState,
  placeKubernetesKeys,
  STATIC_PODS,
} from './shared-keys.ts';
import { readStaticPodState } from '../controlplane/static-pods.ts';

const [first, second, third] = [
  await createPairs(1, Date.now()),
  await createPairs(2, Date.now()),
  await createPairs(3, Date.now()),
];
const etcd = { caFile: '/e/ca.crt' };
const settings = {
  ...{
    version: 'v1.35.4',
    clusterName: 'blue',
    nodeId: 'node-1',
    nodeName: 'n1',
    nodeAddress: '198.18.0.11',
  },
  ...{
    podSubnet: '10.244.0.0/16',
    serviceSubnet: '10.96.0.0/12',
    apiServerSans: [],
    runsWorkloads: true,
    apiEndpoint: undefined,
  },
  certificates: { nodeMinutes: 1, kubeletMinutes: 1, controlPlaneMinutes: 1 },
  taints: [],
  podSecurity: undefined,
  hardening: undefined,
  extraArguments: undefined,
  host: { restrictOomScoreAdj: true, failCgroupV1: false },
};
const client = { endpoint: 'e', caFile: 'a', certFile: 'b', keyFile: 'c' };

const at = (phase: KeySet['phase'], generation = 2): KeySet =>
  generation === 2
    ? { generation, phase, previous: first, next: second }
    : { generation, phase, previous: second, next: third };

let files: MemoryFiles;
const text = async (path: string): Promise<string> =>
  Buffer.from((await files.read(path, 65_536)) ?? []).toString('utf8');

/** Creates a control plane whose keys were never rotated. */
async function create(pairs: RotatingPairs = first): Promise<void> {
  files = new MemoryFiles();
  await files.makeDirectory(PATHS.pki);
  await files.makeDirectory('/e');
  await files.writeAtomic(etcd.caFile, 'etcd');
  const { 'kubernetes-clients-ca': ca, 'front-proxy-ca': proxy, 'service-account': sa } = pairs;
  const placed = { 'ca.crt': ca.public, 'front-proxy-ca.crt': proxy.public, 'sa.pub': sa.public };
  const keys = { 'ca.key': ca.private, 'front-proxy-ca.key': proxy.private, 'sa.key': sa.private };
  for (const [name, pem] of Object.entries(placed)) await files.writeAtomic(`${PATHS.pki}/${name}`, pem);
  for (const [name, key] of Object.entries(keys))
    await files.writeAtomic(`${PATHS.pki}/${name}`, key.reveal());
}

const everything = async (): Promise<readonly string[]> => {
  const paths = [...(await files.list(PATHS.pki)).map((name) => `${PATHS.pki}/${name}`), KUBELET_CLIENTS_CA];
  return Promise.all(
    paths.map(async (path) => `${path} ${(await files.stat(path))?.modifiedMs}\n${await text(path)}`),
  );
};

beforeEach(() => create());

test('the Kubernetes CA of a new cluster may sign the cross-certificate of the CA that replaces it', async () => {
  files = new MemoryFiles();
  await createSharedKeys({ files, clock: new FakeClock(Date.now()) });
  expect(await maySignCas(await text(`${PATHS.pki}/ca.crt`))).toBe(true);
  expect(await maySignCas(await text(`${PATHS.pki}/front-proxy-ca.crt`))).toBe(false);
});

describe('placeKubernetesKeys()', () => {
  test('changes nothing in the phase `distribute`', async () => {
    const before = await everything();
    await placeKubernetesKeys(files, at('distribute'));
    expect(await everything()).toEqual(before);
    expect(await readSharedKeyState(files, etcd)).toEqual(NEVER_ROTATED);
  });

  test.each(KEY_PHASES.filter((phase) => phase !== 'distribute'))(
    'writes the trusted CAs and the signing keys in phase %s',
    async (phase) => {
      const set = at(phase);
      await placeKubernetesKeys(files, set);
      expect(await text(ROTATED_FILES.clientsTrustBundle)).toBe(trustedPem(set, 'kubernetes-clients-ca'));
      expect(await text(KUBELET_CLIENTS_CA)).toBe(trustedPem(set, 'kubernetes-clients-ca'));
      expect(await text(ROTATED_FILES.frontProxyTrustBundle)).toBe(trustedPem(set, 'front-proxy-ca'));
      const signs = phase === 'trust' ? first : second;
      expect((await text(ROTATED_FILES.issuerCert)).trim()).toBe(
        signs['kubernetes-clients-ca'].public.trim(),
      );
      expect(await text(ROTATED_FILES.issuerKey)).toBe(signs['kubernetes-clients-ca'].private.reveal());
      expect((await text(`${PATHS.pki}/front-proxy-ca.crt`)).trim()).toBe(
        signs['front-proxy-ca'].public.trim(),
      );
      expect(await text(`${PATHS.pki}/front-proxy-ca.key`)).toBe(signs['front-proxy-ca'].private.reveal());
      expect((await text(`${PATHS.pki}/sa.pub`)).trim()).toBe(trustedPem(set, 'service-account').trim());
      expect(await text(`${PATHS.pki}/sa.key`)).toBe(signs['service-account'].private.reveal());
      // A rotation of an earlier version keeps the CA of servers.
      expect(await text(`${PATHS.pki}/ca.crt`)).toBe(first['kubernetes-clients-ca'].public);
      for (const key of [ROTATED_FILES.issuerKey, `${PATHS.pki}/front-proxy-ca.key`, `${PATHS.pki}/sa.key`])
        expect((await files.stat(key))?.mode).toBe(0o600);
    },
  );

  test('writes nothing when it is called a second time', async () => {
    await placeKubernetesKeys(files, at('trust'));
    const before = await everything();
    await placeKubernetesKeys(files, at('trust'));
    expect(await everything()).toEqual(before);
  });

  describe('with an encryption key', () => {
    const { secret } = createEncryptionKey(1);
    if (secret === undefined) throw new TypeError('secret expected');
    const [previous, next] = [encryptionKeyFrom('key1', secret), createEncryptionKey(2)];
    const encryption = { resources: ['secrets', 'configmaps'] as const, previous, next, older: [] };
    const render = (...keys: (typeof next)[]): string => renderEncryptionConfig(encryption.resources, keys);
    const digest = async () => (await readSharedKeyState(files, etcd)).podDigests?.['kube-apiserver'];
    beforeEach(async () => {
      await files.makeDirectory('/etc/kubernetes/encryption');
      await files.writeAtomic(PATHS.encryption, render(previous), { mode: 0o600 });
    });

    test('writes the keys of each phase, and gives the API server another digest with each change', async () => {
      const seen: unknown[] = [];
      for (const phase of KEY_PHASES) {
        const before = await digest();
        await placeKubernetesKeys(files, { ...at(phase), encryption });
        seen.push([phase, await text(PATHS.encryption), (await digest()) !== before]);
        expect((await files.stat(PATHS.encryption))?.mode).toBe(0o600);
      }
      expect(seen).toEqual([
        ['distribute', render(previous), false],
        ['trust', render(previous, next), true],
        ['issue', render(next, previous), true],
        ['refresh', render(next, previous), false],
        ['retire', render(next), true],
        ['done', render(next), false],
      ]);
    });

    test('keeps the digest of an API server whose encryption key no rotation has replaced', async () => {
      await placeKubernetesKeys(files, at('done'));
      const before = await digest();
      await files.remove(PATHS.encryption);
      expect([before, await digest()]).toEqual([before, before]);
      await files.writeAtomic(PATHS.encryption, render(next));
      expect(await digest()).not.toBe(before);
    });

    test('replaces a key from a ticket that no owner has signed', async () => {
      await files.writeAtomic(PATHS.encryption, render(createEncryptionKey(9)));
      await placeKubernetesKeys(files, { ...at('distribute'), encryption });
      expect(await text(PATHS.encryption)).toBe(render(previous));
    });
  });

  test('writes the CA of clients while a second rotation distributes its keys (phase `distribute`)', async () => {
    await placeKubernetesKeys(files, at('distribute', 3));
    expect(await text(ROTATED_FILES.clientsTrustBundle)).toBe(
      trustedPem(at('done'), 'kubernetes-clients-ca'),
    );
    expect(await readSharedKeyState(files, etcd)).toMatchObject({ hasKubeletClientsCa: true });
  });
});

test('a worker needs only writeKubeletClientsCa()', async () => {
  files = new MemoryFiles();
  await writeKubeletClientsCa(files, second['kubernetes-clients-ca'].public);
  expect(await readSharedKeyState(files, etcd)).toEqual({ ...NEVER_ROTATED, hasKubeletClientsCa: true });
});

describe('the CA of servers', () => {
  const old = {
    public: first['kubernetes-clients-ca'].public,
    private: first['kubernetes-clients-ca'].private,
  };
  const withServersCa = async (phase: KeySet['phase']): Promise<KeySet> => ({
    ...at(phase),
    previous: { ...first, [SERVERS_CA]: old },
    next: { ...second, [SERVERS_CA]: await replacing },
  });
  const replacing = createServersCa(2, Date.now(), old).then(async (kept) =>
    createServersCa(2, Date.now(), kept),
  );
  const which = async (path: string): Promise<readonly string[]> => {
    const names = { previous: old.public, next: (await replacing).public };
    const found = await text(path);
    return Object.entries(names).flatMap(([name, pem]) => (found.includes(pem.trim()) ? [name] : []));
  };

  test('is replaced in phase `issue`; the control plane trusts both CAs until `retire`, and the kubelet until `refresh`', async () => {
    const seen: unknown[] = [];
    for (const phase of KEY_PHASES) {
      const set = await withServersCa(phase);
      await placeKubernetesKeys(files, set);
      const isNext = (await text(`${PATHS.pki}/ca.key`)) === set.next[SERVERS_CA]?.private.reveal();
      const paths = [`${PATHS.pki}/ca.crt`, ROTATED_FILES.serversTrustBundle, KUBELET_FILES.ca];
      seen.push([phase, isNext, ...(await Promise.all(paths.map(which)))]);
      const hasCross =
        (await text(ROTATED_FILES.serversCross)) === (isNext ? set.next[SERVERS_CA]?.cross : '');
      expect([hasCross, (await files.stat(`${PATHS.pki}/ca.key`))?.mode === 0o600 || !isNext]).toEqual([
        true,
        true,
      ]);
    }
    expect(seen).toEqual([
      ['distribute', false, ['previous'], [], []],
      ['trust', false, ['previous'], [], []],
      ['issue', true, ['next'], ['previous', 'next'], ['previous', 'next']],
      ['refresh', true, ['next'], ['previous', 'next'], ['next']],
      ['retire', true, ['next'], ['next'], ['next']],
      ['done', true, ['next'], ['next'], ['next']],
    ]);
  });

  test('restarts the programs that read trusted CAs at their start, and gives API server and controller manager all trusted CAs', async () => {
    const steps: unknown[] = [];
    let before: Awaited<ReturnType<typeof readSharedKeyState>>['podDigests'];
    for (const phase of KEY_PHASES) {
      await placeKubernetesKeys(files, await withServersCa(phase));
      const keys = await readSharedKeyState(files, etcd);
      steps.push([phase, STATIC_PODS.filter((pod) => before?.[pod] !== keys.podDigests?.[pod])]);
      before = keys.podDigests;
      const config = buildKubeadmConfig(settings, client, { keys, controlPlaneGeneration: undefined });
      const isReplaced = !['distribute', 'trust'].includes(phase);
      expect(config.split(ROTATED_FILES.serversTrustBundle).length - 1).toBe(isReplaced ? 2 : 0);
      expect(config.includes('"root-ca-file"')).toBe(isReplaced);
    }
    expect(steps).toEqual([
      ['distribute', []],
      ['trust', ['kube-apiserver', 'kube-controller-manager']],
      ['issue', [...STATIC_PODS]],
      ['refresh', []],
      ['retire', [...STATIC_PODS]],
      ['done', []],
    ]);
  });

  test('stays unchanged in a rotation that an agent of an earlier version began', async () => {
    await placeKubernetesKeys(files, at('done'));
    expect(await which(`${PATHS.pki}/ca.crt`)).toEqual(['previous']);
    expect(await files.stat(ROTATED_FILES.serversTrustBundle)).toBeUndefined();
  });
});

describe('podDigests', () => {
  const digestsIn = async (set: KeySet) => {
    await placeKubernetesKeys(files, set);
    return (await readSharedKeyState(files, etcd)).podDigests;
  };
  const changed = (before: Awaited<ReturnType<typeof digestsIn>>, after: typeof before) =>
    STATIC_PODS.filter((pod) => before?.[pod] !== after?.[pod]);
  const all = [...STATIC_PODS];

  test('changes the digest of static pods that read a key only at their start', async () => {
    let before = await digestsIn(at('trust'));
    // The CA that signs the scheduler's certificate has not changed yet.
    expect(before?.['kube-scheduler']).toBeUndefined();
    const steps: (readonly string[])[] = [];
    for (const set of [
      at('issue'),
      at('refresh'),
      at('retire'),
      at('done'),
      at('distribute', 3),
      at('trust', 3),
      at('issue', 3),
    ]) {
      const after = await digestsIn(set);
      steps.push(changed(before, after));
      before = after;
    }
    expect(steps).toEqual([all, [], ['kube-apiserver'], [], [], ['kube-apiserver'], all]);
  });

  test('the digest of the API server changes with the trusted CA of etcd', async () => {
    const before = await digestsIn(at('trust'));
    await files.writeAtomic(etcd.caFile, 'etcd, and another');
    expect(changed(before, await digestsIn(at('trust')))).toEqual(['kube-apiserver']);
  });
});

describe('buildKubeadmConfig() with shared keys', () => {
  test('returns the same configuration before the first rotation', () => {
    const config = buildKubeadmConfig(settings, client);
    for (const word of ['client-ca-file', 'cluster-signing', 'extraEnvs', 'clients-ca', 'requestheader'])
      expect(config).not.toContain(word);
  });

  test('uses separate CAs for clients and servers, and restarts the scheduler only for a new issuer', async () => {
    await placeKubernetesKeys(files, at('trust'));
    const keys = await readSharedKeyState(files, etcd);
    const [, cluster, kubelet] = buildKubeadmConfig(settings, client, {
      keys,
      controlPlaneGeneration: undefined,
    })
      .split('\n---\n')
      .map((document) => JSON.parse(document) as Record<string, unknown>);
    const believes = { name: 'client-ca-file', value: ROTATED_FILES.clientsTrustBundle };
    const env = (pod: 'kube-apiserver' | 'kube-controller-manager') => [
      { name: 'CLUSTER_KEYS', value: keys.podDigests?.[pod] },
    ];
    expect(cluster).toMatchObject({
      apiServer: {
        extraArgs: expect.arrayContaining([believes]) as unknown,
        extraEnvs: env('kube-apiserver'),
      },
      controllerManager: {
        extraArgs: expect.arrayContaining([
          believes,
          { name: 'cluster-signing-cert-file', value: '' },
          { name: 'cluster-signing-kube-apiserver-client-cert-file', value: ROTATED_FILES.issuerCert },
          { name: 'cluster-signing-kubelet-serving-cert-file', value: `${PATHS.pki}/ca.crt` },
        ]) as unknown,
        extraEnvs: env('kube-controller-manager'),
      },
    });
    expect(cluster?.['scheduler']).not.toHaveProperty('extraEnvs');
    expect(kubelet).toMatchObject({ authentication: { x509: { clientCAFile: KUBELET_CLIENTS_CA } } });
  });
});

describe('readStaticPodState()', () => {
  const scope = (pid: number, uid = '7f'.repeat(16)): string =>
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid}.slice/cri-containerd-${pid}.scope`;
  const run = async (pid: number, program: string, ...variables: string[]): Promise<void> => {
    await files.makeDirectory(`/proc/${pid}`);
    await files.writeAtomic(`/proc/${pid}/comm`, `${program}\n`);
    await files.writeAtomic(`/proc/${pid}/environ`, variables.map((each) => `${each}\0`).join(''));
    await files.writeAtomic(`/proc/${pid}/cgroup`, `9:name=systemd:${scope(pid)}\n0::${scope(pid)}\n`);
  };

  test('returns an empty state before the first rotation', async () => {
    expect(await readStaticPodState(files, NEVER_ROTATED)).toEqual({ stale: [], oldApiServers: [] });
  });

  test('lists static pods that do not run or that run with other keys', async () => {
    await placeKubernetesKeys(files, at('issue'));
    const keys = await readSharedKeyState(files, etcd);
    const stale = async () => (await readStaticPodState(files, keys)).stale;
    const wanted = (pod: (typeof STATIC_PODS)[number]): string => `CLUSTER_KEYS=${keys.podDigests?.[pod]}`;
    expect(await stale()).toEqual(STATIC_PODS);
    await run(1, 'systemd', wanted('kube-scheduler'));
    await run(7, 'kube-apiserver', 'PATH=/', 'CLUSTER_KEYS=other');
    await run(8, 'kube-controller', 'PATH=/', wanted('kube-controller-manager'));
    expect(await stale()).toEqual(['kube-apiserver', 'kube-scheduler']);
    await run(9, 'kube-apiserver', wanted('kube-apiserver'), 'PATH=/');
    await run(10, 'kube-scheduler', wanted('kube-scheduler'));
    expect(await stale()).toEqual([]);
    expect((await readStaticPodState(files, keys)).oldApiServers).toEqual(['cri-containerd-7.scope']);
  });

  test.each([
    { name: 'a pod that was created over the API', cgroup: scope(7, '5093894b_551e_4c33_b667_cde82bb6c950') },
    {
      name: 'an API server of a cluster inside a container',
      cgroup: `/kubepods.slice/cri-containerd-1.scope${scope(7)}`,
    },
    { name: 'a system service on the machine', cgroup: '/system.slice/kube-apiserver.service' },
  ])('does not treat $name as a static pod', async ({ cgroup }) => {
    await placeKubernetesKeys(files, at('issue'));
    const keys = await readSharedKeyState(files, etcd);
    await run(7, 'kube-apiserver', 'PATH=/');
    await run(8, 'kube-scheduler', `CLUSTER_KEYS=${keys.podDigests?.['kube-scheduler']}`);
    for (const pid of [7, 8]) await files.writeAtomic(`/proc/${pid}/cgroup`, `0::${cgroup}\n`);
    expect(await readStaticPodState(files, keys)).toEqual({ stale: STATIC_PODS, oldApiServers: [] });
  });
});
