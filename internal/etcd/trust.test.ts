import { beforeAll, describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { createCaCertPem, generateKeyPem, KeyCertificateSigner, pubKeyDerOf } from '../pki/index.ts';
import { acceptEtcdServer } from './trust.ts';

const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
const endpoint = '192.0.2.1:2379';
let [before, after, other]: KeyCertificateSigner[] = [];

beforeAll(async () => {
  const signer = async (commonName: string): Promise<KeyCertificateSigner> => {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName, keyPem, nowMs: NOW_MS });
    return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => NOW_MS });
  };
  // Three CAs with the same name, so that only their keys can decide which one signed a certificate.
  [before, after, other] = [await signer('etcd'), await signer('etcd'), await signer('etcd')];
});

async function shown(
  by: KeyCertificateSigner | undefined,
  trusted: readonly (KeyCertificateSigner | undefined)[],
): Promise<string> {
  const names = [{ type: 'ip', value: '192.0.2.1' }] as const;
  const leaf = { commonName: 'n', usages: ['server'], names, validDays: 1 } as const;
  const pem = (await by?.issue({ ...leaf, pubKeyDer: pubKeyDerOf(generateKeyPem()) })) ?? '';
  const serverCaPem = trusted.map((each) => each?.caPem ?? '').join('');
  return acceptEtcdServer({ serverCaPem, endpoint, nowMs: () => NOW_MS })(new X509Certificate(pem));
}

describe('acceptEtcdServer() with two CAs', () => {
  test('accepts a server certificate of the old and of the new CA', async () => {
    expect(await shown(before, [before, after])).toBe('192.0.2.1');
    expect(await shown(after, [before, after])).toBe('192.0.2.1');
  });

  test('refuses a certificate of a third CA, and one of the old CA after the rotation', async () => {
    const refused = expect.objectContaining({ code: 'rpc-handshake' });
    await expect(shown(other, [before, after])).rejects.toEqual(refused);
    await expect(shown(before, [after])).rejects.toEqual(refused);
  });

  test('refuses an empty list of CAs', async () => {
    await expect(shown(before, [])).rejects.toThrow(TypeError);
  });
});
