import { beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import {
  createCaCertPem,
  generateKeyPem,
  nodeIdOf,
  pubKeyDerOf,
  spkiDerOf,
  verifyControlPlaneCertificate,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import {
  curatorCertificateTimes,
  ensureCuratorCredentials,
  removeCuratorCredentials,
} from './curator-credentials.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const HOUR_MS = 60 * 60_000;
const clusterId = 'c0ffee';
const machine = machineOf();

let files: MemoryFiles;
let clock: FakeClock;
let membership: Membership;

function machineOf() {
  const key = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const keyPem = new Secret(key.toString());
  return { keyPem, pubKeyDer: pubKeyDerOf(keyPem) };
}

beforeEach(async () => {
  files = new MemoryFiles();
  clock = new FakeClock();
  await files.makeDirectory(AGENT_PATHS.ca);
  const caPem = await placeCa();
  membership = {
    ...{ clusterId, clusterName: 'blue', clusterCaPem: caPem, epoch: 1, nodeCertPem: '' },
    ...{ nodeId: nodeIdOf(machine.pubKeyDer), nodeName: 'c1', nodeAddress: '192.0.2.1', directory: [] },
  };
});

/** Creates a CA and installs it as the signing CA of this node. */
async function placeCa(): Promise<string> {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: clock.nowMs() });
  await files.writeAtomic(`${AGENT_PATHS.ca}/ca.crt`, caPem);
  await files.writeAtomic(`${AGENT_PATHS.ca}/ca.key`, keyPem.reveal());
  return caPem;
}

const ensure = () =>
  ensureCuratorCredentials(
    { files, nowMs: () => clock.nowMs() },
    { membership, machine, validMinutes: 7 * 24 * 60 },
  );
const read = async (path: string) => Buffer.from((await files.read(path, 65_536)) ?? []).toString('utf8');
const shown = async () => new X509Certificate(await read(AGENT_PATHS.curatorCert));

describe('ensureCuratorCredentials()', () => {
  test('issues a certificate of this control plane for a key other than the machine key', async () => {
    const at = await ensure();
    const certificate = await shown();
    const trust = { caPem: membership.clusterCaPem, clusterId, nowMs: () => clock.nowMs() };
    expect(verifyControlPlaneCertificate(certificate, trust)).toEqual({
      clusterId,
      nodeId: membership.nodeId,
    });
    expect(spkiDerOf(certificate.publicKey)).toEqual(pubKeyDerOf(new Secret(await read(at.keyFile))));
    expect(spkiDerOf(certificate.publicKey)).not.toEqual(machine.pubKeyDer);
  });

  test('keeps a valid key and certificate at the next start', async () => {
    await ensure();
    const before = await read(AGENT_PATHS.curatorCert);
    await clock.advance(HOUR_MS);
    await ensure();
    expect(await read(AGENT_PATHS.curatorCert)).toBe(before);
  });

  test.each([
    { name: 'two thirds of the lifetime are over', change: () => clock.advance(5 * 24 * HOUR_MS) },
    {
      name: 'the node has another address',
      change: () => void (membership = { ...membership, nodeAddress: '192.0.2.2' }),
    },
    {
      name: 'the key file holds another key',
      change: () => files.writeAtomic(AGENT_PATHS.curatorKey, generateKeyPem().reveal()),
    },
    { name: 'the certificate is damaged', change: () => files.writeAtomic(AGENT_PATHS.curatorCert, 'x') },
    { name: 'the key is missing', change: () => files.remove(AGENT_PATHS.curatorKey) },
  ])('creates a new key and certificate if $name', async ({ change }) => {
    await ensure();
    const before = await shown();
    await change();
    await ensure();
    expect(spkiDerOf((await shown()).publicKey)).not.toEqual(spkiDerOf(before.publicKey));
  });

  test('issues a new certificate from the next CA when the cluster CA is replaced', async () => {
    await ensure();
    const before = membership.clusterCaPem;
    const next = await placeCa();
    membership = { ...membership, clusterCaPem: `${before}${next}` };
    await ensure();
    const trust = { caPem: next, clusterId, nowMs: () => clock.nowMs() };
    expect(verifyControlPlaneCertificate(await shown(), trust)).toMatchObject({ clusterId });
  });

  test('issues no certificate from a CA that this member does not trust yet', async () => {
    await ensure();
    const before = await read(AGENT_PATHS.curatorCert);
    await placeCa();
    await expect(ensure()).rejects.toMatchObject({ code: 'units-no-cluster-ca' });
    expect(await read(AGENT_PATHS.curatorCert)).toBe(before);
  });

  test.each([
    { name: 'is missing', change: () => files.remove(`${AGENT_PATHS.ca}/ca.key`) },
    {
      name: 'belongs to another cluster',
      change: () => files.writeAtomic(`${AGENT_PATHS.ca}/ca.crt`, 'other'),
    },
  ])('creates nothing if the cluster CA $name', async ({ change }) => {
    await change();
    await expect(ensure()).rejects.toMatchObject({ code: 'units-no-cluster-ca', retryable: true });
  });
});

test('curatorTimes() reports a damaged certificate as due, and nothing where there is no certificate', async () => {
  expect(await curatorCertificateTimes(files)).toEqual([]);
  await ensure();
  expect((await curatorCertificateTimes(files))[0]?.notAfterMs).toBeGreaterThan(clock.nowMs());
  await files.writeAtomic(AGENT_PATHS.curatorCert, 'x');
  expect(await curatorCertificateTimes(files)).toEqual([{ issuedMs: 0, notAfterMs: 0 }]);
});

test('removeCuratorCredentials() deletes key and certificate', async () => {
  await ensure();
  await removeCuratorCredentials(files);
  expect([await files.stat(AGENT_PATHS.curatorKey), await files.stat(AGENT_PATHS.curatorCert)]).toEqual([
    undefined,
    undefined,
  ]);
});
