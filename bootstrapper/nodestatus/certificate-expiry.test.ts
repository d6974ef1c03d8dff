import { generateKeyPairSync } from 'node:crypto';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { selfSignedCertificate } from '../../internal/crypto/index.ts';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { PATHS } from '../kubernetes/index.ts';
import { createCertificateExpiryLister } from './certificate-expiry.ts';

const FROM_MS = Date.UTC(2026, 0, 1);
let files: MemoryFiles;
let certPem: string;

beforeEach(async () => {
  files = new MemoryFiles();
  const keyPem = generateKeyPairSync('ed25519').privateKey.export({
    type: 'pkcs8',
    format: 'pem',
  }) as string;
  certPem = await selfSignedCertificate({ keyPem, commonName: 'x', nowMs: FROM_MS });
  await files.makeDirectory(PATHS.pki);
  await files.writeAtomic(`${PATHS.pki}/apiserver.crt`, certPem);
});

describe('createCertificateExpiryLister()', () => {
  test('lists certificates in directories and in kubeconfigs, and skips other files', async () => {
    const data = Buffer.from(certPem).toString('base64');
    await files.writeAtomic('/etc/kubernetes/admin.conf', `users:\n- client-certificate-data: ${data}\n`);
    await files.writeAtomic(`${PATHS.pki}/broken.crt`, 'nothing');
    const listed = await createCertificateExpiryLister(files, new FakeClock())();
    expect(listed.map(({ name }) => name).toSorted()).toEqual([
      '/etc/kubernetes/admin.conf',
      `${PATHS.pki}/apiserver.crt`,
    ]);
    for (const { notAfterMs } of listed) expect(notAfterMs).toBeGreaterThan(FROM_MS);
  });

  test('reads the certificates again after a minute, not before', async () => {
    const clock = new FakeClock();
    const list = createCertificateExpiryLister(files, clock);
    expect(await list()).toHaveLength(1);
    await files.writeAtomic(`${PATHS.pki}/new.crt`, certPem);
    await clock.advance(59_000);
    expect(await list()).toHaveLength(1);
    await clock.advance(1_000);
    expect(await list()).toHaveLength(2);
  });

  test('reads only changed files again, and drops deleted ones', async () => {
    const clock = new FakeClock();
    const list = createCertificateExpiryLister(files, clock);
    await files.writeAtomic(`${PATHS.pki}/front.crt`, certPem);
    await list();
    const read: string[] = [];
    const reading = files.read.bind(files);
    files.read = (path, maxBytes) => (read.push(path), reading(path, maxBytes));
    await clock.advance(60_000);
    expect(await list()).toHaveLength(2);
    expect(read).toEqual([]);
    await files.writeAtomic(`${PATHS.pki}/front.crt`, 'nothing');
    await clock.advance(60_000);
    expect((await list()).map(({ name }) => name)).toEqual([`${PATHS.pki}/apiserver.crt`]);
    expect(read).toEqual([`${PATHS.pki}/front.crt`]);
    await files.remove(`${PATHS.pki}/apiserver.crt`);
    await clock.advance(60_000);
    expect(await list()).toEqual([]);
    expect(read).toHaveLength(1);
  });

  test('reads again at the next call after a read error', async () => {
    const list = createCertificateExpiryLister(files, new FakeClock());
    const read = files.list.bind(files);
    files.list = () => Promise.reject(new Error('disk'));
    await expect(list()).rejects.toThrow('disk');
    files.list = read;
    expect(await list()).toHaveLength(1);
  });
});
