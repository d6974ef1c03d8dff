import { isIP } from 'node:net';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
} from '../../../internal/pki/index.ts';

/** A CA that only the story knows, and certificates of servers at an address or a name. */
export async function createPrivateCa(host: string) {
  const nowMs = Date.now();
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'private CA of a story', keyPem, nowMs });
  const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => nowMs });
  const issue = async () => {
    const serverKey = generateKeyPem();
    const certPem = await signer.issue({
      commonName: 'server',
      pubKeyDer: pubKeyDerOf(serverKey),
      usages: ['server'],
      names: [{ type: isIP(host) === 0 ? 'dns' : 'ip', value: host }],
      validDays: 1,
    });
    return { certPem, keyPem: serverKey.reveal() };
  };
  return { caPem, issue };
}
