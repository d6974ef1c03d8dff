import { beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import {
  createAuthorityPem,
  generateKeyPem,
  nodeIdOf,
  pubKeyOf,
  spkiOf,
  verifyControlPlane,
} from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import type { Membership } from '../enrolment/index.ts';
import { curatorTimes, ensureCuratorCredentials, removeCuratorCredentials } from './curator-credentials.ts';
import { PLACES } from './places.ts';

const HOUR_MS = 60 * 60_000;
const clusterId = 'c0ffee';
const machine = machineOf();

let files: MemoryFiles;
let clock: FakeClock;
let membership: Membership;

function machineOf() {
  const key = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
  const keyPem = new Secret(key.toString());
  return { keyPem, pubKeyDer: pubKeyOf(keyPem) };
}

beforeEach(async () => {
  files = new MemoryFiles();
  clock = new FakeClock();
  const keyPem = generateKeyPem();
  const caPem = await createAuthorityPem({ commonName: 'cluster', keyPem, nowMs: clock.nowMs() });
  await files.makeDirectory(PLACES.ca);
  await files.writeAtomic(`${PLACES.ca}/ca.crt`, caPem);
  await files.writeAtomic(`${PLACES.ca}/ca.key`, keyPem.reveal());
  membership = {
    ...{ clusterId, clusterName: 'blue', clusterCaPem: caPem, epoch: 1, nodeCertPem: '' },
    ...{ nodeId: nodeIdOf(machine.pubKeyDer), nodeName: 'c1', nodeAddress: '192.0.2.1', directory: [] },
  };
});

const ensure = () =>
  ensureCuratorCredentials(
    { files, nowMs: () => clock.nowMs() },
    { membership, machine, validMinutes: 7 * 24 * 60 },
  );
const read = async (path: string) => Buffer.from((await files.read(path, 65_536)) ?? []).toString('utf8');
const shown = async () => new X509Certificate(await read(PLACES.curatorCert));

describe('ensureCuratorCredentials()', () => {
  test('makes a certificate of this control plane for a key that is not the machine’s', async () => {
    const at = await ensure();
    const certificate = await shown();
    const trust = { caPem: membership.clusterCaPem, clusterId, nowMs: () => clock.nowMs() };
    expect(verifyControlPlane(certificate, trust)).toEqual({ clusterId, nodeId: membership.nodeId });
    expect(spkiOf(certificate.publicKey)).toEqual(pubKeyOf(new Secret(await read(at.keyFile))));
    expect(spkiOf(certificate.publicKey)).not.toEqual(machine.pubKeyDer);
  });

  test('keeps what is good: a start changes nothing', async () => {
    await ensure();
    const before = await read(PLACES.curatorCert);
    await clock.advance(HOUR_MS);
    await ensure();
    expect(await read(PLACES.curatorCert)).toBe(before);
  });

  test.each([
    { name: 'two thirds of its life are over', change: () => clock.advance(5 * 24 * HOUR_MS) },
    {
      name: 'the node has another address',
      change: () => void (membership = { ...membership, nodeAddress: '192.0.2.2' }),
    },
    {
      name: 'the key is another one',
      change: () => files.writeAtomic(PLACES.curatorKey, generateKeyPem().reveal()),
    },
    { name: 'the certificate is damaged', change: () => files.writeAtomic(PLACES.curatorCert, 'x') },
    { name: 'the key is gone', change: () => files.remove(PLACES.curatorKey) },
  ])('makes a certificate for a new key where $name', async ({ change }) => {
    await ensure();
    const before = await shown();
    await change();
    await ensure();
    expect(spkiOf((await shown()).publicKey)).not.toEqual(spkiOf(before.publicKey));
  });

  test.each([
    { name: 'is not there', change: () => files.remove(`${PLACES.ca}/ca.key`) },
    { name: 'is of another cluster', change: () => files.writeAtomic(`${PLACES.ca}/ca.crt`, 'other') },
  ])('makes nothing where the cluster CA $name', async ({ change }) => {
    await change();
    await expect(ensure()).rejects.toMatchObject({ code: 'curatorunit-no-authority', retryable: true });
  });
});

test('curatorTimes() says that a damaged certificate is due, and nothing where there is none', async () => {
  expect(await curatorTimes(files)).toEqual([]);
  await ensure();
  expect((await curatorTimes(files))[0]?.notAfterMs).toBeGreaterThan(clock.nowMs());
  await files.writeAtomic(PLACES.curatorCert, 'x');
  expect(await curatorTimes(files)).toEqual([{ madeMs: 0, notAfterMs: 0 }]);
});

test('removeCuratorCredentials() leaves neither key nor certificate', async () => {
  await ensure();
  await removeCuratorCredentials(files);
  expect([await files.stat(PLACES.curatorKey), await files.stat(PLACES.curatorCert)]).toEqual([
    undefined,
    undefined,
  ]);
});
