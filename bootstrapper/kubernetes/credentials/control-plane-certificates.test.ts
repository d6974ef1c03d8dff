import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { DEFAULT_CERTIFICATES } from '../../../internal/config/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';
import { FakeClock, MemoryFiles } from '../../../internal/testing/index.ts';
import { createPairs, createServersCa, SERVERS_CA } from '../../../internal/keyset/index.ts';
import { createComponentCredentials } from './component-credentials.ts';
import { COMPONENT_CLIENTS } from './key-files.ts';
import { controlPlaneCertificateTimes, renewControlPlaneCertificates } from './control-plane-certificates.ts';
import { PATHS } from '../settings.ts';
import { placeKubernetesKeys } from './shared-keys.ts';

const DAY_MS = 24 * 3600 * 1000;
const YEAR = { controlPlaneMinutes: 365 * 24 * 60 };

/**
 * Files of a control plane as kubeadm creates them, with certificates of two CAs that are valid for one year.
 */
async function createDisk() {
  const files = new MemoryFiles();
  const clock = new FakeClock();
  const nowMs = () => clock.nowMs();
  await files.makeDirectory(PATHS.pki);
  const signers: Record<string, KeyCertificateSigner> = {};
  for (const name of ['ca', 'front-proxy-ca']) {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: name, keyPem, nowMs: nowMs() });
    await files.writeAtomic(`${PATHS.pki}/${name}.crt`, caPem);
    await files.writeAtomic(`${PATHS.pki}/${name}.key`, keyPem.reveal());
    signers[name] = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  }
  const issue = async (ca: string, commonName: string): Promise<string> =>
    (await signers[ca]?.issue({
      ...{ commonName, names: [], validDays: 365 },
      usages: [commonName === 'apiserver' ? 'server' : 'client'],
      pubKeyDer: pubKeyDerOf(generateKeyPem()),
    })) ?? '';
  for (const name of ['apiserver', 'apiserver-kubelet-client'])
    await files.writeAtomic(`${PATHS.pki}/${name}.crt`, await issue('ca', name));
  await files.writeAtomic(`${PATHS.pki}/front-proxy-client.crt`, await issue('front-proxy-ca', 'front'));
  const admin = Buffer.from(await issue('ca', 'kubernetes-admin')).toString('base64');
  await files.writeAtomic(
    PATHS.adminConf,
    `clusters:\n- cluster:\n    certificate-authority-data: T0xE\nusers:\n- user:\n    client-certificate-data: ${admin}\n    client-key-data: c2VjcmV0\n`,
  );
  const ports = { files, clock };
  await createComponentCredentials(ports, { nodeAddress: '198.18.0.11', certificates: DEFAULT_CERTIFICATES });
  const text = async (path: string): Promise<string> =>
    Buffer.from((await files.read(path, 65_536)) ?? []).toString('utf8');
  return { files, clock, ports, text };
}

describe('renewControlPlaneCertificates()', () => {
  test('keeps certificates with more than a third of their lifetime left', async () => {
    const { clock, ports } = await createDisk();
    await clock.advance(243 * DAY_MS);
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([]);
  });

  test('renews each certificate once after two thirds of its lifetime, with its CA and for its existing key', async () => {
    const { clock, ports, text } = await createDisk();
    const before = new X509Certificate(await text(`${PATHS.pki}/apiserver.crt`));
    await clock.advance(244 * DAY_MS);
    expect(await renewControlPlaneCertificates(ports, YEAR)).toHaveLength(6);
    const after = new X509Certificate(await text(`${PATHS.pki}/apiserver.crt`));
    expect(after.publicKey.equals(before.publicKey)).toBe(true);
    expect(Date.parse(after.validTo) - clock.nowMs()).toBe(365 * DAY_MS);
    const front = new X509Certificate(await text(`${PATHS.pki}/front-proxy-client.crt`));
    expect(front.issuer).toBe('CN=front-proxy-ca');
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([]);
  });

  test('reissues certificates of a replaced CA for their keys, and reissues none before the first rotation', async () => {
    const { clock, files, ports, text } = await createDisk();
    const [previous, next] = [await createPairs(1, clock.nowMs()), await createPairs(2, clock.nowMs())];
    const before = { kubelets: await text(`${PATHS.pki}/apiserver-kubelet-client.crt`) };
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([]);
    await placeKubernetesKeys(files, { generation: 2, phase: 'issue', previous, next });
    const settings = { nodeAddress: '198.18.0.11', certificates: DEFAULT_CERTIFICATES };
    await createComponentCredentials(ports, settings);
    const others = ['apiserver-kubelet-client', 'front-proxy-client'].map(
      (name) => `${PATHS.pki}/${name}.crt`,
    );
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([...others, PATHS.adminConf]);
    const toKubelets = new X509Certificate(await text(others[0] ?? ''));
    expect(toKubelets.issuer).toBe('CN=kubernetes clients 2');
    expect(toKubelets.publicKey.equals(new X509Certificate(before.kubelets).publicKey)).toBe(true);
    expect(new X509Certificate(await text(COMPONENT_CLIENTS.scheduler.cert)).issuer).toBe(
      'CN=kubernetes clients 2',
    );
    expect(new X509Certificate(await text(`${PATHS.pki}/apiserver.crt`)).issuer).toBe('CN=ca');
    // These components call a server. A rotation of an earlier version keeps the CA of servers.
    expect(await text(`${COMPONENT_CLIENTS.scheduler.directory}/ca.crt`)).toBe(
      await text(`${PATHS.pki}/ca.crt`),
    );
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([]);
  });

  test('reissues the certificate of the API server with the cross-certificate, and replaces the CAs that its clients trust', async () => {
    const { clock, files, ports, text } = await createDisk();
    const [previous, next] = [await createPairs(1, clock.nowMs()), await createPairs(2, clock.nowMs())];
    const [old, pathLength] = [generateKeyPem(), 1] as const;
    const first = {
      public: await createCaCertPem({ commonName: 'ca', keyPem: old, nowMs: clock.nowMs(), pathLength }),
      private: old,
    };
    const servers = await createServersCa(2, clock.nowMs(), first);
    await placeKubernetesKeys(files, {
      ...{ generation: 2, phase: 'issue' },
      previous: { ...previous, [SERVERS_CA]: first },
      next: { ...next, [SERVERS_CA]: servers },
    });
    await createComponentCredentials(ports, {
      nodeAddress: '198.18.0.11',
      certificates: DEFAULT_CERTIFICATES,
    });
    expect(await renewControlPlaneCertificates(ports, YEAR)).toContain(`${PATHS.pki}/apiserver.crt`);
    const chain = await text(`${PATHS.pki}/apiserver.crt`);
    expect(new X509Certificate(chain).issuer).toBe('CN=kubernetes 2');
    expect(chain.endsWith(servers.cross ?? 'none')).toBe(true);
    const trusted = `${first.public}${servers.public}`;
    expect(await text(`${COMPONENT_CLIENTS.scheduler.directory}/ca.crt`)).toBe(trusted);
    const data = /certificate-authority-data: (\S+)/.exec(await text(PATHS.adminConf))?.[1] ?? '';
    expect(Buffer.from(data, 'base64').toString('utf8')).toBe(trusted);
    expect(await renewControlPlaneCertificates(ports, YEAR)).toEqual([]);
  });

  test('renews an expired certificate in a kubeconfig and does not replace the key', async () => {
    const { clock, ports, text } = await createDisk();
    await clock.advance(400 * DAY_MS);
    expect(await renewControlPlaneCertificates(ports, YEAR)).toContain(PATHS.adminConf);
    const config = await text(PATHS.adminConf);
    expect(config).toContain('client-key-data: c2VjcmV0');
    const data = /client-certificate-data: (\S+)/.exec(config)?.[1] ?? '';
    const certificate = new X509Certificate(Buffer.from(data, 'base64').toString('utf8'));
    expect(certificate.subject).toBe('CN=kubernetes-admin');
    expect(Date.parse(certificate.validTo)).toBeGreaterThan(clock.nowMs());
  });

  test('renews the other certificates when one renewal fails, and rejects', async () => {
    const { clock, files, ports, text } = await createDisk();
    await files.remove(`${PATHS.pki}/front-proxy-ca.key`);
    await clock.advance(244 * DAY_MS);
    await expect(renewControlPlaneCertificates(ports, YEAR)).rejects.toMatchObject({
      code: 'kubernetes-credentials-missing',
    });
    const scheduler = new X509Certificate(await text(COMPONENT_CLIENTS.scheduler.cert));
    expect(Date.parse(scheduler.validTo) - clock.nowMs()).toBe(365 * DAY_MS);
  });

  test('controlPlaneCertificateTimes() lists only readable certificates', async () => {
    const { files } = await createDisk();
    expect(await controlPlaneCertificateTimes(files)).toHaveLength(6);
    await files.writeAtomic(`${PATHS.pki}/apiserver.crt`, 'no certificate');
    await files.remove(PATHS.adminConf);
    expect(await controlPlaneCertificateTimes(files)).toHaveLength(4);
    expect(await controlPlaneCertificateTimes(new MemoryFiles())).toEqual([]);
  });
});

describe('createComponentCredentials()', () => {
  test('writes kubeconfigs that refer to files, and keeps valid certificates', async () => {
    const { clock, ports, text } = await createDisk();
    const { conf, cert, key, user } = COMPONENT_CLIENTS.scheduler;
    const before = [await text(conf), await text(cert), await text(key)];
    expect(new X509Certificate(before[1] ?? '').subject).toBe(`CN=${user}`);
    expect(JSON.parse(before[0] ?? '')).toMatchObject({
      clusters: [{ cluster: { server: 'https://198.18.0.11:6443' } }],
      users: [{ user: { 'client-certificate': cert, 'client-key': key } }],
    });
    await clock.advance(DAY_MS);
    await createComponentCredentials(ports, {
      nodeAddress: '198.18.0.11',
      certificates: DEFAULT_CERTIFICATES,
    });
    expect([await text(conf), await text(cert), await text(key)]).toEqual(before);
  });
});
