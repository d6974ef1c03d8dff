import { describe, expect, test } from '@jest/globals';
import { certificateTimesOf, createCaCertPem, generateKeyPem } from '../../../internal/pki/index.ts';
import { FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
import {
  hasOutdatedServersCa,
  recordServingCertificate,
  restartForServingCertificate,
  SERVED_CERT_COPY,
  servedCertificateTimes,
} from './serving-certificate.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { KUBELET_UNIT } from '../node/units.ts';

const never = new AbortController().signal;
const certificate = (nowMs: number): Promise<string> =>
  createCaCertPem({ commonName: 'kubelet', keyPem: generateKeyPem(), nowMs });

async function createKubelet() {
  const files = new MemoryFiles();
  const units = new FakeUnits();
  const ports = { files, units };
  const first = await certificate(Date.UTC(2026, 0, 1));
  await files.makeDirectory('/var/lib/cluster/kubernetes');
  await files.writeAtomic(KUBELET_FILES.servingCert, first);
  units.active.add(KUBELET_UNIT);
  await recordServingCertificate(ports);
  const second = await certificate(Date.UTC(2026, 5, 1));
  return { files, units, ports, first, second };
}

describe('servedCertificateTimes()', () => {
  test('returns undefined while the kubelet presents the certificate on disk', async () => {
    const { ports } = await createKubelet();
    expect(await servedCertificateTimes(ports, never)).toBeUndefined();
  });

  test('returns the validity of the presented certificate until the kubelet is restarted', async () => {
    const { files, units, ports, first, second } = await createKubelet();
    await files.writeAtomic(KUBELET_FILES.servingCert, second);
    expect(await servedCertificateTimes(ports, never)).toEqual(certificateTimesOf(first));
    await restartForServingCertificate(ports, never);
    expect(units.moves).toEqual([`restart ${KUBELET_UNIT}`]);
    expect(await servedCertificateTimes(ports, never)).toBeUndefined();
  });

  test('returns a validity that expired long ago if the presented certificate is unknown', async () => {
    const { files, ports } = await createKubelet();
    await files.remove(SERVED_CERT_COPY);
    expect(await servedCertificateTimes(ports, never)).toEqual({ issuedMs: 0, notAfterMs: 0 });
    await files.writeAtomic(SERVED_CERT_COPY, 'half a certific');
    expect(await servedCertificateTimes(ports, never)).toEqual({ issuedMs: 0, notAfterMs: 0 });
  });

  test('returns undefined without a running kubelet or without a certificate', async () => {
    const { files, units, ports, second } = await createKubelet();
    await files.writeAtomic(KUBELET_FILES.servingCert, second);
    units.active.clear();
    expect(await servedCertificateTimes(ports, never)).toBeUndefined();
    units.active.add(KUBELET_UNIT);
    await files.remove(KUBELET_FILES.servingCert);
    expect(await servedCertificateTimes(ports, never)).toBeUndefined();
  });
});

test('hasOutdatedServersCa() returns whether the kubelet was started with other CAs of API servers', async () => {
  const { files, ports } = await createKubelet();
  await files.writeAtomic(KUBELET_FILES.ca, 'previous');
  // An agent of an earlier version has started this kubelet.
  expect(await hasOutdatedServersCa(files)).toBe(false);
  await restartForServingCertificate(ports, never);
  expect(await hasOutdatedServersCa(files)).toBe(false);
  await files.writeAtomic(KUBELET_FILES.ca, 'next');
  expect(await hasOutdatedServersCa(files)).toBe(true);
  await restartForServingCertificate(ports, never);
  expect(await hasOutdatedServersCa(files)).toBe(false);
});
