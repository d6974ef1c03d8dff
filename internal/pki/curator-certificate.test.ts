import { beforeAll, describe, expect, test } from '@jest/globals';
import { createPrivateKey, generateKeyPairSync, sign, X509Certificate } from 'node:crypto';
import { Secret } from '../secret/index.ts';
import { createCaCertPem, KeyCertificateSigner, type LeafSpec } from './certificate-signer.ts';
import {
  curatorLeaf,
  delegationStatement,
  verifyControlPlaneCertificate,
  verifyCuratorCertificate,
} from './curator-certificate.ts';
import { generateKeyPem, nodeIdOf, pubKeyDerOf } from './keys.ts';
import { nodeLeaf, verifyMemberCertificate, type MemberTrust } from './member-certificate.ts';

const NOW = Date.UTC(2026, 0, 1);
const DAY_SECONDS = 24 * 60 * 60;
const clusterId = 'c0ffee';
const node = ed25519();
const tls = ed25519();
const notAfterSeconds = NOW / 1000 + 7 * DAY_SECONDS;
let signer: KeyCertificateSigner;
let trust: MemberTrust;

beforeAll(async () => {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: NOW });
  signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => NOW });
  trust = { caPem, clusterId, nowMs: () => NOW };
});

function ed25519(): Secret<string> {
  return new Secret(
    generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  );
}

/** The content of a curator certificate as the agent requests it, with the changes in `over`. */
function leaf(
  over: {
    readonly signedBy?: Secret<string>;
    readonly signedFor?: Partial<Parameters<typeof delegationStatement>[0]>;
  } = {},
): LeafSpec {
  const delegation = { clusterId, tlsPubKeyDer: pubKeyDerOf(tls), notAfterSeconds };
  const statement = delegationStatement({ ...delegation, ...over.signedFor });
  const key = createPrivateKey((over.signedBy ?? node).reveal());
  return curatorLeaf({
    delegation,
    nodePubKeyDer: pubKeyDerOf(node),
    signature: new Uint8Array(sign(undefined, statement, key)),
    addresses: ['198.18.0.11'],
    validDays: 7,
  });
}

const issued = async (spec: LeafSpec): Promise<X509Certificate> =>
  new X509Certificate(await signer.issue(spec));
const coded = (code: string): unknown => expect.objectContaining({ code });

describe('verifyCuratorCertificate()', () => {
  test('returns the node that delegated to the TLS key of its services', async () => {
    const certificate = await issued(leaf());
    const nodeId = nodeIdOf(pubKeyDerOf(node));
    expect(verifyCuratorCertificate(certificate, trust)).toEqual({ clusterId, nodeId });
    expect(verifyControlPlaneCertificate(certificate, trust)).toEqual({ clusterId, nodeId });
    expect(certificate.checkHost(nodeId)).toBe(nodeId);
    expect(certificate.checkIP('198.18.0.11')).toBe('198.18.0.11');
  });

  test('accepts the certificate of the node itself, which older releases use', async () => {
    const spec = nodeLeaf({ clusterId, pubKeyDer: pubKeyDerOf(node), addresses: [] });
    expect(verifyCuratorCertificate(await issued(spec), trust)).toMatchObject({
      nodeId: nodeIdOf(pubKeyDerOf(node)),
    });
  });

  test.each([
    { name: 'with a delegation that no node signed', given: () => leaf({ signedBy: ed25519() }) },
    {
      name: 'with a delegation to another TLS key',
      given: () => leaf({ signedFor: { tlsPubKeyDer: pubKeyDerOf(ed25519()) } }),
    },
    { name: 'with a delegation for another cluster', given: () => leaf({ signedFor: { clusterId: 'x' } }) },
    {
      name: 'with a delegation whose expiry was extended',
      given: () => leaf({ signedFor: { notAfterSeconds: notAfterSeconds - 1 } }),
    },
    {
      name: 'with the id of another node',
      given: () => renamed(leaf(), nodeIdOf(pubKeyDerOf(node)), nodeIdOf(pubKeyDerOf(tls))),
    },
    { name: 'of another cluster', given: () => renamed(leaf(), clusterId, 'decade') },
    {
      name: 'that is also valid for TLS clients',
      given: (): LeafSpec => ({ ...leaf(), usages: ['server', 'client'] }),
    },
    {
      name: 'with the names of two cluster members',
      given: (): LeafSpec => {
        const spec = leaf();
        return { ...spec, names: [...spec.names, { type: 'url', value: 'cluster://c0ffee/curator/x' }] };
      },
    },
  ])('refuses a certificate $name', async ({ given }) => {
    const certificate = await issued(given());
    expect(() => verifyCuratorCertificate(certificate, trust)).toThrow(coded('pki-untrusted'));
  });

  test('refuses an expired delegation even while the certificate is valid', async () => {
    const certificate = await issued({ ...leaf(), validDays: 100 });
    const later = { ...trust, nowMs: () => (notAfterSeconds + 301) * 1000 };
    expect(() => verifyCuratorCertificate(certificate, later)).toThrow(coded('pki-expired'));
  });

  test('refuses a certificate of another CA', async () => {
    const keyPem = generateKeyPem();
    const caPem = await createCaCertPem({ commonName: 'cluster', keyPem, nowMs: NOW });
    const certificate = await issued(leaf());
    expect(() => verifyCuratorCertificate(certificate, { ...trust, caPem })).toThrow(coded('pki-untrusted'));
  });
});

test('verifyMemberCertificate() refuses the certificate of a curator', async () => {
  const certificate = await issued(leaf());
  expect(() => verifyMemberCertificate(certificate, trust)).toThrow(coded('pki-untrusted'));
});

function renamed(spec: LeafSpec, from: string, to: string): LeafSpec {
  return { ...spec, names: spec.names.map(({ type, value }) => ({ type, value: value.replace(from, to) })) };
}
