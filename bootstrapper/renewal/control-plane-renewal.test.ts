import { describe, expect, test } from '@jest/globals';
import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  renewalTimeOf,
} from '../../internal/pki/index.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { FakeClock, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { createFakeRoleValues } from '../roleserve/fake-role-values.ts';
import type { Renewal } from './renewal-worker.ts';
import {
  certificateLifetimes,
  controlPlaneRenewals,
  kubeletServingRenewal,
} from './control-plane-renewal.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const never = new AbortController().signal;
const DAY_MS = 24 * 3600 * 1000;
const settings = {
  ...{ clusterName: 'blue', kubernetesVersion: 'v1.35.4', podSubnet: '', serviceSubnet: '' },
  ...{ apiServerSans: [], bundleManifest: '' },
};

async function createNode() {
  const [files, clock, values] = [new MemoryFiles(), new FakeClock(), createFakeRoleValues()];
  const keyPem = generateKeyPem();
  const nowMs = () => clock.nowMs();
  const caPem = await createCaCertPem({ commonName: 'ca', keyPem, nowMs: nowMs() });
  const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  const leaf = { commonName: 'x', usages: ['client'], names: [], validDays: 90 } as const;
  const certPem = await signer.issue({ ...leaf, pubKeyDer: pubKeyDerOf(generateKeyPem()) });
  const layout = consensusLayout(AGENT_PATHS.state, 'state');
  const certificates = [layout.server, layout.peer, layout.user('root')].map(({ certFile }) => certFile);
  for (const path of [...certificates, `${PATHS.pki}/apiserver.crt`]) {
    await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await files.writeAtomic(path, certPem);
  }
  await files.writeAtomic(`${PATHS.pki}/ca.crt`, caPem);
  await files.writeAtomic(`${PATHS.pki}/ca.key`, keyPem.reveal());
  const done: string[] = [];
  const driver = {
    renewConsensus: () => Promise.resolve(void done.push('etcd')),
    renewCurator: () => Promise.resolve(void done.push('curator')),
  };
  const log = createMemoryLogger().log;
  await files.makeDirectory(AGENT_PATHS.credentials);
  await files.writeAtomic(AGENT_PATHS.curatorCert, certPem);
  const renewals = controlPlaneRenewals({ files, clock, log, reads: values, driver });
  return { clock, values, done, etcdRenewal: renewals.etcd, ...renewals };
}

const renew = async (renewal: Renewal) => (await renewal.prepare(never))(never);

const running = {
  apiServerEtcd: { endpoint: '', caFile: '', certFile: '', keyFile: '' },
  curatorEndpoint: '',
};

describe('controlPlaneRenewals()', () => {
  test('are not due before etcd serves', async () => {
    const { etcdRenewal, kubernetes } = await createNode();
    expect([await etcdRenewal.certificateTimes(never), await kubernetes.certificateTimes(never)]).toEqual([
      [],
      [],
    ]);
  });

  test('list when each certificate of etcd and of Kubernetes is due', async () => {
    const { values, clock, etcdRenewal, kubernetes } = await createNode();
    values.localControlPlane.set(running);
    const dueIn = (await etcdRenewal.certificateTimes(never)).map(
      (times) => renewalTimeOf(times) - clock.nowMs(),
    );
    expect(dueIn).toEqual([60 * DAY_MS, 60 * DAY_MS, 60 * DAY_MS]);
    expect(await kubernetes.certificateTimes(never)).toHaveLength(1);
  });

  test('the driver renews the etcd certificates', async () => {
    const { values, done, etcdRenewal } = await createNode();
    values.localControlPlane.set(running);
    expect(await renew(etcdRenewal)).toBeUndefined();
    expect(done).toEqual(['etcd']);
  });

  test('the curator certificate is due like the other certificates, and the driver issues it', async () => {
    const { values, done, curator } = await createNode();
    expect(await curator.certificateTimes(never)).toEqual([]);
    values.localControlPlane.set(running);
    expect(await curator.certificateTimes(never)).toHaveLength(1);
    expect(await renew(curator)).toBeUndefined();
    expect(done).toEqual(['curator']);
  });

  test('the Kubernetes certificates have the lifetime of the cluster settings', async () => {
    const { values, clock, kubernetes } = await createNode();
    const certificates = { ...DEFAULT_CERTIFICATES, controlPlaneMinutes: 30 * 24 * 60 };
    values.localControlPlane.set(running);
    values.clusterSettings.set({ ...settings, certificates });
    await clock.advance(61 * DAY_MS);
    await renew(kubernetes);
    const [times] = await kubernetes.certificateTimes(never);
    expect((times?.notAfterMs ?? 0) - clock.nowMs()).toBe(30 * DAY_MS);
  });
});

test('kubeletServingRenewal() is due while the kubelet serves an old certificate, and restarts the kubelet once', async () => {
  const [files, units] = [new MemoryFiles(), new FakeUnits()];
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  await files.writeAtomic(KUBELET_FILES.servingCert, 'renewed');
  units.active.add('kubelet.service');
  const renewal = kubeletServingRenewal({ files, units });
  expect(await renewal.certificateTimes(never)).toHaveLength(1);
  await renew(renewal);
  expect(units.moves).toEqual(['restart kubelet.service']);
  expect(await renewal.certificateTimes(never)).toEqual([]);
});

test('certificateLifetimes() returns the defaults if the cluster has no setting', () => {
  const values = createFakeRoleValues();
  expect(certificateLifetimes(values)).toEqual(DEFAULT_CERTIFICATES);
  values.clusterSettings.set(settings);
  expect(certificateLifetimes(values)).toEqual(DEFAULT_CERTIFICATES);
});
