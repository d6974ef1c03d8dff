import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { FakeClock } from '../../internal/testing/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { mayCreateCas, type EtcdDiskState } from './pki/disk-state.ts';
import { ensureCa, ensureLeaf } from './pki/ensure-certificates.ts';
import {
  buildEtcdConfig,
  buildEtcdUnit,
  urlOf,
  type EtcdSettings,
  type MemberOrigin,
} from './unit/etcd-unit.ts';
import { ETCD_INSTANCES, ETCD_PORTS, KUBERNETES_ETCD, STATE_ETCD } from './etcd-instances.ts';
import { consensusLayout } from './consensus-layout.ts';

const layout = consensusLayout('/var/lib/cluster', 'kubernetes');
const settings: EtcdSettings = {
  etcd: KUBERNETES_ETCD,
  etcdBinary: '/opt/cluster/bin/etcd',
  layout,
  nodeId: 'node-1',
  address: '192.0.2.1',
  clusterId: 'c0ffee',
  ports: ETCD_PORTS.kubernetes,
  quotaBytes: 1024,
};

describe('mayCreateCas()', () => {
  const ca = layout.clientsCa.certFile;
  const cases: readonly { name: string; given: EtcdDiskState; want: boolean | string }[] = [
    { name: 'an empty disk', given: { hasData: false, wasMember: false, missing: [ca] }, want: true },
    {
      name: 'a disk after a crash before etcd ran',
      given: { hasData: false, wasMember: false, missing: [] },
      want: false,
    },
    { name: 'the disk of a member', given: { hasData: true, wasMember: true, missing: [] }, want: false },
    {
      name: 'a disk after a crash during the first start of etcd',
      given: { hasData: true, wasMember: false, missing: [] },
      want: false,
    },
    {
      name: 'a disk with etcd data but without a CA certificate',
      given: { hasData: true, wasMember: false, missing: [ca] },
      want: 'consensus-pki-missing',
    },
    {
      name: 'the disk of a former member that lost its CA certificate and data',
      given: { hasData: false, wasMember: true, missing: [ca] },
      want: 'consensus-pki-missing',
    },
    {
      name: 'the disk of a former member that lost its data',
      given: { hasData: false, wasMember: true, missing: [] },
      want: 'consensus-data-missing',
    },
  ];
  test.each(cases)('result for $name: $want', ({ given, want }) => {
    const at = { layout, createsCluster: true, alone: true };
    if (typeof want === 'boolean') expect(mayCreateCas(given, at)).toBe(want);
    else expect(() => mayCreateCas(given, at)).toThrow(expect.objectContaining({ code: want }));
  });

  test('refuses a joining node that has no CA keys yet', () => {
    const at = { layout, createsCluster: false, alone: false };
    const fresh = { hasData: false, wasMember: false, missing: [ca] };
    expect(() => mayCreateCas(fresh, at)).toThrow(
      expect.objectContaining({ code: 'consensus-keys-awaited' }),
    );
    expect(mayCreateCas({ ...fresh, missing: [] }, at)).toBe(false);
  });

  test('lets a member without data join again, but refuses it if it is the only node', () => {
    const lost = { hasData: false, wasMember: true, missing: [] };
    expect(mayCreateCas(lost, { layout, createsCluster: false, alone: false })).toBe(false);
    expect(() => mayCreateCas(lost, { layout, createsCluster: false, alone: true })).toThrow(
      expect.objectContaining({ code: 'consensus-data-missing' }),
    );
  });
});

describe('buildEtcdConfig()', () => {
  const configOf = (over: Partial<EtcdSettings> = {}, origin: MemberOrigin = { kind: 'first' }) =>
    JSON.parse(buildEtcdConfig({ ...settings, ...over }, origin)) as Record<string, unknown>;

  test('etcd listens for clients on loopback and node address, for peers on the node address, and requires certificates', () => {
    expect(configOf()).toMatchObject({
      'listen-client-urls': 'https://127.0.0.1:2379,https://192.0.2.1:2379',
      'listen-peer-urls': 'https://192.0.2.1:2380',
      'client-transport-security': { 'client-cert-auth': true, 'trusted-ca-file': layout.trustedClientsCa },
      'peer-transport-security': { 'client-cert-auth': true, 'trusted-ca-file': layout.trustedPeersCa },
      'enable-grpc-gateway': false,
    });
  });

  test('etcd trusts different CAs for clients and for peers', () => {
    expect(layout.trustedClientsCa).not.toBe(layout.trustedPeersCa);
    expect(layout.clientsCa.keyFile).not.toBe(layout.peersCa.keyFile);
  });

  test('etcd sends progress notifications to watches every 5 s, as kubeadm configures it', () => {
    expect(configOf()['watch-progress-notify-interval']).toBe(5_000_000_000);
  });

  test('writes IPv6 addresses in brackets', () => {
    expect(urlOf('2001:db8::1', 2380)).toBe('https://[2001:db8::1]:2380');
    expect(configOf({ address: '2001:db8::1' })['initial-cluster']).toBe('node-1=https://[2001:db8::1]:2380');
  });

  test('the configuration of an added member lists all members and joins the existing cluster', () => {
    const members = { 'node-1': 'https://192.0.2.1:2380', 'node-2': 'https://192.0.2.2:2380' };
    expect(configOf({}, { kind: 'added', members })).toMatchObject({
      'initial-cluster': 'node-1=https://192.0.2.1:2380,node-2=https://192.0.2.2:2380',
      'initial-cluster-state': 'existing',
    });
  });
});

test('buildEtcdUnit() runs etcd without root and capabilities, with access only to its own state directory', () => {
  const unit = buildEtcdUnit(settings);
  const value = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];
  expect(value('User')).toBe('cluster-etcd-kubernetes');
  expect([value('Restart'), value('StartLimitIntervalSec')]).toEqual(['always', '0']); // systemd restarts etcd, no matter how often etcd exits
  expect(value('CapabilityBoundingSet')).toBe('');
  expect(value('NoNewPrivileges')).toBe('yes');
  expect(value('TemporaryFileSystem')).toBe('/var/lib/cluster:ro');
  expect(value('BindPaths')).toBe('/var/lib/cluster/etcd-kubernetes');
  expect(value('ReadWritePaths')).toBe('/var/lib/cluster/etcd-kubernetes/data');
  for (const secret of [layout.clientsCa.keyFile, layout.peersCa.keyFile, layout.user('root').keyFile])
    expect(secret.startsWith(`${layout.etcdHome}/`)).toBe(false);
});

describe('the two etcd clusters', () => {
  test('the state etcd lets curators write and the signer read the records, and gives Kubernetes no client certificate', () => {
    const { access = [], clients } = STATE_ETCD;
    expect(Object.fromEntries(access.map(({ name, permissions: grants }) => [name, grants]))).toEqual({
      root: [],
      curator: [{ kind: 'prefix', prefix: '/cluster/' }],
      signer: [{ kind: 'prefix', prefix: '/cluster/', access: 'read' }],
    });
    expect(clients).toEqual(['root', 'curator', 'signer']);
  });

  test('the Kubernetes etcd has no access control, and gives curator and signer no client certificate', () => {
    expect(KUBERNETES_ETCD.access).toBeUndefined();
    expect(KUBERNETES_ETCD.clients).toEqual(['root', 'apiserver']);
  });

  test('the two etcd clusters share no unit, user, port, directory or CA', () => {
    const all = Object.values(ETCD_INSTANCES).map((etcd) => {
      const { root, etcdHome } = consensusLayout('/state', etcd.name);
      const { unit, systemUser, cas } = etcd;
      const { client, peer, metrics } = ETCD_PORTS[etcd.name];
      return [root, etcdHome, unit, systemUser, cas.clients, cas.peers, client, peer, metrics];
    });
    expect(new Set(all.flat()).size).toBe(all.flat().length);
  });
});

describe('certificates of etcd', () => {
  const DAY_MS = 86_400_000;
  const template = {
    commonName: 'node-1',
    usages: ['server'],
    names: [
      { type: 'ip', value: '192.0.2.1' },
      { type: 'dns', value: 'localhost' },
    ],
  } as const;

  async function createPki() {
    const clock = new FakeClock();
    const kept = new Map<string, string>();
    const ports = { files: memoryFiles(kept), clock };
    const signer = await ensureCa(ports, layout.clientsCa, { commonName: 'x', mayCreate: true });
    const ensure = (over: Partial<typeof template> = {}) =>
      ensureLeaf(ports, layout.server, { signer, template: { ...template, ...over }, validDays: 365 });
    return { clock, kept, ports, signer, ensure };
  }

  test('ensureCa() creates a CA only once, even after a crash between its two files', async () => {
    const { kept, ports, signer } = await createPki();
    const again = await ensureCa(ports, layout.clientsCa, { commonName: 'x', mayCreate: true });
    expect(again.caPem).toBe(signer.caPem);
    const key = kept.get(layout.clientsCa.keyFile);
    kept.delete(layout.clientsCa.certFile);
    await ensureCa(ports, layout.clientsCa, { commonName: 'x', mayCreate: true });
    expect(kept.get(layout.clientsCa.keyFile)).toBe(key);
  });

  test.each([
    {
      name: 'of another key',
      damage: (kept: Map<string, string>, other: string) => kept.set(layout.clientsCa.keyFile, other),
    },
    {
      name: 'that is unreadable',
      damage: (kept: Map<string, string>) => kept.set(layout.clientsCa.certFile, 'x'),
    },
    { name: 'that is empty', damage: (kept: Map<string, string>) => kept.set(layout.clientsCa.certFile, '') },
  ])('ensureCa() refuses a certificate $name and changes nothing', async ({ damage }) => {
    const { kept, ports } = await createPki();
    const other = await createPki();
    damage(kept, other.kept.get(layout.clientsCa.keyFile) ?? '');
    const before = new Map(kept);
    await expect(
      ensureCa(ports, layout.clientsCa, { commonName: 'x', mayCreate: false }),
    ).rejects.toMatchObject({
      code: 'consensus-pki-damaged',
      details: { path: layout.clientsCa.certFile },
    });
    expect(kept).toEqual(before);
  });

  test('ensureLeaf() renews a certificate with a lifetime of minutes after two thirds of its lifetime, and keeps the key', async () => {
    const { clock, kept, ports, signer } = await createPki();
    const ensure = () => ensureLeaf(ports, layout.server, { signer, template, validDays: 6 / (24 * 60) });
    expect(await ensure()).toBe(true);
    const key = kept.get(layout.server.keyFile);
    await clock.advance(3.9 * 60_000);
    expect(await ensure()).toBe(false);
    await clock.advance(0.2 * 60_000);
    expect(await ensure()).toBe(true);
    expect(kept.get(layout.server.keyFile)).toBe(key);
  });

  test('ensureLeaf() keeps a valid certificate', async () => {
    const { clock, kept, ensure } = await createPki();
    expect(await ensure()).toBe(true);
    const before = new Map(kept);
    await clock.advance(240 * DAY_MS);
    expect(await ensure()).toBe(false);
    expect(kept).toEqual(before);
  });

  test.each([
    {
      name: 'less than a third of its lifetime of one year is left',
      change: async ({ clock }: Pki) => clock.advance(250 * DAY_MS),
    },
    { name: 'the node has another address', over: { names: [{ type: 'ip', value: '192.0.2.2' }] } },
    { name: 'the node has another name', over: { commonName: 'node-2' } },
    {
      name: 'a crash left a new key with the old certificate',
      change: async ({ kept }: Pki) =>
        void kept.set(layout.server.keyFile, kept.get(layout.clientsCa.keyFile) ?? ''),
    },
    {
      name: 'the certificate is missing',
      change: async ({ kept }: Pki) => void kept.delete(layout.server.certFile),
    },
    {
      name: 'the certificate is unreadable',
      change: async ({ kept }: Pki) => void kept.set(layout.server.certFile, '-----'),
    },
  ] as readonly LeafCase[])('ensureLeaf() replaces a certificate when $name', async ({ change, over }) => {
    const pki = await createPki();
    await pki.ensure();
    await change?.(pki);
    expect(await pki.ensure(over as Partial<typeof template>)).toBe(true);
    expect(await pki.ensure(over as Partial<typeof template>)).toBe(false);
    const certificate = new X509Certificate(pki.kept.get(layout.server.certFile) ?? '');
    expect(certificate.verify(new X509Certificate(pki.signer.caPem).publicKey)).toBe(true);
  });

  type Pki = Awaited<ReturnType<typeof createPki>>;
  interface LeafCase {
    readonly name: string;
    readonly change?: (pki: Pki) => Promise<void>;
    readonly over?: object;
  }
});

/** The file operations that the creation of keys needs, in memory. */
function memoryFiles(kept: Map<string, string>): FilePort {
  const files: Pick<FilePort, 'read' | 'writeAtomic' | 'createExclusive'> = {
    read: async (path) => {
      const text = kept.get(path);
      return text === undefined ? undefined : new TextEncoder().encode(text);
    },
    writeAtomic: async (path, data) => void kept.set(path, data as string),
    createExclusive: async (path, data) => {
      if (kept.has(path)) return false;
      kept.set(path, data as string);
      return true;
    },
  };
  return files as FilePort;
}
