import { beforeEach, describe, expect, test } from '@jest/globals';
import { verify, X509Certificate } from 'node:crypto';
import {
  createClusterCa,
  publicHalvesOf,
  signingClusterCa,
  trustedClusterCas,
  trustedPem,
  encodeKeySet,
  KEY_PHASES,
  createPairs,
  createServersCa,
  kubeletTrustPem,
  DISK_SHARES_FILE,
  SERVERS_CA,
  serversTrustPem,
  type KeySet,
  ROTATION_FILE,
} from '../../internal/keyset/index.ts';
import {
  certificatesIn,
  createCaCertPem,
  generateKeyPem,
  type KeyCertificateSigner,
  pubKeyDerOf,
} from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import { CONTROL_PLANE_KEYS, KeyRing } from './key-ring.ts';

const nowMs = () => Date.now();
const [first, second] = [await createPairs(2, nowMs()), await createPairs(3, nowMs())];
const at = (phase: KeySet['phase']): KeySet => ({ generation: 3, phase, previous: first, next: second });

let files: MemoryFiles;
let ring: KeyRing;

beforeEach(async () => {
  files = new MemoryFiles();
  await files.makeDirectory('/keys');
  for (const name of CONTROL_PLANE_KEYS) await files.writeAtomic(`/keys/${name}`, `text of ${name}`);
  ring = new KeyRing({ files, directory: '/keys', nowMs });
});

const place = (set: KeySet): Promise<void> =>
  files.writeAtomic(`/keys/${ROTATION_FILE}`, encodeKeySet(set).reveal());

test('trustedClusterCas() returns the CA that signs, or all CAs that members trust during a rotation', async () => {
  await files.writeAtomic('/keys/cluster-ca.crt', 'FIRST');
  expect(await ring.trustedClusterCas()).toBe('FIRST');
  const [previous, next] = [await createClusterCa(2, nowMs()), await createClusterCa(3, nowMs())];
  const rotating = (phase: KeySet['phase']): KeySet => ({
    ...{ generation: 3, phase },
    previous: { ...first, 'cluster-ca': previous },
    next: { ...second, 'cluster-ca': next },
  });
  await place(rotating('distribute'));
  expect(await ring.trustedClusterCas()).toBe('FIRST');
  await place(rotating('refresh'));
  expect(await ring.trustedClusterCas()).toBe(`${previous.public}${next.public}`);
  await place(rotating('retire'));
  expect(await ring.trustedClusterCas()).toBe(next.public);
});

test.each(KEY_PHASES)(
  'signAsClusterCa() signs in phase %s with a CA that all members trust, also those that are one phase behind',
  async (phase) => {
    const [previous, next] = [await createClusterCa(2, nowMs()), await createClusterCa(3, nowMs())];
    const rotating = (at: KeySet['phase']): KeySet => ({
      ...{ generation: 3, phase: at },
      previous: { ...first, 'cluster-ca': previous },
      next: { ...second, 'cluster-ca': next },
    });
    const set = rotating(phase);
    await place(set);
    // As the agent writes them (bootstrapper/keyrotation/install-shared-keys.ts).
    const active = signingClusterCa(set) ?? previous;
    await files.writeAtomic('/keys/cluster-ca.crt', active.public);
    await files.writeAtomic('/keys/cluster-ca.key', active.private.reveal());
    const statement = new Uint8Array(8);
    const signature = await ring.signAsClusterCa(statement);
    const isTrustedIn = (at: KeySet['phase']): boolean =>
      certificatesIn(trustedClusterCas(at, publicHalvesOf(rotating(at))) ?? previous.public).some((pem) => {
        const { publicKey: key } = new X509Certificate(pem);
        return verify('sha256', statement, { key, dsaEncoding: 'ieee-p1363' }, signature);
      });
    const before = KEY_PHASES[KEY_PHASES.indexOf(phase) - 1] ?? phase;
    expect([isTrustedIn(phase), isTrustedIn(before)]).toEqual([true, true]);
  },
);

describe('kubernetesClients()', () => {
  test('kubernetesClients() returns the Kubernetes CA before the first rotation', async () => {
    const { public: caPem, private: keyPem } = first['kubernetes-clients-ca'];
    await files.writeAtomic('/keys/kubernetes-ca.crt', caPem);
    await files.writeAtomic('/keys/kubernetes-ca.key', keyPem.reveal());
    const { signer, trustedPem: trusted } = await ring.kubernetesClients();
    expect(signer.caPem).toBe(caPem);
    expect(trusted).toBeUndefined();
  });

  test.each(KEY_PHASES)(
    'kubernetesClients() signs in phase %s with a CA that all nodes trust',
    async (phase) => {
      await place(at(phase));
      const { signer, trustedPem: trusted } = await ring.kubernetesClients();
      expect(trusted).toBe(trustedPem(at(phase), 'kubernetes-clients-ca'));
      expect(trusted).toContain(signer.caPem.trim());
      const leaf = { commonName: 'x', usages: ['client'], names: [], validDays: 1 } as const;
      const issued = await signer.issue({ ...leaf, pubKeyDer: pubKeyDerOf(generateKeyPem()) });
      expect(new X509Certificate(issued).verify(new X509Certificate(signer.caPem).publicKey)).toBe(true);
    },
  );

  test('kubernetesClients() refuses a damaged file', async () => {
    await files.writeAtomic(`/keys/${ROTATION_FILE}`, '{}');
    await expect(ring.kubernetesClients()).rejects.toMatchObject({ code: 'keyset-invalid' });
  });
});

describe('kubernetesServers()', () => {
  const leaf = { commonName: 'x', usages: ['server'], names: [], validDays: 1 } as const;
  const issue = (signer: KeyCertificateSigner): Promise<string> =>
    signer.issue({ ...leaf, pubKeyDer: pubKeyDerOf(generateKeyPem()) });
  const withServersCa = async () => {
    const key = generateKeyPem();
    const old = await createCaCertPem({
      commonName: 'kubernetes',
      keyPem: key,
      nowMs: nowMs(),
      pathLength: 1,
    });
    const previous = { public: old, private: key };
    return { previous, next: await createServersCa(3, nowMs(), previous) };
  };

  test('returns the Kubernetes CA before the first rotation, and after a rotation by an earlier version', async () => {
    const { previous } = await withServersCa();
    await files.writeAtomic('/keys/kubernetes-ca.crt', previous.public);
    await files.writeAtomic('/keys/kubernetes-ca.key', previous.private.reveal());
    for (const isRotated of [false, true]) {
      if (isRotated) await place(at('done'));
      const { signer, trustedPem: trusted, kubeletTrustedPem } = await ring.kubernetesServers();
      expect([signer.caPem, trusted, kubeletTrustedPem]).toEqual([
        previous.public,
        previous.public,
        previous.public,
      ]);
    }
  });

  test('signs with the next CA and its cross-certificate from phase `issue` on, whatever the files of the Kubernetes CA are', async () => {
    const { previous, next } = await withServersCa();
    const seen: unknown[] = [];
    for (const phase of KEY_PHASES) {
      const set = at(phase);
      const both = {
        previous: { ...set.previous, [SERVERS_CA]: previous },
        next: { ...set.next, [SERVERS_CA]: next },
      };
      await place({ ...set, ...both });
      const { signer, trustedPem: trusted, kubeletTrustedPem } = await ring.kubernetesServers();
      const cas = { previous: previous.public, next: next.public };
      expect([trusted, kubeletTrustedPem]).toEqual([
        serversTrustPem(phase, cas),
        kubeletTrustPem(phase, cas),
      ]);
      const issued = await issue(signer);
      expect(new X509Certificate(issued).verify(new X509Certificate(signer.caPem).publicKey)).toBe(true);
      seen.push([signer.caPem === next.public, issued.endsWith(next.cross ?? 'none')]);
    }
    const [byPrevious, byNext] = [
      [false, false],
      [true, true],
    ];
    expect(seen).toEqual([byPrevious, byPrevious, byNext, byNext, byNext, byNext]);
  });
});

describe('controlPlaneKeys()', () => {
  const sealed = async (): Promise<Record<string, string>> =>
    JSON.parse(Buffer.from((await ring.controlPlaneKeys()).reveal()).toString('utf8')) as Record<
      string,
      string
    >;

  test('controlPlaneKeys() returns the secret for disk shares if it exists', async () => {
    await files.writeAtomic(`/keys/${DISK_SHARES_FILE}`, 'ab'.repeat(32));
    expect(await sealed()).toMatchObject({ [DISK_SHARES_FILE]: 'ab'.repeat(32) });
  });

  test('controlPlaneKeys() returns all keys, and the rotation file if it exists', async () => {
    expect(Object.keys(await sealed())).toEqual([...CONTROL_PLANE_KEYS]);
    await place(at('trust'));
    expect(await sealed()).toMatchObject({ [ROTATION_FILE]: encodeKeySet(at('trust')).reveal() });
  });

  test('controlPlaneKeys() fails if a key is missing', async () => {
    await files.remove('/keys/encryption.json');
    await expect(sealed()).rejects.toMatchObject({ code: 'signer-key-missing' });
  });
});
