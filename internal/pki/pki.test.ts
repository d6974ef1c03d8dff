import 'reflect-metadata';
import { describe, expect, test } from '@jest/globals';
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Pkcs10CertificateRequestGenerator,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { Secret } from '../secret/index.ts';
import { createCaCertPem, KeyCertificateSigner } from './certificate-signer.ts';
import { generateKeyPem, nodeIdOf, pubKeyDerOf, spkiDerOf } from './keys.ts';
import { verifyControlPlaneCertificate } from './curator-certificate.ts';
import {
  nodeLeaf,
  operatorLeaf,
  verifyMemberCertificate,
  verifyNodeCertificate,
} from './member-certificate.ts';
import { createCertificateRequest, verifyCertificateRequest } from './certificate-request.ts';
import { generateKeyPairSync } from 'node:crypto';

const NOW = Date.UTC(2026, 5, 1);
const DAY_MS = 86_400_000;
const clusterId = 'c0ffee';
const RSA_2048 = { modulusLength: 2048, publicExponent: Uint8Array.of(1, 0, 1) };

async function createSigner(nowMs = NOW) {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'test CA', keyPem, nowMs });
  return new KeyCertificateSigner({ caPem, keyPem, nowMs: () => nowMs });
}

const ed25519 = () =>
  new Secret(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());

/** A CA whose key identifier is derived in the way of kubeadm, which differs from the way of this project. */
async function createForeignSigner(): Promise<KeyCertificateSigner> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const ca = await X509CertificateGenerator.createSelfSigned(
    {
      name: [{ CN: ['kubernetes'] }],
      ...{ notBefore: new Date(NOW - DAY_MS), notAfter: new Date(NOW + DAY_MS) },
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true),
        new SubjectKeyIdentifierExtension('00112233445566778899aabbccddeeff00112233'),
      ],
    },
    webcrypto,
  );
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  const keyPem = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({
    type: 'pkcs8',
    format: 'pem',
  });
  return new KeyCertificateSigner({
    caPem: ca.toString('pem'),
    keyPem: new Secret(keyPem.toString()),
    nowMs: () => NOW,
  });
}

test('KeyCertificateSigner copies the key identifier of the CA into issued certificates', async () => {
  const signer = await createForeignSigner();
  const pem = await signer.issue({
    ...{
      commonName: 'kube-apiserver',
      pubKeyDer: pubKeyDerOf(generateKeyPem()),
      usages: ['server'],
      names: [],
    },
    validDays: 1,
  });
  // `checkIssued()` calls OpenSSL, as TLS in Node does.
  expect(new X509Certificate(pem).checkIssued(new X509Certificate(signer.caPem))).toBe(true);
});

describe('certificates of cluster members', () => {
  test.each([
    { name: 'ECDSA P-256', key: generateKeyPem() },
    { name: 'Ed25519', key: ed25519() },
  ])('verifyMemberCertificate() returns the identity of a node with an $name key', async ({ key }) => {
    const signer = await createSigner();
    const pubKeyDer = pubKeyDerOf(key);
    const pem = await signer.issue(
      nodeLeaf({ clusterId, pubKeyDer, addresses: ['198.18.0.11', '2001:db8::1'] }),
    );
    const certificate = new X509Certificate(pem);
    const nodeId = nodeIdOf(pubKeyDer);
    expect(
      verifyMemberCertificate(certificate, { caPem: signer.caPem, clusterId, nowMs: () => NOW }),
    ).toMatchObject({
      kind: 'node',
      nodeId,
      clusterId,
      addresses: ['198.18.0.11', '2001:DB8:0:0:0:0:0:1'],
    });
    expect(certificate.checkIP('198.18.0.11')).toBe('198.18.0.11');
    expect(certificate.checkIP('2001:db8::1')).toBeDefined();
    expect(certificate.checkHost(nodeId)).toBe(nodeId);
    expect((Date.parse(certificate.validTo) - NOW) / DAY_MS).toBe(7);
  });

  test('verifyControlPlaneCertificate() accepts a control plane and refuses a worker', async () => {
    const signer = await createSigner();
    const trust = { caPem: signer.caPem, clusterId, nowMs: () => NOW };
    const certificate = async (isControlPlane: boolean): Promise<X509Certificate> => {
      const pubKeyDer = pubKeyDerOf(generateKeyPem());
      return new X509Certificate(
        await signer.issue(nodeLeaf({ clusterId, pubKeyDer, addresses: [], isControlPlane })),
      );
    };
    const own = await certificate(true);
    expect(verifyControlPlaneCertificate(own, trust)).toEqual(verifyMemberCertificate(own, trust));
    const worker = await certificate(false);
    expect(verifyMemberCertificate(worker, trust).kind).toBe('node');
    expect(() => verifyControlPlaneCertificate(worker, trust)).toThrow(
      expect.objectContaining({ code: 'pki-untrusted' }),
    );
  });

  test('verifyNodeCertificate() refuses an operator whose name is a node id', async () => {
    const signer = await createSigner();
    const pem = await signer.issue(
      operatorLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), name: 'a/../node/x' }),
    );
    const trust = { caPem: signer.caPem, clusterId, nowMs: () => NOW };
    expect(verifyMemberCertificate(new X509Certificate(pem), trust)).toMatchObject({
      kind: 'operator',
      name: 'a/../node/x',
    });
    expect(() => verifyNodeCertificate(new X509Certificate(pem), trust)).toThrow(
      expect.objectContaining({ code: 'pki-untrusted' }),
    );
  });

  test.each([
    { name: 'of another cluster', change: { clusterId: 'other' }, code: 'pki-untrusted' },
    { name: 'after its notAfter', change: { nowMs: () => NOW + 7 * DAY_MS + 301_000 }, code: 'pki-expired' },
    { name: 'before its notBefore', change: { nowMs: () => NOW - 601_000 }, code: 'pki-expired' },
  ])('verifyMemberCertificate() refuses a certificate $name', async ({ change, code }) => {
    const signer = await createSigner();
    const pem = await signer.issue(
      nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), addresses: [] }),
    );
    const trust = { caPem: signer.caPem, clusterId, nowMs: () => NOW, ...change };
    expect(() => verifyMemberCertificate(new X509Certificate(pem), trust)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test('verifyMemberCertificate() tolerates a clock that is 5m ahead', async () => {
    const signer = await createSigner();
    const pem = await signer.issue(
      nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), addresses: [] }),
    );
    const trust = { caPem: signer.caPem, clusterId, nowMs: () => NOW + 7 * DAY_MS + 299_000 };
    expect(verifyMemberCertificate(new X509Certificate(pem), trust).kind).toBe('node');
  });

  test('verifyMemberCertificate() refuses a certificate of a CA with the same name and another key', async () => {
    const [ours, theirs] = [await createSigner(), await createSigner()];
    const pem = await theirs.issue(
      nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), addresses: [] }),
    );
    expect(() =>
      verifyMemberCertificate(new X509Certificate(pem), { caPem: ours.caPem, clusterId, nowMs: () => NOW }),
    ).toThrow(expect.objectContaining({ code: 'pki-untrusted' }));
  });

  test.each([
    { name: 'the id of another node', change: { uri: 'cluster://c0ffee/node/node-00' } },
    {
      name: 'the name of an operator that is valid for TLS servers',
      change: { uri: 'cluster://c0ffee/operator/eve' },
    },
    { name: 'the name of neither a node nor an operator', change: { uri: 'https://c0ffee/node/x' } },
  ])('verifyMemberCertificate() refuses a certificate with $name', async ({ change }) => {
    const signer = await createSigner();
    const spec = nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(generateKeyPem()), addresses: [] });
    const pem = await signer.issue({ ...spec, names: [{ type: 'url', value: change.uri }] });
    expect(() =>
      verifyMemberCertificate(new X509Certificate(pem), { caPem: signer.caPem, clusterId, nowMs: () => NOW }),
    ).toThrow(expect.objectContaining({ code: 'pki-untrusted' }));
  });

  test('verifyMemberCertificate() refuses the CA certificate itself', async () => {
    const signer = await createSigner();
    const trust = { caPem: signer.caPem, clusterId, nowMs: () => NOW };
    expect(() => verifyMemberCertificate(new X509Certificate(signer.caPem), trust)).toThrow(
      expect.objectContaining({ code: 'pki-untrusted' }),
    );
  });
});

describe('certificate requests', () => {
  test('verifyCertificateRequest() returns the public key of a valid request', async () => {
    const key = generateKeyPem();
    expect(await verifyCertificateRequest(await createCertificateRequest(key, 'x'))).toEqual(
      pubKeyDerOf(key),
    );
  });

  test('verifyCertificateRequest() refuses a request with a flipped bit in its signature, and truncated, extended or empty input', async () => {
    const good = await createCertificateRequest(generateKeyPem(), 'x');
    const flipped = good.slice();
    flipped.set([(flipped.at(-1) ?? 0) ^ 1], flipped.length - 1);
    for (const bad of [flipped, good.slice(0, -1), new Uint8Array(), new Uint8Array(9000)]) {
      await expect(verifyCertificateRequest(bad)).rejects.toMatchObject({ code: 'pki-request-invalid' });
    }
  });

  test.each([
    { kind: 'P-384', algorithm: { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' } },
    { kind: 'RSA', algorithm: { ...RSA_2048, name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' } },
  ])('verifyCertificateRequest() refuses a valid request for a $kind key', async ({ algorithm }) => {
    const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
    const request = await Pkcs10CertificateRequestGenerator.create(
      { name: 'CN=x', keys, signingAlgorithm: algorithm },
      webcrypto,
    );
    expect(await request.verify(webcrypto)).toBe(true);
    await expect(verifyCertificateRequest(new Uint8Array(request.rawData))).rejects.toMatchObject({
      code: 'pki-request-invalid',
    });
  });

  test('issue() refuses a P-384 key', async () => {
    const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'secp384r1' });
    const leaf = nodeLeaf({ clusterId, pubKeyDer: spkiDerOf(publicKey), addresses: [] });
    await expect((await createSigner()).issue(leaf)).rejects.toThrow(TypeError);
  });

  test('createCertificateRequest() refuses a key on a weak curve', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'secp224r1' });
    const key = new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
    await expect(createCertificateRequest(key, 'x')).rejects.toThrow(TypeError);
  });
});
